// The settings: their controls, and the address of the page that keeps them.
"use strict";

const DEFAULTS = {
  task: "curve", set: "gap", method: "dropout", p_drop: 0.2, n_reflections: 2, kl_weight: 0.1,
  noise_std: 0.1, depth: 2, width: 32, activation: "relu", lr: 0.01, view: "spread", speed: 20,
  label: 0, seed: 1,
};
const LIVE = ["kl_weight", "noise_std", "lr", "view", "speed", "label"]; // no new start after these
const FIRST_VIEW = { curve: "spread", classes: "probability" };

function controls(name) {
  return all(`[name=${name}]`);
}

/** Puts a setting into its control; one that the control does not have is left out. */
function show(name, value) {
  for (const control of controls(name)) {
    if (value === undefined) return;
    if (control.type === "radio") control.checked ||= control.value === String(value);
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

/** Sets one control as the reader would. */
function choose(name, value) {
  show(name, value);
  changed({ target: controls(name)[0] });
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
  for (const name of Object.keys(DEFAULTS).filter((each) => controls(each).length)) {
    show(name, state[name]);
    show(name, changes[name]); // one that cannot be leaves the default
    state[name] = read(name);
  }
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
