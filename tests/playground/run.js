// Runs the playground's network on the cases that a test writes: node run.js FOLDER < CASES > RESULTS
"use strict";
const fs = require("fs");
const vm = require("vm");

const folder = process.argv[2];
for (const name of ["network.js", "data.js"]) {
  vm.runInThisContext(fs.readFileSync(`${folder}/${name}`, "utf8"), name);
}

const floats = (values) => values && Float64Array.from(values);

/** A network of these settings whose parameters are those of the case, layer by layer. */
function network(settings, layers) {
  const made = vm.runInThisContext("(settings) => new Network(settings, new Random(0))")(settings);
  layers.forEach((values, index) => put(made.layers[index], values));
  return made;
}

function parametersOf({ weight, bias, noise }) {
  return { weight, bias, log_alpha: noise.raw_log_alpha, vectors: noise.vectors };
}

function put(layer, values) {
  for (const [name, parameter] of Object.entries(parametersOf(layer))) {
    if (parameter) parameter.values.set(values[name]);
  }
}

function collect(layers, field) {
  return layers.map((layer) => {
    const named = Object.entries(parametersOf(layer)).filter(([, parameter]) => parameter);
    return Object.fromEntries(named.map(([name, parameter]) => [name, [...parameter[field]]]));
  });
}

const commands = {
  /** The loss, its parts, all gradients, the factors, and the parameters after some steps of Adam. */
  train({ settings, layers, data, noise, objective, lr, n_steps }) {
    const made = network(settings, layers);
    const points = { ...data, x: floats(data.x), y: floats(data.y) };
    const draws = noise.map((step) => step.map(floats));
    const losses = made.lossAndGradient(points, draws[0], objective);
    const gradients = collect(made.layers, "gradient");
    const factors = draws[0].map((raw, i) => raw && [...made.layers[i].noise.factors(raw)]);
    for (let step = 1; step <= n_steps; step++) {
      made.lossAndGradient(points, draws[step - 1], objective);
      adamStep(made.parameters, step, lr);
    }
    return { losses, gradients, factors, trained: collect(made.layers, "values") };
  },

  /** The outputs of one function at all inputs. */
  sample({ settings, layers, x, noise }) {
    return [...network(settings, layers).sampleFunction(floats(x), noise.map(floats))];
  },

  covariance({ settings, layers }) {
    return [...network(settings, layers).layers.at(-1).noise.covariance()];
  },

  summaries({ draws }) {
    const functions = draws.map(floats);
    const result = { ...predictiveMoments(functions), ...classUncertainty(functions) };
    return Object.fromEntries(Object.entries(result).map(([name, value]) => [name, [...value]]));
  },

  /** The start of a network from these uniform numbers, one layer after the other. */
  start({ settings, uniform }) {
    const random = { uniform: () => uniform.shift(), normal: () => 0 };
    const made = vm.runInThisContext("(s, random) => new Network(s, random)")(settings, random);
    return collect(made.layers, "values");
  },

  random({ seed, n }) {
    const random = vm.runInThisContext("(seed) => new Random(seed)")(seed);
    const uniform = Array.from({ length: n }, () => random.uniform());
    return { uniform, normal: Array.from({ length: n }, () => random.normal()) };
  },

  /** Trains a model as the page does; what its functions say at x. */
  model({ settings, n_functions, seed, task, points, objective, lr, n_steps, x }) {
    const made = vm.runInThisContext("(s, seed, n) => new Model(s, new Random(seed), n)");
    const model = made(settings, seed, n_functions);
    const data = trainingData(task, points);
    let last;
    for (let step = 0; step < n_steps; step++) last = model.step(data, objective, lr);
    const draws = model.functions.map((_, s) => [...model.evaluate(s, floats(x))]);
    return { last, draws, steps: model.steps };
  },

  readySets() {
    const tasks = Object.entries(vm.runInThisContext("READY_SETS"));
    return Object.fromEntries(
      tasks.flatMap(([task, sets]) =>
        Object.keys(sets).map((name) => {
          const points = readySet(task, name);
          return [`${task} ${name}`, { points, back: pointsFromText(pointsToText(points), task) }];
        }),
      ),
    );
  },
};

const cases = JSON.parse(fs.readFileSync(0, "utf8"));
const results = cases.map(({ command, ...rest }) => commands[command](rest));
process.stdout.write(JSON.stringify(results));
