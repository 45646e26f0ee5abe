// What the page says about the network: texts, small pictures, and whether an invitation is met.
"use strict";

function drawAll() {
  const summary = state.task === "curve" ? predictiveMoments(draws) : classUncertainty(draws);
  drawPlot(plot, { ...state, probe: hover ?? probe }, summary, draws);
  const at = opinion(hover ?? probe);
  element("probe").textContent = probeText(hover ?? probe, at);
  element("legend").textContent = legend();
  showScale();
  drawLosses(element("losses"), losses.means);
  element("loss").textContent = lossText();
  const noisy = model.networks[0].layers.filter(({ noise }) => noise.log_alpha);
  if (noisy.length) showAlphas(noisy);
  if (state.method === "structured") showFactors(noisy.at(-1).noise);
  if (invitation) showGoal(at, summary);
}

function legend() {
  const shown = {
    spread: model.functions.length === 1
      ? "The line is its one function, the band the observation noise."
      : "Dark band: where its functions differ (two standard deviations). Light: observation noise.",
    functions: "Every line is a function that it holds possible.",
    probability: "The colour is the class that it answers; it fades where the network does not know.",
    entropy: "Bright: it is uncertain, for whatever reason.",
    mutual_information: "Bright: its functions disagree about the answer.",
  };
  return shown[state.view];
}

function showScale() {
  const stops = mapColours(state.view).map((rgb) => `rgb(${rgb.join(" ")})`);
  const top = (MAP_TOP[state.view] ?? 0).toFixed(state.view === "probability" ? 0 : 2);
  const unit = state.view === "probability" ? "" : " nats";
  const bar = element("scale");
  bar.textContent = "";
  const strip = document.createElement("i");
  strip.style.background = `linear-gradient(90deg, ${stops.join(",")})`;
  bar.append("0 ", strip, ` ${top}${unit}`);
}

/** A number as text, with a minus where JavaScript has a hyphen. */
function fixed(value) {
  return value.toFixed(2).replace("-", "−");
}

/** What the functions say at one place. */
function opinion(place) {
  const inputs = Float64Array.from(state.task === "curve" ? [place.x] : [place.x, place.y]);
  const values = model.functions.map((_, s) => model.evaluate(s, inputs));
  const summary = state.task === "curve" ? predictiveMoments(values) : classUncertainty(values);
  return Object.fromEntries(Object.entries(summary).map(([name, [value]]) => [name, value]));
}

function probeText(place, at = opinion(place)) {
  const x = fixed(place.x);
  if (state.task === "curve") {
    const both = fixed(Math.hypot(at.std, state.noise_std));
    return (
      `At x = ${x}: mean ${fixed(at.mean)}, standard deviation of the functions ` +
      `${fixed(at.std)}, with observation noise ${both}.`
    );
  }
  const rest = fixed(at.entropy - at.mutual_information);
  return (
    `At (${x}, ${fixed(place.y)}): class 1 with ${(100 * at.probability).toFixed(0)} %. Entropy ` +
    `${fixed(at.entropy)} = ${fixed(at.mutual_information)} (the functions disagree: mutual ` +
    `information) + ${rest} (each is uncertain by itself).`
  );
}

function lossText() {
  if (!losses.last) return "before the first step";
  const { loss, nll_mean } = losses.last;
  return (
    `${fixed(loss)} = ${fixed(nll_mean)} (nll_mean) + ${fixed(loss - nll_mean)} ` +
    `(kl_weight · kl / n_train) after ${model.steps.toLocaleString("en")} steps`
  );
}

function showAlphas(layers) {
  const alphas = layers.map(({ noise }) => noise.log_alpha.map(Math.exp));
  drawAlphas(element("alphas"), alphas);
  const values = alphas.flatMap((layer) => [...layer]);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  element("alpha-text").textContent = `alpha of each unit, 0 to 1, layer by layer: mean ${fixed(mean)}`;
}

/** The two factors of a layer with the strongest correlation. */
function showFactors(noise) {
  const K = noise.n_units;
  const cov = noise.covariance();
  const correlation = (i, j) => cov[i * K + j] / Math.sqrt(cov[i * K + i] * cov[j * K + j]);
  let best = { i: 0, j: 1, rho: 0 };
  for (let i = 0; i < K; i++) {
    for (let j = i + 1; j < K; j++) {
      const rho = correlation(i, j);
      if (Math.abs(rho) > Math.abs(best.rho)) best = { i, j, rho };
    }
  }
  const factors = noise.factors(noise.draw(200, new Random(0)));
  const pairs = range(200, (row) => ({ x: factors[row * K + best.i], y: factors[row * K + best.j] }));
  drawFactors(element("factors"), pairs);
  element("factor-text").textContent =
    `Factors of units ${best.i + 1} and ${best.j + 1} of the last layer, 200 draws: ` +
    `correlation ${fixed(best.rho)}`;
}

/** Keeps what the functions say at the cross before a setting changes it. */
function remember() {
  if (model.steps < 100) return;
  const at = opinion(probe);
  const { method, n_reflections } = state;
  const name = methodName(method);
  const what = state.task === "curve"
    ? `std ${fixed(at.std)}`
    : `entropy ${fixed(at.entropy)}, mutual information ${fixed(at.mutual_information)}`;
  earlier = [[`${name}${method === "structured" ? `, T = ${n_reflections}` : ""}`, what], ...earlier];
  earlier = earlier.slice(0, 4);
  const rows = earlier.map((cells) => {
    const row = document.createElement("tr");
    for (const text of cells) row.insertCell().textContent = text;
    return row;
  });
  element("earlier").replaceChildren(...rows);
}

function methodName(method) {
  return [...controls("method")[0].options].find(({ value }) => value === method).textContent;
}

/** For readers of screens. */
function say(text) {
  element("say").textContent = text;
}

function makeInvitations() {
  const buttons = INVITATIONS.map((chosen, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `${index + 1}. ${chosen.title}`;
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => invite(chosen, button));
    return button;
  });
  element("invitations").replaceChildren(...buttons);
}

function invite(chosen, button) {
  pause();
  for (const other of element("invitations").children) {
    other.setAttribute("aria-pressed", String(other === button));
  }
  invitation = chosen;
  notes = {};
  earlier = [];
  element("earlier").replaceChildren();
  setUp(chosen.setup);
  element("task").innerHTML = chosen.task;
  element("welcome").hidden = true;
  makeChoices(chosen.choices ?? { values: {} });
  element("task").scrollIntoView({ block: "nearest" });
  say(element("task").textContent);
}

/** Buttons for the setting that the task asks for; on a phone its control is a long way down. */
function makeChoices({ name, values }) {
  const buttons = Object.entries(values).map(([value, text]) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.value = value;
    button.addEventListener("click", () => choose(name, value));
    return button;
  });
  element("choices").replaceChildren(...buttons);
}

function showGoal(at, summary) {
  if (state.task !== invitation.setup.task) return;
  const here = hover ?? probe;
  const nearest = nearestPoint(state.points, here);
  const distance = nearest ? Math.hypot(nearest.x - here.x, nearest.y - here.y) : 2 * LIMIT;
  const summaryAt = (somewhere) => lookUp(summary, state.task, somewhere);
  for (const button of element("choices").children) {
    const is_chosen = button.value === String(state[invitation.choices.name]);
    button.setAttribute("aria-pressed", String(is_chosen));
  }
  const was_done = notes.done;
  if (model.steps >= TRAINED) invitation.reached({ state, at, distance, summaryAt }, notes);
  element("goal").textContent = goalText();
  if (notes.done && !was_done) say(notes.done);
}

function goalText() {
  if (notes.done) return `✓ ${notes.done}`;
  if (model.steps >= TRAINED) return notes.hint ?? "";
  if (is_playing) return `It is learning: step ${model.steps} of ${TRAINED}.`;
  return "Press Play.";
}
