// The page: what it holds, and the loop that trains and draws.
"use strict";

const N_FUNCTIONS = { curve: 40, classes: 20 };
const FRAME_MS = { train: 8, draw: 6 }; // the time that a frame may take for each

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
    const is_held = isLooking() || nearestPoint([...state.points, probe], at, reach(event));
    if (is_held) event.preventDefault(); // no scroll
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
