// Four things to try. Each sets the playground up, says what to do, and sees whether it was done.
"use strict";

const FAR = 1; // from every point: where a network has seen nothing
const NEAR = 0.5; // of a point: its label says something about the place
const TRAINED = 400; // steps

const average = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/**
 * title, task (HTML), setup (settings that differ from the defaults, and where the cross is),
 * choices (a setting and the names of its values, as buttons beside the task; not everywhere), and
 * reached(now, notes): the sentence that says what was found, or "". `now` is the playground after
 * `TRAINED` steps, `notes` keeps what was seen since the invitation was opened; its `hint` is shown
 * until the goal is reached.
 */
const INVITATIONS = [
  {
    title: "Confident without data",
    task:
      "This network has one function. Play, then look with the mouse, or drag the cross, for a " +
      "place <b>far from all points</b> where it is more than 99 % sure of a class. Lesson 00 " +
      "begins there.",
    setup: {
      task: "classes", set: "gap", method: "weight_decay", depth: 2, view: "probability",
      label: "look",
    },
    reached({ at, distance }, notes) {
      const sure = Math.max(at.probability, 1 - at.probability);
      const answer = `${Math.min(sure * 100, 99.9).toFixed(1)} % sure`;
      if (sure <= 0.99) notes.hint = `${answer} at the cross. Look elsewhere.`;
      else if (distance > FAR) {
        notes.done = `${answer}, and the nearest point is ${round(distance)} away.`;
      } else notes.hint = `${answer}, but a point is near. Go on to a distance of ${FAR} and more.`;
      return notes.done;
    },
  },
  {
    title: "Dropout between two clusters",
    task:
      "Play until the band is steady: is it wider <b>between</b> the clusters or at the points? " +
      "Then choose the <b>ensemble of five</b>. Lesson 09 says why.",
    setup: { task: "curve", set: "gap", method: "dropout", depth: 1, kl_weight: 0.3, p_drop: 0.1 },
    choices: { name: "method", values: { dropout: "dropout", ensemble: "ensemble of five" } },
    reached({ state, summaryAt }, notes) {
      const xs = state.points.map(({ x }) => x).sort((a, b) => a - b);
      if (xs.length < 2) return notes.done;
      const gaps = xs.slice(1).map((x, i) => [x - xs[i], (x + xs[i]) / 2]);
      const [, middle] = gaps.reduce((widest, gap) => (gap[0] > widest[0] ? gap : widest));
      const in_gap = summaryAt({ x: middle }).std.toFixed(2);
      const at_points = average(xs.map((x) => summaryAt({ x }).std)).toFixed(2);
      notes[state.method] = `${in_gap} and ${at_points}`;
      notes.hint =
        `Standard deviation of the functions: ${in_gap} in the middle of the gap, ${at_points} at ` +
        "the points. When the band is steady, choose the other method.";
      if (notes.dropout && notes.ensemble) {
        notes.done =
          "Standard deviation of the functions in the middle of the gap and at the points: " +
          `dropout ${notes.dropout}, ensemble ${notes.ensemble}.`;
      }
      return notes.done;
    },
  },
  {
    title: "Two reasons to be uncertain",
    task:
      "Play. The map is bright where the network is uncertain. Look for a bright place where " +
      "<b>labels are mixed</b>, so that each function is uncertain by itself, and for one where " +
      "<b>the functions disagree</b>. The sentence under the plot tells them apart. Which is worth " +
      "another label? Lesson 15 asks.",
    setup: {
      task: "classes", set: "ambiguous", method: "dropout", depth: 2, view: "entropy", label: "look",
    },
    reached({ at, distance }, notes) {
      const share = at.mutual_information / at.entropy;
      const is_uncertain = at.entropy >= 0.4;
      if (is_uncertain && share < 0.15 && distance < NEAR) notes.data = true;
      if (is_uncertain && share > 0.4) notes.model = true;
      if (notes.data && notes.model) notes.done = "You found both: one label is a coin, one unknown.";
      const missing = notes.data ? "where the functions disagree" : "among points of both classes";
      const there = is_uncertain ? "" : "The network is sure here. ";
      notes.hint = notes.data || notes.model
        ? `One of two. Now a bright place ${missing}.`
        : `${there}Look where the map is bright.`;
      return notes.done;
    },
  },
  {
    title: "Noise that a ridge lets pass",
    task:
      "Both inputs say nearly the same. Play, then raise <b>T from 0 to 1</b> and wait again: " +
      "where does the map get brighter, and where not? Then add points beside the ridge. Lesson " +
      "14 says why.",
    setup: {
      task: "classes", set: "ridge", method: "structured", depth: 0, n_reflections: 0,
      kl_weight: 0.3, view: "mutual_information", probe: { x: 1.5, y: -1.5 },
    },
    choices: { name: "n_reflections", values: { 0: "T = 0", 1: "T = 1" } },
    reached({ state, summaryAt }, notes) {
      if (state.method !== "structured") return notes.done;
      const information = (place) => summaryAt(place).mutual_information;
      const on = average(state.points.map(information));
      const off = average(state.points.map(({ x, y }) => information({ x, y: -y })));
      const values = `${off.toFixed(2)} off the ridge and ${on.toFixed(2)} on it`;
      notes[state.n_reflections ? "after" : "before"] = values;
      notes.hint = `Mutual information: ${values}. When the map is steady, choose the other T.`;
      if (notes.before && notes.after) {
        notes.done = `Mutual information with T = 0: ${notes.before}; with T > 0: ${notes.after}.`;
      }
      return notes.done;
    },
  },
];
