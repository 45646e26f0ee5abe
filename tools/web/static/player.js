// Plays recorded panels: a figure of class bdl-panel has the panel's name in data-panel, the address
// of its recording in data-src (unless the page has it already) and a picture, which stays where no
// script runs. The recording calls bdlPanels.add with the name and base64 of deflated JSON.
"use strict";
globalThis.bdlPanels = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const added = new Map();  // name -> {promise, resolve, reject} of the content

  function entry(name) {
    if (!added.has(name)) {
      const made = {};
      made.promise = new Promise((resolve, reject) => Object.assign(made, {resolve, reject}));
      made.promise.catch(() => {});
      added.set(name, made);
    }
    return added.get(name);
  }

  async function unpack(data) {
    const letters = atob(data), bytes = new Uint8Array(letters.length);
    for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  function add(name, data) {
    unpack(data).then(entry(name).resolve, entry(name).reject);
  }

  function load(figure) {
    const {panel, src} = figure.dataset, wanted = entry(panel);
    if (src && !wanted.asked) {
      wanted.asked = true;
      const script = document.createElement("script");
      script.src = src;
      script.onload = () => setTimeout(wanted.reject, 3000, new Error("the file has no recording"));
      script.onerror = () => wanted.reject(new Error("the file cannot be read"));
      document.head.append(script);
    }
    return wanted.promise;
  }

  function make(tag, properties = {}, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  }

  // [value] is a constant; [controls, places, table] a value for each combination of controls.
  function reader(field, lengths) {
    if (field.length === 1) return () => field[0];
    const [controls, places, table] = field;
    return setting => {
      let place = 0;
      for (const control of controls) place = place * lengths[control] + setting[control];
      return table[places[place]];
    };
  }

  // A function that shows one element at a setting and touches only what has changed.
  function slot([tag, ...fields], lengths, svg) {
    const element = document.createElementNS(SVG, tag);
    const readers = fields.map(field => reader(field, lengths));
    if (tag === "image") element.setAttribute("preserveAspectRatio", "none");
    svg.append(element);
    let before = [];
    return setting => {
      const now = readers.map(read => read(setting));
      if (now.every((value, index) => value === before[index])) return;
      const [look, shape, x, y] = now;
      const shown = look != null;
      if (shown) {
        const [style, angle] = look.split("|").reverse();
        if (look !== before[0]) element.setAttribute("style", style);
        if (tag === "path") {
          element.setAttribute("d", `M${x} ${y}${shape}`);
        } else {
          element.setAttribute("x", x);
          element.setAttribute("y", y);
          if (angle && angle !== "0") {
            element.setAttribute("transform", `rotate(${angle} ${x} ${y})`);
          } else {
            element.removeAttribute("transform");  // of the words that stood here before
          }
          if (shape !== before[1]) {
            if (tag === "text") element.textContent = shape;
            else element.setAttribute("href", shape);
          }
        }
      }
      element.toggleAttribute("hidden", !shown);
      element.style.display = shown ? "" : "none";
      before = now;
    };
  }

  function control(data, number, name, moved) {
    const id = `${name}-control-${number}-${document.querySelectorAll(".bdl-controls").length}`;
    const label = make("label", {htmlFor: id, textContent: data.label});
    if (data.list) {
      const options = data.texts.map((text, index) => new Option(text, index));
      const select = make("select", {id}, ...options);
      select.addEventListener("change", moved);
      return {
        row: make("div", {className: "bdl-control"}, label, select),
        get: () => select.selectedIndex,
        set: place => { select.selectedIndex = place; },
        show() {},
      };
    }
    const input = make("input", {id, type: "range", min: 0, max: data.texts.length - 1, step: 1});
    const output = make("output", {htmlFor: id});
    output.style.minWidth = `${Math.max(...data.texts.map(text => text.length))}ch`;
    input.addEventListener("input", moved);
    return {
      row: make("div", {className: "bdl-control"}, label, input, output),
      get: () => Number(input.value),
      set: place => { input.value = place; },
      show() {
        output.textContent = data.texts[this.get()];
        input.setAttribute("aria-valuetext", output.textContent);
      },
    };
  }

  // One part of the drawing by itself: on a narrow screen the parts stand below each other.
  function part(drawing, box) {
    const svg = document.createElementNS(SVG, "svg"), use = document.createElementNS(SVG, "use");
    use.setAttribute("href", `#${drawing}`);
    svg.setAttribute("viewBox", box.join(" "));
    svg.setAttribute("aria-hidden", "true");
    svg.classList.add("bdl-part");
    svg.style.setProperty("--width", `${box[2] / 10}px`);
    svg.append(use);
    return svg;
  }

  function play(figure, content) {
    const name = figure.dataset.panel, lengths = content.controls.map(data => data.texts.length);
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${content.size.join(" ")}`);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", content.alt);
    svg.innerHTML = `<defs>${content.definitions}</defs>` +
      `<g id="${name}-drawing"><g>${content.still}</g><g></g></g>`;
    svg.classList.add("bdl-whole");
    svg.style.setProperty("--width", `${content.size[0] / 10}px`);
    const slots = content.slots.map(data => slot(data, lengths, svg.lastChild.lastChild));
    const pieces = content.readout.map(field => reader(field, lengths));
    const readout = make("p", {className: "bdl-readout"});
    readout.setAttribute("aria-live", "polite");

    let waiting = false;
    const moved = () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(draw);
    };
    const controls = content.controls.map((data, number) => control(data, number, name, moved));
    function draw() {
      waiting = false;
      const setting = controls.map(one => one.get());
      controls.forEach(one => one.show());
      slots.forEach(show => show(setting));
      const text = pieces.map(read => read(setting) ?? "").join("");
      if (text !== readout.shown) readout.innerHTML = readout.shown = text;
    }
    const start = () => {
      controls.forEach((one, index) => one.set(content.controls[index].start));
      draw();
    };
    const reset = make("button", {type: "button", textContent: "Reset"});
    reset.title = "Back to the start";
    reset.addEventListener("click", start);
    const row = make("div", {className: "bdl-controls"}, ...controls.map(one => one.row), reset);
    // Keys belong to the panel while it has the focus, not to the slides; Escape leaves it. Page
    // keys, which a presenter's remote control sends, leave it and turn the slide.
    row.dataset.preventSwipe = "";
    row.addEventListener("keydown", event => {
      const turns = event.key.startsWith("Page") && figure.closest(".reveal");
      if (event.key === "Escape" || turns) document.activeElement.blur();
      if (turns) event.preventDefault();
      else event.stopPropagation();
    });
    start();
    const scroll = make("div", {className: "bdl-picture", tabIndex: 0}, svg);
    scroll.append(...content.parts.map(box => part(`${name}-drawing`, box)));
    figure.replaceChildren(row, scroll, readout);
    figure.dataset.state = "ready";
  }

  function fail(figure, error) {
    figure.dataset.state = "failed";
    const text = `This panel cannot be moved here (${error?.message ?? error}); ` +
      "the picture shows where it starts.";
    const message = make("p", {className: "bdl-message", textContent: text});
    message.setAttribute("role", "alert");
    figure.querySelector(".bdl-still")?.remove();
    figure.append(message);
  }

  function begin(figure) {
    load(figure).then(content => play(figure, content)).catch(error => fail(figure, error));
  }

  function watch() {
    const seen = new IntersectionObserver(entries => {
      for (const {isIntersecting, target} of entries) {
        if (isIntersecting) {
          seen.unobserve(target);
          begin(target);
        }
      }
    }, {rootMargin: "400px"});
    for (const figure of document.querySelectorAll("figure.bdl-panel")) {
      if (figure.closest(".reveal")) begin(figure);  // ready before its slide is shown
      else seen.observe(figure);
    }
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", watch);
  else watch();
  return {add};
})();
