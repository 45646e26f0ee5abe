// Drawing: the points and what the network makes of them, the loss, the learned noise.
"use strict";

const GRID = { curve: 121, classes: 33 }; // inputs along an axis at which functions are drawn

/** The inputs of the grid: x of a curve, or the pairs (x, y) of a map, the top row first. */
function gridInputs(task) {
  const n = GRID[task];
  const place = (i) => -LIMIT + (2 * LIMIT * i) / (n - 1);
  if (task === "curve") return Float64Array.from({ length: n }, (_, i) => place(i));
  return Float64Array.from({ length: 2 * n * n }, (_, i) => {
    const cell = Math.floor(i / 2);
    return i % 2 === 0 ? place(cell % n) : -place(Math.floor(cell / n));
  });
}

/** What a summary of the functions says at the place of the grid nearest to { x, y }. */
function lookUp(summary, task, { x, y }) {
  const n = GRID[task];
  const column = Math.round(((x + LIMIT) / (2 * LIMIT)) * (n - 1));
  const row = task === "curve" ? 0 : Math.round(((LIMIT - y) / (2 * LIMIT)) * (n - 1));
  const named = Object.entries(summary).map(([name, values]) => [name, values[row * n + column]]);
  return Object.fromEntries(named);
}

const page_style = getComputedStyle(document.body); // it follows a change between light and dark

/** A colour by its name in style.css. */
function colour(name) {
  return page_style.getPropertyValue(`--${name}`).trim();
}

/** A canvas with as many pixels as its place on the screen has; returns its size in CSS pixels. */
function begin(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.lineJoin = "round";
  context.font = "13px system-ui, sans-serif";
  return { context, width, height };
}

/** From data to CSS pixels of the plot, and back. */
function toPixel(canvas, { x, y }) {
  const { clientWidth: width, clientHeight: height } = canvas;
  return { x: ((x + LIMIT) / (2 * LIMIT)) * width, y: ((LIMIT - y) / (2 * LIMIT)) * height };
}

function toData(canvas, { x, y }) {
  const { clientWidth: width, clientHeight: height } = canvas;
  return { x: (2 * LIMIT * x) / width - LIMIT, y: LIMIT - (2 * LIMIT * y) / height };
}

/** The large plot. `summary` is what the draws say on the grid, `draws` the functions themselves. */
function drawPlot(canvas, { task, view, points, probe, noise_std }, summary, draws) {
  const { context, width, height } = begin(canvas);
  if (task === "classes") drawMap(context, width, height, summary[view], view);
  drawAxes(context, canvas, task === "classes" ? 0.4 : 1);
  if (task === "curve") {
    context.lineWidth = 2.5;
    context.strokeStyle = colour("blue");
    if (view === "spread") drawBands(context, canvas, summary, noise_std);
    else {
      context.lineWidth = 1.2;
      for (const draw of draws.slice(0, 20)) line(context, canvas, draw);
    }
  }
  for (const point of points) drawPoint(context, toPixel(canvas, point), point.label);
  if (probe) drawCross(context, toPixel(canvas, probe), task === "curve" ? height : 0);
}

/** Lines and numbers at the whole values; over a map the lines let the colours through. */
function drawAxes(context, canvas, opacity) {
  for (let tick = 1 - LIMIT; tick < LIMIT; tick++) {
    const { x, y } = toPixel(canvas, { x: tick, y: tick });
    context.strokeStyle = colour("grid");
    context.lineWidth = 1;
    context.globalAlpha = opacity;
    context.strokeRect(x, -1, 0, canvas.clientHeight + 2);
    context.strokeRect(-1, y, canvas.clientWidth + 2, 0);
    context.globalAlpha = 1;
    write(context, tick, x + 3, canvas.clientHeight - 5);
    if (tick > 1 - LIMIT) write(context, tick, 4, y - 4);
  }
}

/** Text with a halo, legible on every colour; a minus where there is a hyphen. */
function write(context, text, x, y) {
  const shown = String(text).replace("-", "−");
  context.strokeStyle = colour("halo");
  context.lineWidth = 3;
  context.strokeText(shown, x, y);
  context.fillStyle = colour("muted");
  context.fillText(shown, x, y);
}

/** Two standard deviations of the functions, of the functions and the noise, and the mean. */
function drawBands(context, canvas, { mean, std }, noise_std) {
  const total = std.map((value) => Math.hypot(value, noise_std));
  for (const [deviation, name] of [[total, "band-noise"], [std, "band"]]) {
    context.beginPath();
    trace(context, canvas, mean.map((m, i) => m + 2 * deviation[i]));
    trace(context, canvas, mean.map((m, i) => m - 2 * deviation[i]), true);
    context.fillStyle = colour(name);
    context.fill();
  }
  line(context, canvas, mean);
}

function line(context, canvas, values) {
  context.beginPath();
  trace(context, canvas, values);
  context.stroke();
}

/** Goes along the values on the grid, from the left or back from the right. */
function trace(context, canvas, values, is_backwards = false) {
  const n = values.length;
  for (let i = 0; i < n; i++) {
    const index = is_backwards ? n - 1 - i : i;
    const at = { x: -LIMIT + (2 * LIMIT * index) / (n - 1), y: values[index] };
    const { x, y } = toPixel(canvas, at);
    context.lineTo(x, y);
  }
}

const MAP_TOP = { probability: 1, entropy: Math.log(2), mutual_information: 0.35 };

function drawMap(context, width, height, values, view) {
  const n = GRID.classes;
  const small = document.createElement("canvas");
  small.width = small.height = n;
  const image = new ImageData(n, n);
  const stops = mapColours(view);
  values.forEach((value, i) => {
    image.data.set([...mix(stops, value / MAP_TOP[view]), 255], 4 * i);
  });
  small.getContext("2d").putImageData(image, 0, 0);
  const half = width / (n - 1) / 2; // a cell's value belongs to its middle
  context.imageSmoothingEnabled = true;
  context.drawImage(small, -half, -half, width + 2 * half, height + 2 * half);
}

function mapColours(view) {
  const names = view === "probability" ? ["map-0", "map-half", "map-1"] : ["map-low", "map-mid", "map-high"];
  return names.map((name) => colour(name).split(" ").map(Number));
}

/** The colour at `share` of the way through three colours. */
function mix(stops, share) {
  const place = 2 * Math.min(Math.max(share, 0), 1);
  const left = Math.min(Math.floor(place), 1);
  return stops[left].map((value, i) => value + (place - left) * (stops[left + 1][i] - value));
}

/** A class has a shape as well as a colour. */
function drawPoint(context, { x, y }, label) {
  context.beginPath();
  if (label === 1) {
    context.moveTo(x, y - 7);
    context.lineTo(x + 6.5, y + 5);
    context.lineTo(x - 6.5, y + 5);
    context.closePath();
  } else {
    context.arc(x, y, 5, 0, 2 * Math.PI);
  }
  context.fillStyle = colour(label === undefined ? "ink" : `class-${label}`);
  context.strokeStyle = colour("halo");
  context.lineWidth = 1.8;
  context.fill();
  context.stroke();
}

/** Where the reader points; on a curve also a line from top to bottom, `reach` pixels long. */
function drawCross(context, { x, y }, reach) {
  for (const [name, thick] of [["halo", 4], ["ink", 1.8]]) {
    context.strokeStyle = colour(name);
    context.lineWidth = thick;
    context.beginPath();
    context.moveTo(x - 10, y);
    context.lineTo(x + 10, y);
    context.moveTo(x, y - 10);
    context.lineTo(x, y + 10);
    context.stroke();
  }
  context.lineWidth = 1;
  context.setLineDash([3, 4]);
  context.strokeRect(x, 0, 0, reach);
  context.setLineDash([]);
}

/** The losses, oldest first. */
function drawLosses(canvas, losses) {
  const { context, width, height } = begin(canvas);
  if (losses.length < 2) return;
  const sorted = [...losses].sort((a, b) => a - b);
  const low = sorted[0];
  const high = sorted[Math.ceil(0.97 * (losses.length - 1))]; // the first steps may be far above
  context.strokeStyle = colour("blue");
  context.lineWidth = 1.8;
  context.beginPath();
  losses.forEach((loss, i) => {
    const share = (loss - low) / (high - low || 1);
    context.lineTo((i / (losses.length - 1)) * (width - 2) + 1, height - 4 - share * (height - 8));
  });
  context.stroke();
  context.textAlign = "right";
  write(context, high.toFixed(2), width - 4, 14);
}

/** The learned alphas as bars between 0 and 1, the units of one layer after those of the other. */
function drawAlphas(canvas, layers) {
  const { context, width, height } = begin(canvas);
  const n_bars = layers.reduce((sum, alphas) => sum + alphas.length + 1, -1);
  const step = width / n_bars;
  let x = 0;
  layers.forEach((alphas, index) => {
    context.fillStyle = colour(index % 2 ? "red" : "blue");
    for (const alpha of alphas) {
      const bar = Math.max(alpha * (height - 2), 1.5);
      context.fillRect(x, height - bar, Math.max(step - 1, 1), bar);
      x += step;
    }
    x += step;
  });
}

/** Draws of two factors, { x, y } around one. */
function drawFactors(canvas, pairs) {
  const { context, width, height } = begin(canvas);
  context.strokeStyle = colour("grid");
  context.strokeRect(width / 2, 0, 0, height);
  context.strokeRect(0, height / 2, width, 0);
  context.fillStyle = colour("blue");
  const unit = height / 7;
  for (const { x, y } of pairs) {
    context.beginPath();
    context.arc(width / 2 + (x - 1) * unit, height / 2 - (y - 1) * unit, 2, 0, 2 * Math.PI);
    context.fill();
  }
}
