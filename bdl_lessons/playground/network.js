// The network of the playground: how each method draws its noise, forward, backward, and Adam.
//
// The mathematics and the names are those of the Python package bdl_lessons, and tests compare both
// on equal noise. A layer multiplies its inputs by random factors xi of mean one:
//
//     y = (x ∘ xi) W' + b,        loss = nll_mean + kl_weight * kl / n_train     (nats per example)
//
// The first of several layers has no noise, so that the data enter as they are; a network without
// hidden layers has the noise on its inputs. Matrices are flat, row by row.
"use strict";

const LENGTH_SCALE = 1; // l: weights have the prior N(0, 1 / l²)
const ENSEMBLE_SIZE = 5;

/** Numbers that are trained, the gradient of the loss for them, and what Adam remembers. */
class Parameter {
  constructor(values) {
    this.values = Float64Array.from(values);
    this.gradient = new Float64Array(this.values.length);
    this.mean = new Float64Array(this.values.length);
    this.square = new Float64Array(this.values.length);
  }
}

// ---------------------------------------------------------------------------------------- noise

/** Dropout (lessons 01 and 04): xi = z / keep, z ~ Bernoulli(keep). Without noise at p_drop = 0. */
class BinaryDropout {
  constructor(n_units, { p_drop }) {
    this.n_units = n_units;
    this.keep = 1 - p_drop;
    this.parameters = [];
  }

  /** What randomness a draw for n_rows needs, or null if nothing is random. */
  draw(n_rows, random) {
    if (this.keep === 1) return null;
    return apply(() => random.uniform(), new Float64Array(n_rows * this.n_units));
  }

  /** The factors xi, (n_rows, n_units), from the randomness of `draw`. */
  factors(uniform) {
    return apply((u) => (u < this.keep ? 1 / this.keep : 0), uniform.slice());
  }

  /** Dropout learns nothing about its noise. */
  backward() {}

  /** The KL to the prior, up to a constant: l²/(2 keep) |W|² + l²/2 |b|². Adds its gradient. */
  kl({ weight, bias }, scale) {
    return this.penalty(weight, 1 / this.keep, scale) + this.penalty(bias, 1, scale);
  }

  penalty({ values, gradient }, factor, scale) {
    const precision = factor * LENGTH_SCALE ** 2;
    let sum = 0;
    for (let i = 0; i < values.length; i++) {
      sum += values[i] ** 2;
      gradient[i] += scale * precision * values[i];
    }
    return (precision * sum) / 2;
  }
}

/** Variational dropout (lesson 07), type A: xi_i ~ N(1, alpha_i), with an alpha for each unit. */
class VariationalDropout {
  min_log_alpha = -Infinity;
  max_log_alpha = 0;

  constructor(n_units, { p_drop }) {
    this.n_units = n_units;
    const start = Math.log(p_drop / (1 - p_drop));
    this.raw_log_alpha = new Parameter(new Float64Array(n_units).fill(start));
    this.parameters = [this.raw_log_alpha];
  }

  get log_alpha() {
    return this.raw_log_alpha.values.map((raw) => this.clamp(raw));
  }

  clamp(raw) {
    return Math.min(Math.max(raw, this.min_log_alpha), this.max_log_alpha);
  }

  draw(n_rows, random) {
    return apply(() => random.normal(), new Float64Array(n_rows * this.n_units));
  }

  /** sqrt(alpha) ∘ eps for every row. */
  scaled(eps) {
    const std = this.log_alpha.map((log_alpha) => Math.exp(log_alpha / 2));
    return scaleRows(eps, std);
  }

  factors(eps) {
    return apply((value) => 1 + value, this.scaled(eps));
  }

  /** Adds the gradient for log_alpha, given that for the factors. */
  backward(gradient, eps) {
    const change = new Float64Array(this.n_units);
    const eta = this.scaled(eps);
    for (let i = 0; i < eta.length; i++) change[i % this.n_units] += (gradient[i] * eta[i]) / 2;
    this.add(change);
  }

  /** Beyond its bounds log_alpha has a gradient only where that leads back inside. */
  add(change) {
    const { values, gradient } = this.raw_log_alpha;
    for (let i = 0; i < change.length; i++) {
      const leads_out = change[i] * (values[i] - this.clamp(values[i])) < 0;
      if (!leads_out) gradient[i] += change[i];
    }
  }

  /**
   * The KL to the log-uniform prior in the approximation of Molchanov et al. (2017), `molchanov_kl`
   * in the package: k1 sigmoid(-k2 - k3 log alpha) + 1/2 log(1 + 1/alpha), summed over the factors.
   */
  kl(layer, scale) {
    const [k1, k2, k3] = [0.63576, 1.8732, 1.48695];
    let sum = 0;
    const change = this.log_alpha.map((log_alpha) => {
      const gate = 1 / (1 + Math.exp(k2 + k3 * log_alpha));
      sum += k1 * gate + Math.log1p(Math.exp(-log_alpha)) / 2;
      const slope = -k1 * k3 * gate * (1 - gate) - 1 / (2 * (1 + Math.exp(log_alpha)));
      return scale * slope;
    });
    this.add(change);
    return sum;
  }
}

/**
 * Variational structured dropout (VSD): xi = 1 + U eta, eta ~ N(0, diag(alpha)), and U a product of
 * n_reflections learned Householder reflections. The factors of two units become correlated.
 */
class StructuredDropout extends VariationalDropout {
  min_log_alpha = Math.log(1e-4);

  constructor(n_units, { p_drop, n_reflections }, random) {
    super(n_units, { p_drop });
    const spread = 0.1; // with equal alphas the reflections would have no effect and no gradient
    const { values } = this.raw_log_alpha;
    for (let i = 0; i < n_units; i++) values[i] = this.clamp(values[i] + spread * random.normal());
    const normal = () => random.normal();
    this.vectors = new Parameter(Array.from({ length: n_reflections * n_units }, normal));
    this.parameters.push(this.vectors);
  }

  factors(eps) {
    const noise = this.scaled(eps);
    reflect(noise, this.vectors.values, this.n_units);
    return apply((value) => 1 + value, noise);
  }

  backward(gradient, eps) {
    const noise = this.scaled(eps);
    reflect(noise, this.vectors.values, this.n_units);
    reflectBackward(noise, gradient, this.vectors, this.n_units);
    super.backward(gradient, eps);
  }

  /** U, with its columns as the rows: column k is what the reflections make of unit vector k. */
  columns() {
    const columns = new Float64Array(this.n_units ** 2);
    for (let k = 0; k < this.n_units; k++) columns[k * this.n_units + k] = 1;
    reflect(columns, this.vectors.values, this.n_units);
    return columns;
  }

  /** Cov[xi] = U diag(alpha) U', (n_units, n_units). */
  covariance() {
    const K = this.n_units;
    const columns = this.columns();
    const covariance = new Float64Array(K * K);
    this.log_alpha.forEach((log_alpha, k) => {
      const alpha = Math.exp(log_alpha);
      for (let i = 0; i < K; i++) {
        const product = alpha * columns[k * K + i];
        for (let j = 0; j < K; j++) covariance[i * K + j] += product * columns[k * K + j];
      }
    });
    return covariance;
  }

  /** The KL to the empirical Bayes prior: 1/2 sum_i log((1 + var_i) / alpha_i), var = diag Cov[xi]. */
  kl(layer, scale) {
    const K = this.n_units;
    const log_alpha = this.log_alpha;
    const alpha = log_alpha.map(Math.exp);
    const columns = this.columns();
    const one_plus_var = new Float64Array(K).fill(1);
    columns.forEach((u, index) => (one_plus_var[index % K] += u ** 2 * alpha[Math.floor(index / K)]));

    const change = new Float64Array(K).fill(-scale / 2);
    const column_gradient = columns.map((u, index) => {
      const k = Math.floor(index / K);
      const share = (u * alpha[k]) / one_plus_var[index % K];
      change[k] += (scale * share * u) / 2;
      return scale * share;
    });
    this.add(change);
    reflectBackward(columns, column_gradient, this.vectors, K);
    return log_alpha.reduce((sum, value, i) => sum + (Math.log(one_plus_var[i]) - value) / 2, 0);
  }
}

/** H_T … H_1 applied to every row, in place, with H = I - 2 v v' / |v|²; v_1 reflects first. */
function reflect(rows, vectors, n_units) {
  for (let start = 0; start < vectors.length; start += n_units) {
    reflectOnce(rows, vectors.subarray(start, start + n_units));
  }
}

function reflectOnce(rows, v) {
  const squared = dot(v, v, 0);
  for (let start = 0; start < rows.length; start += v.length) {
    const coefficient = (2 * dot(v, rows, start)) / squared;
    for (let k = 0; k < v.length; k++) rows[start + k] -= coefficient * v[k];
  }
}

/**
 * From the gradient for the reflected rows: adds that for the vectors, and turns `gradient` into the
 * one for the rows before. A reflection undoes itself, so `rows` become what they were before, too.
 */
function reflectBackward(rows, gradient, vectors, n_units) {
  for (let last = vectors.values.length; last > 0; last -= n_units) {
    const v = vectors.values.subarray(last - n_units, last);
    const v_gradient = vectors.gradient.subarray(last - n_units, last);
    const squared = dot(v, v, 0);
    reflectOnce(rows, v);
    for (let start = 0; start < rows.length; start += n_units) {
      const along = dot(v, rows, start);
      const pull = dot(v, gradient, start);
      for (let k = 0; k < n_units; k++) {
        const turned = pull * rows[start + k] + along * gradient[start + k];
        v_gradient[k] += (2 / squared) * ((2 * along * pull * v[k]) / squared - turned);
      }
    }
    reflectOnce(gradient, v);
  }
}

/** The entries of a and b multiplied one by one. (Loops are several times as fast as `map` here.) */
function product(a, b) {
  const result = new Float64Array(a.length);
  for (let i = 0; i < a.length; i++) result[i] = a[i] * b[i];
  return result;
}

/** Every row of a matrix times the numbers of `factors`, one by one. */
function scaleRows(matrix, factors) {
  const result = new Float64Array(matrix.length);
  for (let start = 0; start < matrix.length; start += factors.length) {
    for (let k = 0; k < factors.length; k++) result[start + k] = factors[k] * matrix[start + k];
  }
  return result;
}

/** `f` of every entry, in place. */
function apply(f, values) {
  for (let i = 0; i < values.length; i++) values[i] = f(values[i]);
  return values;
}

/** v' times the row of `rows` that begins at `start`. */
function dot(v, rows, start) {
  let sum = 0;
  for (let k = 0; k < v.length; k++) sum += v[k] * rows[start + k];
  return sum;
}

// -------------------------------------------------------------------------------------- network

const NOISE = {
  weight_decay: (n_units) => new BinaryDropout(n_units, { p_drop: 0 }),
  dropout: (n_units, settings) => new BinaryDropout(n_units, settings),
  variational: (n_units, settings) => new VariationalDropout(n_units, settings),
  structured: (n_units, settings, random) => new StructuredDropout(n_units, settings, random),
  ensemble: (n_units) => new BinaryDropout(n_units, { p_drop: 0 }),
};

/** y = (x ∘ xi) W' + b: `weight` is (n_out, n_in), and `noise` says how xi is drawn. */
class Layer {
  constructor(n_in, n_out, noise, weight_var, random) {
    this.n_in = n_in;
    this.n_out = n_out;
    this.noise = noise;
    const bound = Math.sqrt((3 * weight_var) / n_in); // uniform, of variance weight_var / n_in
    const uniform = () => (2 * random.uniform() - 1) * bound;
    this.weight = new Parameter(Array.from({ length: n_out * n_in }, uniform));
    this.bias = new Parameter(new Float64Array(n_out));
  }

  get parameters() {
    return [this.weight, this.bias, ...this.noise.parameters];
  }

  /** x W' + b for inputs (n_rows, n_in). */
  linear(x) {
    const { n_in, n_out } = this;
    const weight = this.weight.values;
    const bias = this.bias.values;
    const y = new Float64Array((x.length / n_in) * n_out);
    for (let row = 0, start = 0; start < x.length; row += n_out, start += n_in) {
      for (let j = 0; j < n_out; j++) {
        let sum = bias[j];
        for (let k = 0; k < n_in; k++) sum += weight[j * n_in + k] * x[start + k];
        y[row + j] = sum;
      }
    }
    return y;
  }

  /** Adds the gradients of weight and bias, given that of y; returns that of x ∘ xi. */
  linearBackward(x, y_gradient) {
    const { n_in, n_out, weight, bias } = this;
    const weights = weight.values;
    const weight_gradient = weight.gradient;
    const x_gradient = new Float64Array(x.length);
    for (let row = 0, start = 0; start < x.length; row += n_out, start += n_in) {
      for (let j = 0; j < n_out; j++) {
        const d = y_gradient[row + j];
        bias.gradient[j] += d;
        for (let k = 0; k < n_in; k++) {
          weight_gradient[j * n_in + k] += d * x[start + k];
          x_gradient[start + k] += d * weights[j * n_in + k];
        }
      }
    }
    return x_gradient;
  }
}

const ACTIVATIONS = {
  tanh: { of: Math.tanh, slope: (h) => 1 - h ** 2, weight_var: 1 },
  relu: { of: (a) => Math.max(a, 0), slope: (h) => (h > 0 ? 1 : 0), weight_var: 2 },
};

/**
 * A fully connected network with one output: the mean of y, or the logit of class 1.
 *
 * settings: n_inputs, width, depth (hidden layers), activation, method, p_drop, n_reflections.
 */
class Network {
  constructor(settings, random) {
    const { n_inputs, width, depth, method } = settings;
    const widths = [n_inputs, ...new Array(depth).fill(width), 1];
    this.activation = ACTIVATIONS[settings.activation];
    this.layers = widths.slice(1).map((n_out, index) => {
      const n_in = widths[index];
      const kind = index < 1 && depth > 0 ? "weight_decay" : method;
      const noise = NOISE[kind](n_in, settings, random);
      return new Layer(n_in, n_out, noise, this.activation.weight_var, random);
    });
    const first_bias = this.layers[0].bias.values; // from its prior, so that no two units are alike
    for (let j = 0; j < first_bias.length; j++) first_bias[j] = random.normal() / LENGTH_SCALE;
  }

  get parameters() {
    return this.layers.flatMap((layer) => layer.parameters);
  }

  /** The randomness of one draw for each of n_rows: an array for each layer, or null. */
  draw(n_rows, random) {
    return this.layers.map((layer) => layer.noise.draw(n_rows, random));
  }

  /** Outputs for x (n_rows, n_inputs); with `noise` of `draw(n_rows)` each row has its own factors. */
  forward(x, noise) {
    this.inputs = []; // what backward needs
    this.layers.forEach((layer, index) => {
      const xi = noise[index] && layer.noise.factors(noise[index]);
      const scaled = xi ? product(x, xi) : x;
      this.inputs.push({ x, xi, scaled });
      x = layer.linear(scaled);
      if (index < this.layers.length - 1) apply(this.activation.of, x);
    });
    return x;
  }

  /** Adds the gradients of all parameters, given that of the outputs. */
  backward(gradient, noise) {
    for (let index = this.layers.length - 1; index >= 0; index--) {
      const layer = this.layers[index];
      const { x, xi, scaled } = this.inputs[index];
      gradient = layer.linearBackward(scaled, gradient);
      if (xi) {
        layer.noise.backward(product(gradient, x), noise[index]);
        gradient = product(gradient, xi);
      }
      if (index > 0) gradient = product(gradient, apply(this.activation.slope, x.slice()));
    }
  }

  /** One function at many inputs: `noise` of `draw(1)`, the same factors for all rows. */
  sampleFunction(x, noise) {
    this.layers.forEach((layer, index) => {
      const xi = noise[index] && layer.noise.factors(noise[index]);
      x = layer.linear(xi ? scaleRows(x, xi) : x);
      if (index < this.layers.length - 1) apply(this.activation.of, x);
    });
    return x;
  }

  /**
   * The loss and its parts; the gradients are left in the parameters.
   *
   * data: { x, y, is_class }, y the targets or the classes 0 and 1. objective: { tau, kl_weight }.
   */
  lossAndGradient({ x, y, is_class }, noise, { tau, kl_weight }) {
    for (const parameter of this.parameters) parameter.gradient.fill(0);
    const nll = is_class ? bernoulliNll : (f, target) => gaussianNll(f, target, tau);
    let nll_mean = 0;
    const gradient = this.forward(x, noise).map((f, row) => {
      const { value, slope } = nll(f, y[row]);
      nll_mean += value / y.length;
      return slope / y.length;
    });
    this.backward(gradient, noise);
    const scale = kl_weight / y.length;
    const kl = this.layers.reduce((sum, layer) => sum + layer.noise.kl(layer, scale), 0);
    return { loss: nll_mean + scale * kl, nll_mean, kl };
  }
}

/** -log N(y; f, 1/tau) in nats, and its derivative in f. */
function gaussianNll(f, y, tau) {
  const value = (tau / 2) * (y - f) ** 2 + Math.log((2 * Math.PI) / tau) / 2;
  return { value, slope: tau * (f - y) };
}

/** -log p(y) in nats for the logit f of class 1, and its derivative in f. */
function bernoulliNll(f, y) {
  const value = Math.max(f, 0) - f * y + Math.log1p(Math.exp(-Math.abs(f)));
  return { value, slope: sigmoid(f) - y };
}

function sigmoid(f) {
  return 1 / (1 + Math.exp(-f));
}

// ------------------------------------------------------------------------------------- training

/** A step of Adam (number `step`, from 1 on), as PyTorch takes it. */
function adamStep(parameters, step, lr) {
  const [beta1, beta2, eps] = [0.9, 0.999, 1e-8];
  const mean_bias = 1 - beta1 ** step;
  const square_bias = 1 - beta2 ** step;
  for (const { values, gradient, mean, square } of parameters) {
    for (let i = 0; i < values.length; i++) {
      mean[i] += (1 - beta1) * (gradient[i] - mean[i]);
      square[i] += (1 - beta2) * (gradient[i] ** 2 - square[i]);
      const size = Math.sqrt(square[i] / square_bias) + eps;
      values[i] -= (lr * mean[i]) / mean_bias / size;
    }
  }
}

/** What is trained: one network, or the five of an ensemble; and n_functions draws of it. */
class Model {
  constructor(settings, random, n_functions) {
    this.random = random;
    this.steps = 0;
    this.is_random = !["weight_decay", "ensemble"].includes(settings.method);
    const n_networks = settings.method === "ensemble" ? ENSEMBLE_SIZE : 1;
    this.networks = Array.from({ length: n_networks }, () => new Network(settings, random));
    // The randomness of each function stays the same while the network learns: no flicker.
    this.functions = Array.from({ length: this.is_random ? n_functions : n_networks }, (_, s) => {
      const network = this.networks[s % n_networks];
      return { network, noise: network.draw(1, random) };
    });
  }

  /** One step of every network; returns their mean loss and its parts. */
  step(data, objective, lr) {
    this.steps += 1;
    const mean = { loss: 0, nll_mean: 0, kl: 0 };
    for (const network of this.networks) {
      const noise = network.draw(data.y.length, this.random);
      const parts = network.lossAndGradient(data, noise, objective);
      for (const name in mean) mean[name] += parts[name] / this.networks.length;
      adamStep(network.parameters, this.steps, lr);
    }
    return mean;
  }

  /** Function number s at the inputs x. */
  evaluate(s, x) {
    const { network, noise } = this.functions[s];
    return network.sampleFunction(x, noise);
  }
}

/** Mean and standard deviation of the functions at every input: `draws` has one array for each. */
function predictiveMoments(draws) {
  const mean = averageOf(draws, (f) => f);
  const square = averageOf(draws, (f) => f ** 2);
  const std = square.map((value, i) => Math.sqrt(Math.max(value - mean[i] ** 2, 0)));
  return { mean, std };
}

/**
 * Of draws of the logit: the mean probability of class 1, its entropy in nats (all uncertainty),
 * and the mutual information (what the draws disagree about): entropy minus the mean entropy.
 */
function classUncertainty(draws) {
  const probabilities = draws.map((draw) => apply(sigmoid, draw.slice()));
  const probability = averageOf(probabilities, (p) => p);
  const entropy = probability.map(binaryEntropy);
  const mean_entropy = averageOf(probabilities, binaryEntropy);
  const mutual_information = entropy.map((value, i) => Math.max(value - mean_entropy[i], 0));
  return { probability, entropy, mutual_information };
}

function averageOf(draws, f) {
  const mean = new Float64Array(draws[0].length);
  for (const draw of draws) {
    for (let i = 0; i < mean.length; i++) mean[i] += f(draw[i]) / draws.length;
  }
  return mean;
}

function binaryEntropy(p) {
  if (p <= 0 || p >= 1) return 0;
  return -p * Math.log(p) - (1 - p) * Math.log1p(-p);
}

/** Uniform and normal numbers from a seed (mulberry32 and Box-Muller), equal on every machine. */
class Random {
  constructor(seed) {
    this.state = seed >>> 0;
  }

  uniform() {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = this.state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  normal() {
    const radius = Math.sqrt(-2 * Math.log(1 - this.uniform()));
    return radius * Math.cos(2 * Math.PI * this.uniform());
  }
}
