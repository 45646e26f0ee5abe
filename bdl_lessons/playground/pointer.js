// Pointer and keys: setting, moving and removing points, and the cross.
"use strict";

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

/** Whether a click puts the cross somewhere, instead of a point. */
function isLooking() {
  return state.task === "classes" && state.label === "look";
}

function pointerDown(event) {
  if (event.button) return;
  plot.setPointerCapture(event.pointerId);
  const start = place(event);
  const point = isLooking() ? undefined : nearestPoint(state.points, start, reach(event));
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
  if (grabbed && !grabbed.has_moved) {
    if (isLooking()) lookAt(grabbed.start);
    else addOrRemove(grabbed.start, grabbed.point);
  }
  grabbed = null;
}

function lookAt(at) {
  probe = at;
  say(probeText(probe));
  wake();
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
    lookAt(inside({ x: probe.x + step * arrow[0], y: probe.y + step * arrow[1] }));
  } else if (event.key === "Enter" || event.key === " ") {
    if (isLooking()) say("Choose a class to add points.");
    else addOrRemove(probe, nearestPoint(state.points, probe, reach()));
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
  window.parent.document.dispatchEvent(new KeyboardEvent("keydown", { key: event.key, keyCode, bubbles: true }));
}
