"use strict";
(async () => {
  const root = document.documentElement;
  const $ = (id) => document.getElementById(id);
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };

  // Light and dark. A page from the disk may keep nothing; then the choice lasts as long as the page.
  const remembered = () => { try { return localStorage.getItem("proxy-trace-theme"); } catch { return null; } };
  root.dataset.theme = remembered() || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

  // The data.
  async function unpacked(id) {
    const bytes = Uint8Array.from(atob($(id).textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }
  const meta = JSON.parse(new TextDecoder().decode(await unpacked("meta")));
  const arrays = ((bytes) => {
    let at = 0;
    return meta.parts.map(([type, length]) => {
      const numbers = new globalThis[type](length);
      const size = numbers.BYTES_PER_ELEMENT;
      const into = new Uint8Array(numbers.buffer);
      for (let place = 0; place < size; place++)
        for (let number = 0; number < length; number++) into[number * size + place] = bytes[at++];
      return numbers;
    });
  })(await unpacked("numbers"));

  const [NORM, MINIMUM, MAXIMUM, GRADIENT, RATIO, AT_LEAST, LOSS, RATE] = [0, 1, 2, 3, 4, 5, 6, 7];
  const places = new Map();
  const keyOf = (series, process, kind) => `${series}/${process}/${kind}`;
  {
    const [index] = arrays;
    const at = [0, 0];
    let step = 0;
    for (let row = 0; row < index.length; row += 5) {
      const [series, process, kind, wide, count] = index.subarray(row, row + 5);
      places.set(keyOf(series, process, kind), { step, value: at[wide], wide, count });
      step += count;
      at[wide] += count;
    }
  }
  // Several values of one step stand side by side within the width of that step, in their order.
  function curveOf(series, process, kind) {
    const place = places.get(keyOf(series, process, kind));
    if (!place) return null;
    const steps = [];
    let step = 0;
    for (const by of arrays[1].subarray(place.step, place.step + place.count)) steps.push((step += by));
    const values = [...arrays[2 + place.wide].subarray(place.value, place.value + place.count)];
    const xs = [];
    for (let from = 0; from < steps.length; ) {
      let to = from;
      while (steps[to] === steps[from]) to++;
      for (let each = from; each < to; each++) xs.push(steps[from] + (each - from) / (to - from));
      from = to;
    }
    return { steps, xs, values };
  }

  // Numbers as the trace has them, to the last digit.
  const exactly = (value) => (Number.isNaN(value) ? "NaN" : Number.isFinite(value) ? String(value) : value > 0 ? "inf" : "-inf");
  const shortly = (value) => (Number.isFinite(value) ? String(+value.toPrecision(6)) : exactly(value));
  const short = (value) => {
    const size = Math.abs(value);
    return value === 0 ? "0" : size >= 1e5 || size < 1e-3 ? value.toExponential().replace(/(\.\d{2})\d+/, "$1").replace("e+", "e") : String(+value.toPrecision(4));
  };
  // The ticks of an axis, with as many digits as it takes to tell one from the next.
  const apart = (ticks) => {
    const shown = ticks.filter((tick) => tick !== null);
    const isClear = new Set(shown.map(short)).size === shown.length;
    const gap = Math.min(...shown.slice(1).map((tick, place) => Math.abs(tick - shown[place])));
    const digits = isClear ? 0 : Math.min(Math.ceil(Math.log10(Math.max(...shown.map(Math.abs)) / gap)) + 1, 15);
    return ticks.map((tick) => (tick === null ? "" : isClear ? short(tick) : String(+tick.toPrecision(digits))));
  };
  const duration = (us) =>
    us < 0 ? "did not end" : us < 1000 ? `${us} us` : us < 1e6 ? `${+(us / 1e3).toPrecision(4)} ms` : `${+(us / 1e6).toPrecision(4)} s`;
  const stepName = (step) => (step < 0 ? "the start" : `step ${step.toLocaleString("en")}`);

  const style = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const DASHES = [[], [6, 4], [2, 3], [10, 3, 2, 3], [4, 2], [1, 2], [12, 4], [8, 2, 2, 2]];
  const COLOURS = 8;
  const charts = new Set();
  let isLogarithmic = false;

  class Chart {
    // A plot of some lines, its numbers below it. `lines` are {label, colour, dash, curve, note}.
    constructor(box, { height = 220, mark = null, isLinked = true } = {}) {
      Object.assign(this, { box, height, mark, isLinked, lines: [], plot: null });
      this.area = make("div", { class: "area", tabindex: "0", role: "img" });
      this.numbers = make("div", { class: "numbers", "aria-live": "polite" });
      box.append(this.area, this.numbers);
      this.area.addEventListener("keydown", (event) => this.press(event));
      new ResizeObserver(() => this.fit()).observe(this.area);
      charts.add(this);
    }

    show(lines) {
      this.lines = lines.filter((line) => line.curve && line.curve.xs.length);
      this.draw();
    }

    fit() {
      const width = Math.floor(this.area.clientWidth);
      if (this.plot && width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: this.height });
    }

    draw() {
      this.plot?.destroy();
      this.plot = null;
      this.area.setAttribute("aria-label", this.box.parentElement.querySelector("figcaption")?.textContent ?? "plot");
      this.box.classList.toggle("empty", !this.lines.length);
      if (!this.lines.length) {
        this.numbers.textContent = "not recorded";
        return;
      }
      const tables = this.lines.map(({ curve }) => [
        curve.xs,
        curve.values.map((value) => (Number.isFinite(value) && !(isLogarithmic && value <= 0) ? value : null)),
      ]);
      const data = tables.length > 1 ? uPlot.join(tables) : tables[0];
      // All points of each line at the common places, those that are not finite too: for the numbers below.
      this.at = this.lines.map(({ curve }) => new Map(curve.xs.map((x, place) => [x, place])));
      const axis = { stroke: () => style("--soft"), grid: { stroke: () => style("--grid"), width: 1 }, ticks: { stroke: () => style("--grid"), width: 1 }, font: "11px system-ui, sans-serif" };
      const self = this;
      this.plot = new uPlot({
        width: Math.max(Math.floor(this.area.clientWidth), 100),
        height: this.height,
        legend: { show: false },
        padding: [12, 12, 0, 0],
        cursor: {
          y: false,
          points: { size: 7 },
          drag: { x: true, y: false, dist: 8 },
          dataIdx: (_, number, hovered) => (number === 0 ? hovered : self.nearest(number - 1, hovered)),
          sync: this.isLinked ? { key: "steps", scales: ["x", null], setSeries: false } : undefined,
        },
        scales: {
          x: { time: false, range: (_, low, high) => self.span(low, high) },
          y: { distr: isLogarithmic ? 3 : 1, range: isLogarithmic ? undefined : (_, low, high) => around(low, high) },
        },
        axes: [
          { ...axis, size: 28, incrs: INCREMENTS, values: (_, ticks) => ticks.map((tick) => (tick < 0 ? "start" : tick.toLocaleString("en"))) },
          { ...axis, size: 62, ...(isLogarithmic ? { grid: { ...axis.grid, filter: powers }, ticks: { ...axis.ticks, filter: powers } } : {}), values: (_, ticks) => apart(ticks) },
        ],
        series: [{}, ...this.lines.map((line) => ({
          label: line.label, stroke: () => style(`--c${line.colour}`), dash: line.dash, width: 1.6,
          points: { show: line.curve.xs.length < 3, size: 5, stroke: () => style(`--c${line.colour}`) },
        }))],
        hooks: { draw: [() => self.drawMarks()], setCursor: [() => self.tell()], setSelect: [() => { self.isZoomed = true; }] },
      }, data, this.area);
      this.tell();
    }

    // The steps that are shown: what was zoomed to, else those of the whole run, so that plots can be compared.
    span(low, high) {
      if (low === null) return [-1, Math.max(meta.lastStep, 1)];
      const [first, last] = this.ends();
      if (low !== first || high !== last) return [low, high];
      return [Math.min(first, this.mark ?? first), Math.max(last, meta.lastStep, this.mark ?? last, first + 1)];
    }

    ends() {
      return [Math.min(...this.lines.map(({ curve }) => curve.xs[0])), Math.max(...this.lines.map(({ curve }) => curve.xs.at(-1)))];
    }

    nearest(number, hovered) {
      const x = this.plot.data[0][hovered];
      const { xs } = this.lines[number].curve;
      let low = 0;
      let high = xs.length - 1;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (xs[middle] < x) low = middle + 1;
        else high = middle;
      }
      const place = low > 0 && x - xs[low - 1] <= xs[low] - x ? low - 1 : low;
      return indexOf(this.plot.data[0], xs[place]);
    }

    // The values under the cursor; without one, the last ones.
    tell() {
      if (!this.plot) return;
      const { idx, idxs } = this.plot.cursor;
      const xs = this.plot.data[0];
      const isAt = idx !== null && idx !== undefined;
      const at = isAt ? Math.floor(xs[idx]) : Math.max(...this.lines.map(({ curve }) => curve.steps.at(-1)));
      this.numbers.replaceChildren(
        make("span", { class: "when" }, isAt ? stepName(at) : `last, ${stepName(at)}`),
        ...this.lines.map((line, number) => {
          const { curve } = line;
          const place = isAt ? this.at[number].get(xs[idxs[number + 1]]) : curve.xs.length - 1;
          const value = curve.values[place];
          const step = curve.steps[place];
          const apart = step === at ? "" : ` (${stepName(step)})`;
          const swatch = make("i", { class: `c${line.colour}` });
          const shown = make("b", {}, `${line.note ?? ""}${line.isComputed ? shortly(value) : exactly(value)}`);
          if (!Number.isFinite(value)) shown.className = "bad";
          return make("span", { class: "number", "data-step": step, "data-value": exactly(value) }, swatch, `${line.label} `, shown, make("small", {}, apart));
        }),
      );
    }

    drawMarks() {
      const { ctx, bbox } = this.plot;
      ctx.save();
      if (this.mark !== null) {
        const x = this.plot.valToPos(this.mark, "x", true);
        ctx.strokeStyle = style("--bad");
        ctx.setLineDash([3, 3]);
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
        ctx.setLineDash([]);
      }
      ctx.fillStyle = style("--bad");
      const size = 4 * devicePixelRatio;
      for (const { curve } of this.lines)
        curve.values.forEach((value, place) => {
          if (Number.isFinite(value)) return;
          const x = this.plot.valToPos(curve.xs[place], "x", true);
          if (x < bbox.left || x > bbox.left + bbox.width) return;
          ctx.beginPath();
          ctx.moveTo(x - size, bbox.top);
          ctx.lineTo(x + size, bbox.top);
          ctx.lineTo(x, bbox.top + 2 * size);
          ctx.fill();
        });
      ctx.restore();
    }

    press(event) {
      if (!this.plot) return;
      const { left } = this.plot.cursor;
      const xs = this.plot.data[0];
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (by || event.key === "Home" || event.key === "End") {
        event.preventDefault();
        const now = left >= 0 ? this.plot.cursor.idx : by > 0 ? -1 : xs.length;
        const next = event.key === "Home" ? 0 : event.key === "End" ? xs.length - 1 : Math.min(Math.max(now + by, 0), xs.length - 1);
        this.plot.setCursor({ left: this.plot.valToPos(xs[next], "x"), top: 10 });
      } else if (["+", "=", "-", "0"].includes(event.key)) {
        event.preventDefault();
        const { min, max } = this.plot.scales.x;
        const middle = left >= 0 ? this.plot.posToVal(left, "x") : (min + max) / 2;
        const factor = event.key === "-" ? 2 : 0.5;
        if (event.key === "0") this.zoom(null, null);
        else this.zoom(middle - (middle - min) * factor, middle + (max - middle) * factor);
      } else if (event.key === "Escape") this.plot.setCursor({ left: -10, top: -10 });
    }

    zoom(min, max) {
      const all = this.span(...this.ends());
      const [low, high] = min === null ? all : [Math.max(min, all[0]), Math.min(max, all[1])];
      if (high > low) this.plot.setScale("x", { min: low, max: high });
    }
  }
  const INCREMENTS = [1, 2, 5].flatMap((each) => Array.from({ length: 12 }, (_, power) => each * 10 ** power)).sort((a, b) => a - b);

  // Of a logarithmic scale only the powers of ten have lines: others would fill the plot where there are many.
  const powers = (_, splits) => splits.map((each) => (Math.abs(Math.log10(each) - Math.round(Math.log10(each))) < 1e-9 ? each : null));

  function around(low, high) {
    if (low === null || high === null) return [0, 1];
    const margin = (high - low) * 0.08 || Math.abs(high) * 0.1 || 1;
    return [low - margin, high + margin];
  }

  function indexOf(sorted, wanted) {
    let low = 0;
    let high = sorted.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < wanted) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // Which lines a plot has: a colour for each where that is enough, else for each series, the processes dashed.
  const several = meta.processes.length > 1;
  const shownProcesses = () => {
    const boxes = [...document.querySelectorAll("input[name=process]")];
    return meta.processes.map((_, number) => number).filter((number) => !boxes.length || boxes[number].checked);
  };
  function linesOf(numbers, kinds, drawn = shownProcesses()) {
    const found = [];
    numbers.forEach((series, place) => {
      for (const process of drawn)
        for (const kind of kinds) {
          const curve = curveOf(series, process, kind);
          if (!curve) continue;
          const [, name] = meta.series[series];
          const of = kind === MINIMUM ? " minimum" : kind === MAXIMUM ? " maximum" : "";
          found.push({
            label: `${name}${of}${several ? `, ${meta.processes[process].label}` : ""}`, curve,
            colour: (numbers.length === 1 ? process : place) % COLOURS, dash: numbers.length === 1 ? [] : DASHES[process % DASHES.length],
            note: kind === AT_LEAST ? "at least " : "", isComputed: kind === RATIO || kind === AT_LEAST,
          });
        }
    });
    return found;
  }

  const seriesOf = (of) => meta.series.map(([kind], number) => (kind === of ? number : -1)).filter((number) => number >= 0);
  const losses = seriesOf("loss");
  const rates = seriesOf("rate");
  const state = seriesOf("state");
  const wide = Object.fromEntries(["loss", "rate", "norm", "extremes", "gradient", "ratio"].map((id) => [id, new Chart($(id))]));

  // Which parameters are drawn.
  const MOST = 8;
  const LISTED = 200;
  const filter = $("filter");
  const told = new Set(meta.findings);
  let chosen = state.filter((number) => told.has(meta.series[number][1])).slice(0, 3);
  if (!chosen.length) chosen = state.filter((number) => !meta.series[number][3]).slice(0, 3);
  if (!chosen.length) chosen = state.slice(0, 3);

  function matching() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    return state.filter((number) => words.every((word) => meta.series[number][1].toLowerCase().includes(word)));
  }

  // Names end lines behind dots, where there is no room for all.
  const breakable = (name) => name.split(/(?<=\.)/).flatMap((part) => [part, make("wbr")]);

  function listNames() {
    const found = matching();
    const listed = [...new Set([...chosen.filter((number) => found.includes(number)), ...found])].slice(0, LISTED);
    $("names").replaceChildren(...listed.map((number) => {
      const [, name, type, isBuffer] = meta.series[number];
      const box = make("input", { type: "checkbox", value: number });
      box.checked = chosen.includes(number);
      box.addEventListener("change", () => choose(box.checked ? [...chosen, number].slice(-MOST) : chosen.filter((each) => each !== number)));
      const swatch = make("i", { class: box.checked && chosen.length > 1 ? `c${chosen.indexOf(number) % COLOURS}` : "" });
      return make("label", {}, box, swatch, make("span", {}, ...breakable(name)), make("small", {}, isBuffer ? `${type} (buffer)` : type));
    }));
    const more = found.length > listed.length ? `, ${listed.length} listed` : "";
    $("chosen").textContent = `${chosen.length} drawn, at most ${MOST}; ${found.length.toLocaleString("en")} of ${state.length.toLocaleString("en")} match${more}`;
  }

  function choose(numbers) {
    chosen = numbers;
    listNames();
    drawState();
  }

  function drawState() {
    wide.norm.show(linesOf(chosen, [NORM]));
    wide.extremes.show(linesOf(chosen, [MINIMUM, MAXIMUM]));
    wide.gradient.show(linesOf(chosen, [GRADIENT]));
    wide.ratio.show(linesOf(chosen, [RATIO, AT_LEAST]));
  }

  function drawAll() {
    wide.loss.show(linesOf(losses, [LOSS]));
    wide.rate.show(linesOf(rates, [RATE]));
    drawState();
  }

  filter.addEventListener("input", listNames);
  filter.addEventListener("keydown", (event) => {
    if (event.key === "Enter") choose(matching().slice(0, MOST));
    else if (event.key === "Escape") filter.blur();
  });
  document.querySelectorAll("input[name=process]").forEach((box, number) => {
    box.nextElementSibling.className = `c${number % COLOURS}`;
    box.addEventListener("change", drawAll);
  });
  const leftOut = meta.processes.reduce((sum, process) => sum + process.leftOut, 0);
  $("thinned").textContent =
    "Of long runs each stretch of steps has its lowest and its highest value, as the trace has them. " +
    "Update / weight is the norm of an update by that of the weight: exact for plain SGD (learning rate times gradient norm), " +
    'else "at least", by how far norm and extremes moved.' +
    (leftOut ? ` ${leftOut.toLocaleString("en")} values belong to curves beyond what a page holds.` : "");
  listNames();
  drawAll();

  // The small plots beside findings, as they come into sight.
  const sight = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      sight.unobserve(target);
      const { series, kinds, step } = target.dataset;
      const chart = new Chart(target, { height: 130, mark: step === undefined ? null : +step, isLinked: false });
      chart.show(linesOf(series.split(" ").map(Number), kinds.split(" ").map(Number), meta.processes.map((_, number) => number)));
    }
  }, { rootMargin: "300px" });
  for (const each of document.querySelectorAll(".plot.small")) sight.observe(each);

  // The tree of modules.
  const OPEN_ROWS = 60;
  function showTree(number) {
    const { modules } = meta.processes[number];
    const box = $("tree");
    if (!modules.length) {
      box.textContent = "No module was traced.";
      return;
    }
    const hasChildren = (row) => row + 1 < modules.length && modules[row + 1][0] > modules[row][0];
    const open = new Set();
    let depth = 0;
    while (modules.filter(([each]) => each <= depth).length <= OPEN_ROWS && depth < 40) depth++;
    modules.forEach(([each], row) => { if (each < depth - (modules.length > OPEN_ROWS ? 1 : 0)) open.add(row); });
    const longest = Math.max(...modules.map((module) => module[4]), 1);
    const body = make("tbody");
    const head = make("tr", {}, ...["name", "type", "calls", "total", "mean", "parameters"].map((title, place) => make("th", place > 1 ? { class: "n" } : {}, title)));
    const table = make("table", { class: "modules" }, make("thead", {}, head), body);

    function draw(focused) {
      const rows = [];
      for (let row = 0; row < modules.length && rows.length < 2000; row++) {
        const [depth, name, type, calls, totalUs, total, mean, parameters, notes] = modules[row];
        const isOpen = open.has(row);
        const toggle = hasChildren(row)
          ? make("button", { "aria-expanded": isOpen, "data-row": row, "aria-label": `${isOpen ? "close" : "open"} ${name}` }, isOpen ? "\u25be" : "\u25b8")
          : make("span", { class: "leaf" });
        const first = make("td", {}, toggle, make("span", { title: name }, depth ? name.slice(name.lastIndexOf(".") + 1) : name));
        first.style.setProperty("--depth", Math.min(depth, 20));
        const bar = make("i", { class: "bar" });
        bar.style.width = `${(100 * totalUs) / longest}%`;
        rows.push(make("tr", {}, first, make("td", {}, type), make("td", { class: "n" }, calls, notes ? ` (${notes})` : ""),
          make("td", { class: "n" }, total, bar), make("td", { class: "n" }, mean), make("td", { class: "n" }, parameters)));
        if (!isOpen) while (row + 1 < modules.length && modules[row + 1][0] > depth) row++;
      }
      body.replaceChildren(...rows);
      if (focused !== undefined) body.querySelector(`button[data-row="${focused}"]`)?.focus();
    }
    const set = (row, isOpen) => { if (isOpen) open.add(row); else open.delete(row); draw(row); };
    body.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) set(+button.dataset.row, !open.has(+button.dataset.row));
    });
    body.addEventListener("keydown", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      const buttons = [...body.querySelectorAll("button")];
      const at = buttons.indexOf(button);
      const action = {
        ArrowRight: () => set(+button.dataset.row, true), ArrowLeft: () => set(+button.dataset.row, false),
        ArrowDown: () => buttons[at + 1]?.focus(), ArrowUp: () => buttons[at - 1]?.focus(),
      }[event.key];
      if (action) { event.preventDefault(); action(); }
    });
    draw();
    box.replaceChildren(...selector(number, showTree), table);
  }

  // A list to choose a process from, where there are several.
  function selector(number, show) {
    if (!several) return [];
    const list = make("select", { "aria-label": "process" }, ...meta.processes.map(({ label }, each) => make("option", { value: each }, label)));
    list.value = number;
    list.addEventListener("change", () => show(+list.value));
    return [list];
  }
  showTree(0);

  // The calls of one step.
  let drawStrip = () => {};
  function showStrip(number) {
    const box = $("calls");
    const { strip } = meta.processes[number];
    if (!strip) {
      box.replaceChildren(...selector(number, showStrip), "No call was recorded.");
      drawStrip = () => {};
      return;
    }
    const { calls } = strip;
    const ROW = 20;
    const rows = Math.min(Math.max(...calls.map((call) => call[5])) + 1, 24);
    const canvas = make("canvas", { tabindex: "0", role: "img", "aria-label": "the calls of one step, in order" });
    const words = make("p", { class: "numbers", "aria-live": "polite" });
    const mode = make("button", { "aria-pressed": "false" }, "equal widths");
    const types = [...new Set(calls.map((call) => call[2] || call[0]))];
    let isInOrder = calls.every((call) => call[7] <= 0);
    let current = -1;
    let spans = [];

    // Where each call begins and ends, as a share of the width: by time, or each call with none in it as wide as any.
    function layOut() {
      const ends = calls.map((call) => call[6] + Math.max(call[7], 0));
      const last = Math.max(...ends, 1);
      if (!isInOrder) return calls.map((call, place) => [call[6] / last, ends[place] / last]);
      const found = calls.map(() => [0, 0]);
      let leaves = 0;
      const open = [];
      calls.forEach((call, place) => {
        while (open.length && calls[open.at(-1)][5] >= call[5]) found[open.pop()][1] = leaves;
        found[place][0] = leaves;
        if (place + 1 >= calls.length || calls[place + 1][5] <= call[5]) leaves++;
        open.push(place);
      });
      while (open.length) found[open.pop()][1] = leaves;
      return found.map(([from, to]) => [from / leaves, to / leaves]);
    }

    drawStrip = () => {
      const width = box.clientWidth;
      if (!width) return;
      const ratio = devicePixelRatio || 1;
      canvas.width = Math.floor(width * ratio);
      canvas.height = Math.floor(rows * ROW * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${rows * ROW}px`;
      const context = canvas.getContext("2d");
      context.scale(ratio, ratio);
      context.font = "11px system-ui, sans-serif";
      context.textBaseline = "middle";
      spans = layOut();
      calls.forEach((call, place) => {
        const [from, to] = spans[place];
        const left = from * width;
        const size = Math.max((to - from) * width - 1, 1);
        const top = call[5] * ROW;
        context.fillStyle = style(call[0] === "backward" ? "--bad" : call[0] === "step" ? "--soft" : `--c${types.indexOf(call[2] || call[0]) % COLOURS}`);
        context.globalAlpha = place === current ? 1 : 0.55;
        context.fillRect(left, top, size, ROW - 2);
        context.globalAlpha = 1;
        if (place === current) {
          context.strokeStyle = style("--fg");
          context.lineWidth = 2;
          context.strokeRect(left + 1, top + 1, Math.max(size - 2, 1), ROW - 4);
        }
        const name = call[0] === "module" ? call[1].slice(call[1].lastIndexOf(".") + 1) || call[1] : call[1];
        if (context.measureText(name).width < size - 6) {
          context.fillStyle = style("--fg");
          context.fillText(name, left + 4, top + ROW / 2 - 1);
        }
      });
    };

    function tell(place) {
      current = place;
      drawStrip();
      if (place < 0) {
        const more = strip.leftOut ? `, and ${strip.leftOut.toLocaleString("en")} more` : "";
        words.textContent = `${stepName(strip.step)}: ${calls.length.toLocaleString("en")} calls${more}. Point at one, or go with the arrow keys.`;
        return;
      }
      const [kind, name, type, at, stage, , start, took, raised] = calls[place];
      const time = kind === "function" ? "" : `, ${duration(took)}${raised ? ", raised an exception" : ""}`;
      words.replaceChildren(make("b", {}, name), ` ${type}${type ? ", " : ""}call ${place + 1} of ${calls.length}, ${duration(start)} after the first${time}, ${stage} `, ...(at ? [link(at)] : []));
    }

    const callAt = (event) => {
      const bounds = canvas.getBoundingClientRect();
      const x = (event.clientX - bounds.left) / bounds.width;
      const row = Math.floor((event.clientY - bounds.top) / ROW);
      let best = -1;
      calls.forEach((call, place) => {
        if (call[5] === row && spans[place][0] <= x && x <= Math.max(spans[place][1], spans[place][0] + 2 / bounds.width)) best = place;
      });
      return best;
    };
    canvas.addEventListener("pointermove", (event) => { const found = callAt(event); if (found >= 0 && found !== current) tell(found); });
    canvas.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (by) { event.preventDefault(); tell(Math.min(Math.max(current + by, 0), calls.length - 1)); }
      else if (event.key === "Escape") tell(-1);
    });
    const setMode = () => { mode.setAttribute("aria-pressed", isInOrder); drawStrip(); };
    mode.addEventListener("click", () => { isInOrder = !isInOrder; setMode(); });
    box.replaceChildren(...selector(number, showStrip), mode, canvas, words);
    setMode();
    tell(-1);
  }

  // The script, with what happens at its lines.
  const files = new Map();
  const NEAR = 4;
  const link = (place) => {
    const cut = place.lastIndexOf(":");
    return make("a", { href: "#script", class: "place", "data-file": place.slice(0, cut), "data-line": place.slice(cut + 1) }, place);
  };
  function showScript({ file, note, lines, marks }) {
    const of = new Map(marks);
    const details = make("details", {}, make("summary", {}, make("code", {}, file), note ? ` (its text ${note})` : ""));
    details.open = files.size === 0;
    const table = make("table", { class: "script" });
    const rows = new Map();
    const markOf = ([what, count, severity]) => make("span", { class: `mark ${severity}` }, count > 1 ? `${what} \u00d7${count.toLocaleString("en")}` : what);
    function row(number) {
      const found = make("tr", {}, make("td", { class: "n" }, String(number)));
      if (lines) found.append(make("td", {}, make("code", {}, lines[number - 1] ?? "")));
      const marks = of.get(number) ?? [];
      const cell = make("td", {}, ...marks.slice(0, 6).map(markOf), marks.length > 6 ? ` and ${marks.length - 6} more` : "");
      if (marks.length) found.className = ["error", "warning", "note"].find((each) => marks.some((mark) => mark[2] === each)) ?? "marked";
      found.append(cell);
      rows.set(number, found);
      return found;
    }
    const wanted = new Set();
    for (const number of of.keys())
      for (let near = lines ? number - NEAR : number; near <= (lines ? number + NEAR : number); near++) wanted.add(near);
    const last = lines ? lines.length : Math.max(0, ...of.keys());
    for (let number = 1; number <= last; ) {
      if (wanted.has(number)) { table.append(row(number++)); continue; }
      const from = number;
      while (number <= last && !wanted.has(number)) number++;
      if (!lines) continue;
      const to = number;
      const button = make("button", {}, to - from === 1 ? "1 line" : `${to - from} lines`);
      const gap = make("tr", { class: "gap" }, make("td", { colspan: "3" }, button));
      button.addEventListener("click", () => gap.replaceWith(...Array.from({ length: to - from }, (_, by) => row(from + by))));
      table.append(gap);
    }
    details.append(make("div", { class: "scroll" }, table));
    files.set(file, { details, rows });
    return details;
  }
  $("files").replaceChildren(...(meta.scripts.length ? meta.scripts.map(showScript) : ["No place in a script was recorded."]));
  document.addEventListener("click", (event) => {
    const place = event.target.closest("a.place");
    const found = place && files.get(place.dataset.file);
    const line = found?.rows.get(+place.dataset.line);
    if (!line) return;
    event.preventDefault();
    found.details.open = true;
    document.querySelector("tr.current")?.classList.remove("current");
    line.classList.add("current");
    line.scrollIntoView({ block: "center" });
  });
  showStrip(0);

  // Keys.
  const findings = [...document.querySelectorAll(".finding")];
  function goTo(by) {
    const at = findings.indexOf(document.activeElement);
    const next = findings[at < 0 ? (by > 0 ? 0 : findings.length - 1) : Math.min(Math.max(at + by, 0), findings.length - 1)];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  }
  function redraw() {
    for (const chart of charts) chart.plot?.redraw(false, true);
    drawStrip();
  }
  function toggleTheme() {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("proxy-trace-theme", root.dataset.theme); } catch { /* not kept */ }
    redraw();
  }
  function toggleLogarithm() {
    isLogarithmic = !isLogarithmic;
    $("log").setAttribute("aria-pressed", isLogarithmic);
    for (const chart of charts) chart.draw();
  }
  const keys = $("keys");
  const commands = {
    j: () => goTo(1), k: () => goTo(-1), t: toggleTheme, l: toggleLogarithm,
    "?": () => (keys.open ? keys.close() : keys.showModal()),
    "/": () => { filter.focus(); filter.select(); },
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.activeElement === filter || document.activeElement.tagName === "SELECT") return;
    const command = commands[event.key];
    if (command) { event.preventDefault(); command(); }
  });
  $("theme").addEventListener("click", toggleTheme);
  $("log").addEventListener("click", toggleLogarithm);
  $("help").addEventListener("click", () => keys.showModal());
  addEventListener("resize", () => drawStrip());
  root.dataset.ready = "";
})();
