// The data: points that the reader sets, ready sets, and their form in the address of the page.
"use strict";

const LIMIT = 3; // both axes go from -LIMIT to LIMIT
const MOST_POINTS = 100;

/** Ready sets: a function from a Random to points { x, y } of a curve, or { x, y, label } of two classes. */
const READY_SETS = {
  curve: {
    gap: {
      name: "Two clusters with a gap",
      make: (random) =>
        range(30, (i) => {
          const x = (i < 15 ? -1.9 : 1.1) + 0.8 * random.uniform();
          return { x, y: Math.sin(1.5 * x) + 0.1 * random.normal() };
        }),
    },
    wave: {
      name: "A wave",
      make: (random) =>
        range(40, (i) => {
          const x = -2.2 + (4.4 * i) / 39;
          return { x, y: 1.2 * Math.sin(2 * x) + 0.15 * random.normal() };
        }),
    },
  },
  classes: {
    gap: {
      name: "Two clusters with a gap",
      make: (random) =>
        range(40, (i) => {
          const label = i % 2;
          const centre = label ? 1.5 : -1.5;
          return { x: centre + 0.35 * random.normal(), y: centre + 0.35 * random.normal(), label };
        }),
    },
    moons: {
      name: "Half moons",
      make: (random) =>
        range(60, (i) => {
          const label = i % 2;
          const angle = Math.PI * random.uniform();
          const x = 1.2 * Math.cos(angle) + (label ? 0.6 : -0.6);
          const y = 1.2 * Math.sin(angle) - 0.3;
          return { x: x + 0.1 * random.normal(), y: (label ? -y : y) + 0.1 * random.normal(), label };
        }),
    },
    ridge: {
      name: "A ridge",
      make: (random) =>
        range(40, (i) => {
          const along = -2 + (4 * i) / 39;
          const label = along + 0.4 * random.normal() > 0 ? 1 : 0;
          return { x: along + 0.1 * random.normal(), y: along + 0.1 * random.normal(), label };
        }),
    },
    ambiguous: {
      name: "Ambiguous labels",
      make: (random) =>
        range(60, (i) => {
          const [x, y] = [[-1.8, 1.2], [1.8, 1.2], [0, -1.6]][i % 3];
          const label = i % 3 === 2 ? Number(random.uniform() < 0.5) : i % 3; // below: a coin
          return { x: x + 0.3 * random.normal(), y: y + 0.3 * random.normal(), label };
        }),
    },
  },
};

function readySet(task, name) {
  const points = READY_SETS[task][name].make(new Random(7));
  return points.map((point) => ({ ...point, x: round(point.x), y: round(point.y) }));
}

/** What the network is trained on: inputs and targets of the points. */
function trainingData(task, points) {
  const is_class = task === "classes";
  return {
    x: Float64Array.from(points.flatMap(({ x, y }) => (is_class ? [x, y] : [x]))),
    y: Float64Array.from(points, ({ y, label }) => (is_class ? label : y)),
    is_class,
  };
}

/** Points as text for the address of the page, "x,y" or "x,y,label" with ";" between, and back. */
function pointsToText(points) {
  return points.map(({ x, y, label }) => [x, y, label ?? []].flat().join(",")).join(";");
}

function pointsFromText(text, task) {
  const points = text.split(";").map((part) => {
    const [x, y, label] = part.split(",").map(Number);
    return task === "classes" ? { x, y, label } : { x, y };
  });
  const isInside = (value) => Math.abs(value) <= LIMIT;
  const isRight = ({ x, y, label }) => isInside(x) && isInside(y) && [undefined, 0, 1].includes(label);
  return points.filter(isRight).slice(0, MOST_POINTS);
}

/** The point closest to `place` within `radius`, or undefined. */
function nearestPoint(points, place, radius = Infinity) {
  const distance = (point) => Math.hypot(point.x - place.x, point.y - place.y);
  const [first] = [...points].sort((a, b) => distance(a) - distance(b));
  return first && distance(first) <= radius ? first : undefined;
}

function round(value) {
  return Math.round(100 * value) / 100;
}

function range(n, make) {
  return Array.from({ length: n }, (_, index) => make(index));
}
