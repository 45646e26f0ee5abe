// The page: its settings and address, the loop that trains and draws, pointer and keys.
"use strict";

const N_FUNCTIONS = { curve: 40, classes: 20 };
const FRAME_MS = { train: 12, draw: 10 }; // the time that a frame may take for each
const DEFAULTS = {
  task: "curve", set: "gap", method: "dropout", p_drop: 0.2, n_reflections: 2, kl_weight: 0.1,
  noise_std: 0.1, depth: 2, width: 32, activation: "relu", lr: 0.01, view: "spread", speed: 20,
  label: 0, seed: 1,
};
const LIVE = ["kl_weight", "noise_std", "lr", "view", "speed", "label"]; // no new start after these
const FIRST_VIEW = { curve: "spread", classes: "probability" };

const element = (id) => document.getElementById(id);
const all = (selector) => [...document.querySelectorAll(selector)];
const plot = element("plot");

let state; // the settings by their names, and the points
let model;
let grid; // the inputs at which functions are drawn
let draws; // the functions on the grid, each as it was when it was last computed
let drawn_at; // the step of each
let losses;
let probe; // the cross: { x, y }
let hover = null; // where the mouse is
let is_playing = false;
let is_waiting = false; // for the next frame
let invitation = null;
let notes = {};
let earlier = [];

// ------------------------------------------------------------------------- settings and address

function controls(name) {
  return all(`[name=${name}]`);
}

/** Puts a setting into its control; one that the control does not have is left out. */
function show(name, value) {
  for (const control of controls(name)) {
    if (control.type === "radio") control.checked = control.value === String(value);
    else if (control.type === "range") control.value = value;
    else if (optionsOf(control).some((option) => option.value === String(value))) {
      control.value = String(value);
    }
  }
}

/** The options of a list that belong to the task. */
function optionsOf(list) {
  return [...list.options].filter(({ dataset }) => (dataset.task ?? state.task) === state.task);
}

function read(name) {
  const [first, ...others] = controls(name);
  const value = (others.length ? [first, ...others].find(({ checked }) => checked) : first).value;
  return value === "" || Number.isNaN(Number(value)) ? value : Number(value);
}

/** Takes over settings and points, `{}` for the start of the page, and begins to train anew. */
function setUp(changes) {
  state = { ...DEFAULTS };
  show("task", changes.task ?? state.task);
  state.task = read("task");
  fillSets();
  state.view = FIRST_VIEW[state.task];
  for (const [name, value] of Object.entries({ ...state, ...changes })) show(name, value);
  for (const name of Object.keys(DEFAULTS)) if (controls(name).length) state[name] = read(name);
  limitRate();
  state.seed = Number(changes.seed) || DEFAULTS.seed;
  state.points = changes.points
    ? pointsFromText(changes.points, state.task)
    : readySet(state.task, state.set);
  if (changes.points) ownPoints();
  probe = changes.probe ?? { x: 0, y: 0 };
  restart();
}

/** A learned alpha is at most 1, which is the variance of dropout at a rate of a half. */
function limitRate() {
  controls("p_drop")[0].max = state.method === "dropout" ? 0.9 : 0.5;
  state.p_drop = read("p_drop");
}

function fillSets() {
  const options = Object.entries(READY_SETS[state.task]).map(([key, { name }]) => new Option(name, key));
  controls("set")[0].replaceChildren(...options, new Option("your own", "own"));
}

function ownPoints() {
  state.set = "own";
  show("set", "own");
}

/** The settings that differ from the start of the page, as the fragment of its address. */
function address() {
  const changed = Object.keys(DEFAULTS).filter((name) => state[name] !== DEFAULTS[name]);
  const fragment = new URLSearchParams(changed.map((name) => [name, state[name]]));
  if (state.set === "own") {
    fragment.set("points", pointsToText(state.points));
    fragment.delete("set");
  }
  return fragment.toString().replaceAll("%2C", ",").replaceAll("%3B", ";");
}

function writeAddress() {
  if (location.protocol !== "about:") history.replaceState(null, "", `#${address()}`); // else no own
}

function readAddress() {
  const text = location.hash.slice(1) || document.body.dataset.state || "";
  setUp(Object.fromEntries(new URLSearchParams(text)));
}

function changed(event) {
  const name = event.target.name;
  if (name === "task") {
    const { view, set, points, ...others } = state;
    return setUp({ ...others, task: read("task") });
  }
  if (!LIVE.includes(name)) remember(); // what the functions say before they change
  if (name === "set" && read("set") !== "own") state.points = readySet(state.task, read("set"));
  state[name] = read(name);
  limitRate();
  if (LIVE.includes(name)) refresh();
  else restart();
}

// ------------------------------------------------------------------------------------- training

function restart() {
  const n_inputs = state.task === "curve" ? 1 : 2;
  model = new Model({ ...state, n_inputs }, new Random(state.seed), N_FUNCTIONS[state.task]);
  grid = gridInputs(state.task);
  draws = [];
  drawn_at = [];
  losses = { means: [], stride: 1, sum: 0, count: 0 };
  refresh();
}

/** Shows what has changed, in the controls, the address and the pictures. */
function refresh() {
  writeAddress();
  for (const part of all("[data-task]")) {
    part.hidden = part.disabled = part.dataset.task !== state.task;
  }
  for (const part of all("[data-methods]")) {
    part.hidden = !part.dataset.methods.split(" ").includes(state.method);
  }
  for (const output of all("label output")) output.value = output.nextElementSibling.value;
  drawn_at.fill(-1);
  wake();
}

function train() {
  const data = trainingData(state.task, state.points);
  const objective = { tau: 1 / state.noise_std ** 2, kl_weight: state.kl_weight };
  const parts = model.step(data, objective, state.lr);
  if (!Number.isFinite(parts.loss)) {
    pause("The loss is not finite any more: take a smaller learning rate and start anew.");
  }
  losses.last = parts;
  addLoss(parts.loss);
}

/** Keeps at most 400 means of the losses: where there are more, two become one. */
function addLoss(loss) {
  losses.sum += loss;
  losses.count += 1;
  if (losses.count < losses.stride) return;
  losses.means.push(losses.sum / losses.count);
  losses.sum = losses.count = 0;
  if (losses.means.length < 400) return;
  losses.means = losses.means.filter((_, i) => i % 2).map((m, i) => (m + losses.means[2 * i]) / 2);
  losses.stride *= 2;
}

/** Computes functions again on the grid, the oldest first, within the time of a frame. */
function redraw(deadline) {
  do {
    let oldest = draws.length;
    if (draws.length === model.functions.length) oldest = drawn_at.indexOf(Math.min(...drawn_at));
    draws[oldest] = model.evaluate(oldest, grid);
    drawn_at[oldest] = model.steps;
  } while (performance.now() < deadline && isBehind());
}

function isBehind() {
  return draws.length < model.functions.length || drawn_at.some((step) => step !== model.steps);
}

function frame() {
  is_waiting = false;
  const started = performance.now();
  if (is_playing && !state.points.length) pause("Set a point first, or choose ready ones.");
  for (let i = 0; is_playing && i < state.speed; i++) {
    train();
    if (performance.now() - started > FRAME_MS.train) break;
  }
  redraw(performance.now() + FRAME_MS.draw);
  drawAll();
  if (is_playing || isBehind()) wake();
}

function wake() {
  if (!is_waiting) requestAnimationFrame(frame);
  is_waiting = true;
}

function play() {
  is_playing = true;
  element("play").textContent = "❚❚ Pause";
  wake();
}

function pause(why = "Paused.") {
  is_playing = false;
  element("play").textContent = "▶ Play";
  say(`${why} ${element("probe").textContent}`);
  if (why !== "Paused.") element("goal").textContent = why;
}

function startAnew() {
  remember();
  state.seed += 1;
  restart();
}

// ------------------------------------------------------------------------------ what is shown

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
    probability: "Colour: the class it answers. White: it does not know.",
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

/** What the functions say at one place. */
function opinion(place) {
  const inputs = Float64Array.from(state.task === "curve" ? [place.x] : [place.x, place.y]);
  const values = model.functions.map((_, s) => model.evaluate(s, inputs));
  const summary = state.task === "curve" ? predictiveMoments(values) : classUncertainty(values);
  return Object.fromEntries(Object.entries(summary).map(([name, [value]]) => [name, value]));
}

function probeText(place, at = opinion(place)) {
  const x = place.x.toFixed(2);
  if (state.task === "curve") {
    const both = Math.hypot(at.std, state.noise_std).toFixed(2);
    return (
      `At x = ${x}: mean ${at.mean.toFixed(2)}, standard deviation of the functions ` +
      `${at.std.toFixed(2)}, with observation noise ${both}.`
    );
  }
  const rest = (at.entropy - at.mutual_information).toFixed(2);
  return (
    `At (${x}, ${place.y.toFixed(2)}): class 1 with ${(100 * at.probability).toFixed(0)} %. Entropy ` +
    `${at.entropy.toFixed(2)} = ${at.mutual_information.toFixed(2)} (the functions disagree: mutual ` +
    `information) + ${rest} (the labels are mixed).`
  );
}

function lossText() {
  if (!losses.last) return "before the first step";
  const { loss, nll_mean } = losses.last;
  return (
    `${loss.toFixed(2)} = ${nll_mean.toFixed(2)} (nll_mean) + ${(loss - nll_mean).toFixed(2)} ` +
    `(kl_weight · kl / n_train) after ${model.steps.toLocaleString("en")} steps`
  );
}

function showAlphas(layers) {
  const alphas = layers.map(({ noise }) => noise.log_alpha.map(Math.exp));
  drawAlphas(element("alphas"), alphas);
  const values = alphas.flatMap((layer) => [...layer]);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  element("alpha-text").textContent = `alpha of each unit, 0 to 1, layer by layer: mean ${mean.toFixed(2)}`;
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
    `correlation ${best.rho.toFixed(2)}`;
}

/** Keeps what the functions say at the cross before a setting changes it. */
function remember() {
  if (model.steps < 100) return;
  const at = opinion(probe);
  const { method, n_reflections } = state;
  const name = methodName(method);
  const what = state.task === "curve"
    ? `std ${at.std.toFixed(2)}`
    : `entropy ${at.entropy.toFixed(2)}, mutual information ${at.mutual_information.toFixed(2)}`;
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

// ---------------------------------------------------------------------------------- invitations

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
  say(element("task").textContent);
}

function showGoal(at, summary) {
  if (state.task !== invitation.setup.task) return;
  const here = hover ?? probe;
  const nearest = nearestPoint(state.points, here);
  const distance = nearest ? Math.hypot(nearest.x - here.x, nearest.y - here.y) : 2 * LIMIT;
  const summaryAt = (somewhere) => lookUp(summary, state.task, somewhere);
  const was_done = notes.done;
  const done = invitation.reached({ model, state, at, distance, summaryAt }, notes);
  element("goal").textContent = done ? `✓ ${done}` : notes.hint ?? "";
  if (done && !was_done) say(done);
}

// ----------------------------------------------------------------------------- pointer and keys

let grabbed = null; // { start, point, has_moved } between down and up

function place(event) {
  const box = plot.getBoundingClientRect();
  const scale = plot.clientWidth / box.width; // slides are scaled
  const at = { x: (event.clientX - box.left) * scale, y: (event.clientY - box.top) * scale };
  return inside(toData(plot, at));
}

function inside({ x, y }) {
  const clamp = (value) => round(Math.min(Math.max(value, -LIMIT), LIMIT));
  return { x: clamp(x), y: clamp(y) };
}

/** How near counts as "on a point", in units of the data. */
function reach(event) {
  const pixels = event?.pointerType === "touch" || event?.touches ? 22 : 11;
  return (pixels * 2 * LIMIT) / plot.clientWidth;
}

function pointerDown(event) {
  if (event.button) return;
  plot.setPointerCapture(event.pointerId);
  const start = place(event);
  const point = nearestPoint(state.points, start, reach(event));
  grabbed = { start, point, has_moved: false };
}

function pointerMove(event) {
  const at = place(event);
  if (!grabbed) {
    hover = at;
    return wake();
  }
  const far = Math.hypot(at.x - grabbed.start.x, at.y - grabbed.start.y) > reach() / 2;
  grabbed.has_moved ||= far;
  if (!grabbed.has_moved) return;
  hover = null;
  if (grabbed.point) {
    Object.assign(grabbed.point, at);
    pointsChanged();
  } else {
    probe = at;
    wake();
  }
}

function pointerUp() {
  if (grabbed && !grabbed.has_moved) addOrRemove(grabbed.start, grabbed.point);
  grabbed = null;
}

function addOrRemove(at, point) {
  if (point) {
    state.points = state.points.filter((other) => other !== point);
    say("Point removed.");
  } else if (state.points.length < MOST_POINTS) {
    const label = state.task === "classes" ? { label: state.label } : {};
    state.points = [...state.points, { ...at, ...label }];
    say("Point added.");
  } else {
    element("goal").textContent = `There are ${MOST_POINTS} points already: remove some.`;
  }
  pointsChanged();
}

function pointsChanged() {
  ownPoints();
  refresh();
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

function plotKey(event) {
  const arrow = ARROWS[event.key];
  if (arrow) {
    const step = event.shiftKey ? 0.5 : 0.1;
    hover = null;
    probe = inside({ x: probe.x + step * arrow[0], y: probe.y + step * arrow[1] });
    say(probeText(probe));
    wake();
  } else if (event.key === "Enter" || event.key === " ") {
    addOrRemove(probe, nearestPoint(state.points, probe, reach()));
  } else {
    return;
  }
  event.preventDefault();
}

/** In a slide: Escape leaves the playground, page keys of a presenter's remote turn the slide. */
function leave(event) {
  if (window.parent === window || !/^(Escape|PageUp|PageDown)$/.test(event.key)) return;
  window.parent.focus();
  if (event.key === "Escape") return;
  const keyCode = event.key === "PageUp" ? 33 : 34;
  window.parent.document.dispatchEvent(new KeyboardEvent("keydown", { key: event.key, keyCode }));
}

// ---------------------------------------------------------------------------------------- start

function start() {
  for (const control of all("select, input")) control.addEventListener("input", changed);
  element("play").addEventListener("click", () => (is_playing ? pause() : play()));
  element("anew").addEventListener("click", startAnew);
  element("step").addEventListener("click", () => {
    if (is_playing) pause();
    if (state.points.length) train();
    wake();
  });
  element("clear").addEventListener("click", () => {
    state.points = [];
    pointsChanged();
  });
  plot.addEventListener("pointerdown", pointerDown);
  plot.addEventListener("pointermove", pointerMove);
  plot.addEventListener("pointerup", pointerUp);
  plot.addEventListener("pointercancel", () => (grabbed = null));
  plot.addEventListener("pointerleave", () => {
    hover = null;
    wake();
  });
  plot.addEventListener("keydown", plotKey);
  const hold = (event) => {
    const at = place(event.touches[0]);
    if (nearestPoint([...state.points, probe], at, reach(event))) event.preventDefault(); // no scroll
  };
  plot.addEventListener("touchstart", hold, { passive: false });
  window.addEventListener("keydown", leave);
  window.addEventListener("resize", wake);
  window.addEventListener("hashchange", readAddress);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", wake);
  makeInvitations();
  readAddress();
}

start();
