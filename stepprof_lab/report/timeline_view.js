// The timeline that can be zoomed. It draws what timeline_data.py wrote into the page, asks for nothing and writes
// nothing: every name is put in as text. Where it cannot start, the still picture stays as it is.
"use strict";
(() => {
  const box = document.getElementById("tl-view");
  const holder = document.getElementById("tl-data");
  if (!box || !holder || !("DecompressionStream" in window)) return;

  const COLUMNS = ["begins", "length", "name", "kind", "count", "own", "launch", "evidence"];
  const ROW = { steps: 22, labels: 18, cpu: 14, device: 16, practice: 16 };
  const GAP = 10, OVERVIEW = 16, AXIS = 26, FINDING = 18, ZOOM = 1.6, SHORTEST = 40, EDGE = 8;
  const meta = JSON.parse(holder.textContent);
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const part = (name) => box.querySelector(`[data-part="${name}"]`);

  const make = (tag, attributes = {}, text = "") => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text;
    return made;
  };

  // ---- the data ----

  async function unpacked() {
    const text = atob(meta.data);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  function columnsOf(bytes) {
    const n = meta.count, found = {};
    let at = 0;
    COLUMNS.forEach((name, number) => {
      const column = new Float64Array(n);
      for (let plane = 0, scale = 1; plane < meta.planes[number]; plane++, scale *= 256)
        for (let i = 0; i < n; i++, at++) if (bytes[at]) column[i] += bytes[at] * scale;
      found[name] = column;
    });
    found.names = JSON.parse(new TextDecoder().decode(bytes.subarray(at)));
    return found;
  }

  // Rows are runs of bars that follow each other; a bar is known by its number.
  function barsOf(columns) {
    const n = meta.count;
    const bars = {
      n, names: columns.names, rows: [],
      start: new Float64Array(n), end: new Float64Array(n), row: new Uint16Array(n),
      name: Uint32Array.from(columns.name), kind: Uint8Array.from(columns.kind),
      count: Float64Array.from(columns.count, (more) => more + 1), own: columns.own,
      evidence: Uint16Array.from(columns.evidence),
      launch: new Int32Array(n), firstWork: new Int32Array(n).fill(-1), nextWork: new Int32Array(n).fill(-1),
    };
    let i = 0;
    meta.lanes.forEach((lane, laneNumber) => lane.rows.forEach((length, depth) => {
      const row = { lane: laneNumber, depth, from: i, to: i + length };
      for (let now = 0; i < row.to; i++) {
        now += columns.begins[i];
        bars.start[i] = now;
        bars.end[i] = now + columns.length[i];
        bars.row[i] = bars.rows.length;
      }
      bars.rows.push(row);
    }));
    for (let k = 0, launch = 0; k < n; k++) {
      const step = columns.launch[k];
      launch += step % 2 ? -(step + 1) / 2 : step / 2;
      bars.launch[k] = launch - 1;
    }
    for (let k = n - 1; k >= 0; k--) {
      const from = bars.launch[k];
      if (from >= 0) { bars.nextWork[k] = bars.firstWork[from]; bars.firstWork[from] = k; }
    }
    return bars;
  }

  // First bar of a row that ends after a time.
  function firstAfter(bars, row, time) {
    let low = row.from, high = row.to;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (bars.start[middle] < time) low = middle + 1; else high = middle;
    }
    for (let back = 0; low > row.from && (bars.end[low - 1] > time || back < 4); back++) low--;
    return low;
  }

  // ---- words ----

  const UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
  const unitFor = (ns) => UNITS.find(([, size]) => Math.abs(ns) >= size) || UNITS[3];

  function time(ns) {
    const [name, size] = unitFor(ns);
    const digits = name === "ns" ? 0 : Math.max(0, 3 - Math.floor(Math.log10(Math.max(Math.abs(ns / size), 1))));
    return `${(ns / size).toFixed(digits)} ${name}`;
  }

  // When something happens, to the microsecond as in the tables; to the nanosecond where the window is that short.
  const clock = (ns) => whole >= 1e6 ? `${(ns / 1e6).toFixed(3)} ms` : `${(ns / 1e3).toFixed(3)} µs`;

  // A place on the axis, with as many digits as tell it from its neighbours.
  function place(ns, apart) {
    const [name, size] = unitFor(Math.max(state.to, 1));
    const digits = Math.min(Math.max(0, Math.ceil(Math.log10(size / Math.max(apart, 1)))), 9);
    return `${(ns / size).toFixed(digits)} ${name}`;
  }

  const counted = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

  function told(i) {
    const { start, end, count, own, names, name, kind, launch, evidence, firstWork, nextWork } = bars;
    const took = end[i] - start[i], word = meta.looks[kind[i]].name, lane = meta.lanes[bars.rows[bars.row[i]].lane];
    const facts = [];
    if (count[i] > 1) {
      facts.push(["what", `${counted(count[i], "short span")} drawn as one; the longest has this name and is a ${word}`]);
      facts.push(["lane", lane.title]);
      facts.push(["begins at", clock(start[i])], ["from the first to the last", time(took)]);
      if (own[i]) facts.push(["of it covered", time(own[i] - 1)]);
    } else {
      facts.push(["kind", word], ["lane", lane.title], ["begins at", clock(start[i])]);
      if (own[i]) facts.push(["elapsed, with children", time(took)], ["self", time(took - own[i] + 1)]);
      else facts.push(["elapsed", time(took)]);
    }
    if (launch[i] >= 0) {
      const from = launch[i], by = meta.lanes[bars.rows[bars.row[from]].lane];
      facts.push(["launched at", `${clock(start[from])} by ${names[name[from]][0]}, ${by.title}`]);
      if (count[i] === 1 && count[from] === 1) facts.push(["from launch to begin", time(start[i] - start[from])]);
    } else if (lane.kind === "device" || lane.kind === "practice") {
      facts.push(["launch", "not in this picture"]);
    }
    let works = 0;
    for (let k = firstWork[i]; k >= 0; k = nextWork[k]) works++;
    if (works) {
      const work = firstWork[i];
      facts.push(["launched", `${names[name[work]][0]}, begins at ${clock(start[work])}, ${time(end[work] - start[work])}`]);
      if (works > 1) facts.push(["and", counted(works - 1, "more device event")]);
    }
    meta.findings.forEach((id, n) => { if (evidence[i] >> n & 1) facts.push(["evidence of", id]); });
    return { title: names[name[i]][0], facts };
  }

  // ---- state ----

  let bars;
  const state = {
    from: 0, to: Math.max(meta.duration, 1), hover: -1, chosen: -1, lane: -1, found: [], at: -1, matching: null,
  };
  const whole = Math.max(meta.duration, 1);
  const found = []; // for each finding: its number, and where its evidence lies
  const look = { tiles: new Map(), colours: {} };
  let lanes = [], size = { width: 0, gutter: 0, head: 0, body: 0 }, waiting = 0, moving = 0, saying = 0;

  const head = part("head"), body = part("body"), frame = part("frame"), tip = part("tip");
  const shape = () => size.width - size.gutter - EDGE;
  const xOf = (t) => size.gutter + (t - state.from) / (state.to - state.from) * shape();
  const timeAt = (x) => state.from + (x - size.gutter) / shape() * (state.to - state.from);

  function evidence() {
    meta.findings.forEach((id, number) => {
      const held = [];
      for (let i = 0; i < bars.n; i++) if (bars.evidence[i] >> number & 1) held.push(i);
      if (!held.length) return;
      held.sort((a, b) => bars.start[a] - bars.start[b]);
      found.push({ id, number, held });
    });
  }

  // ---- layout ----

  function layout() {
    size.width = frame.clientWidth;
    size.gutter = size.width < 640 ? EDGE : Math.min(230, Math.round(size.width * 0.2));
    const above = size.gutter === EDGE ? 18 : 0;
    size.head = OVERVIEW + AXIS + found.length * (FINDING + above) + (found.length ? 4 : 0);
    let top = 4;
    lanes = meta.lanes.map((lane, number) => {
      const height = Math.max(Math.max(lane.rows.length, 1) * ROW[lane.kind], lane.note && !above ? 32 : 0);
      const made = { ...lane, number, top: top + above, height, row: ROW[lane.kind] };
      top += above + height + GAP;
      return made;
    });
    size.body = top;
    const scale = Math.min(window.devicePixelRatio || 1, 3);
    for (const [canvas, height] of [[head, size.head], [body, size.body]]) {
      canvas.width = Math.round(size.width * scale);
      canvas.height = Math.round(height * scale);
      canvas.style.width = `${size.width}px`;
      canvas.style.height = `${height}px`;
      canvas.getContext("2d").setTransform(scale, 0, 0, scale, 0, 0);
    }
    placeButtons(above);
    draw();
  }

  function placeButtons(above) {
    const narrow = above > 0;
    found.forEach((finding, n) => {
      const top = OVERVIEW + AXIS + n * (FINDING + above);
      Object.assign(finding.button.style, { top: `${top}px`, height: `${narrow ? 18 : FINDING}px` });
      finding.top = top + above;
    });
    lanes.forEach((lane, n) => {
      const height = narrow ? 18 : Math.max(lane.height, 18);
      Object.assign(buttons[n].style, { top: `${size.head + lane.top - above}px`, height: `${height}px` });
    });
    box.style.setProperty("--tl-gutter", narrow ? "100%" : `${size.gutter}px`);
    box.classList.toggle("tl-narrow", narrow);
  }

  const buttons = [];

  function addButtons() {
    const holder = part("lanes");
    evidence();
    found.forEach((finding) => {
      finding.button = make("button", { type: "button", class: "tl-name tl-finding" });
      finding.button.append(make("span", { class: "tl-title" }, finding.id));
      finding.button.setAttribute("aria-label", `Finding ${finding.id}: go through its ${counted(finding.held.length, "bar")}`);
      finding.button.addEventListener("click", () => goThrough(finding.held, `evidence of ${finding.id}`));
      part("top").append(finding.button);
    });
    meta.lanes.forEach((lane, n) => {
      const button = make("button", { type: "button", class: "tl-name" });
      button.append(make("span", { class: "tl-title" }, lane.title));
      if (lane.note) button.append(make("span", { class: "tl-note" }, lane.note));
      button.title = lane.note ? `${lane.title}: ${lane.note}` : lane.title;
      let spans = 0;
      for (const row of bars.rows) if (row.lane === n) for (let i = row.from; i < row.to; i++) spans += bars.count[i];
      const note = lane.note ? `, ${lane.note}` : "";
      button.setAttribute("aria-label", `Lane ${lane.title}${note}, ${counted(spans, "span")}: go to its longest one in view`);
      button.addEventListener("click", () => {
        const longest = longestIn(n);
        body.focus({ preventScroll: true });
        choose(longest);
        if (longest < 0) say(`${lane.title}: no span is in view.`);
      });
      button.addEventListener("focus", () => { state.lane = n; draw(); });
      button.addEventListener("blur", () => { state.lane = -1; draw(); });
      buttons.push(button);
      holder.append(button);
    });
  }

  // ---- drawing ----

  function colours() {
    const style = getComputedStyle(box);
    for (const name of ["text", "soft", "line", "strong", "band", "mark", "ground"])
      look.colours[name] = style.getPropertyValue(`--tl-${name}`).trim();
    look.font = style.fontFamily;
    look.tiles.clear();
  }

  const INK = {
    rising: [[-1, 1, 1, -1], [0, 8, 8, 0], [7, 9, 9, 7]], falling: [[-1, 7, 1, 9], [0, 0, 8, 8], [7, -1, 9, 1]],
    level: [[0, 4, 8, 4]], upright: [[4, 0, 4, 8]], dots: [[2, 2, 3.6, 2], [6, 6, 7.6, 6]], plain: [],
  };

  function fill(context, one) {
    const key = `${one.fill}${one.pattern}`;
    if (!look.tiles.has(key)) {
      const tile = make("canvas", { width: 16, height: 16 }), ink = tile.getContext("2d");
      ink.scale(2, 2);
      ink.fillStyle = one.fill;
      ink.fillRect(0, 0, 8, 8);
      ink.strokeStyle = one.ink;
      ink.globalAlpha = 0.55;
      ink.lineWidth = 1.1;
      for (const [x1, y1, x2, y2] of INK[one.pattern] || []) {
        ink.beginPath(); ink.moveTo(x1, y1); ink.lineTo(x2, y2); ink.stroke();
      }
      const made = one.pattern === "plain" ? one.fill : context.createPattern(tile, "repeat");
      if (typeof made !== "string") made.setTransform(new DOMMatrix().scale(0.5));
      look.tiles.set(key, made);
    }
    return look.tiles.get(key);
  }

  function lookOf(i) {
    const label = bars.names[bars.name[i]][1], kind = meta.looks[bars.kind[i]];
    return label >= 0 && kind.name === "label" ? meta.labelLooks[label] : kind;
  }

  function draw() {
    if (!waiting) waiting = requestAnimationFrame(() => { waiting = 0; drawNow(); });
  }

  function drawNow() {
    if (!bars || !size.width) return;
    drawHead(head.getContext("2d"));
    drawBody(body.getContext("2d"));
    box.dataset.from = Math.round(state.from);
    box.dataset.to = Math.round(state.to);
    box.dataset.chosen = state.chosen;
    part("out").disabled = part("whole").disabled = state.from <= 0 && state.to >= whole;
    part("in").disabled = state.to - state.from <= SHORTEST;
    part("left").disabled = state.from <= 0;
    part("right").disabled = state.to >= whole;
  }

  function ticks() {
    const raw = (state.to - state.from) / Math.max(shape() / 100, 3);
    const power = 10 ** Math.floor(Math.log10(raw));
    const apart = Math.max([1, 2, 5, 10].find((factor) => factor * power >= 0.8 * raw) * power, 1);
    const found = [];
    for (let n = Math.ceil(state.from / apart); n * apart <= state.to; n++) found.push(n * apart);
    return { apart, found };
  }

  function vertical(context, x, top, bottom) {
    context.beginPath();
    context.moveTo(Math.round(x) + 0.5, top);
    context.lineTo(Math.round(x) + 0.5, bottom);
    context.stroke();
  }

  function grid(context, top, bottom) {
    context.strokeStyle = look.colours.line;
    context.lineWidth = 1;
    for (const t of ticks().found) vertical(context, xOf(t), top, bottom);
  }

  function edges(context, top, bottom) {
    const row = bars.rows.find((one) => meta.lanes[one.lane].kind === "steps");
    if (!row || row.to - row.from > 200) return;
    context.strokeStyle = look.colours.strong;
    context.setLineDash([3, 3]);
    for (let i = row.from; i < row.to; i++)
      for (const t of [bars.start[i], bars.end[i]]) if (t >= state.from && t <= state.to) vertical(context, xOf(t), top, bottom);
    context.setLineDash([]);
  }

  function drawHead(context) {
    const { text, soft, line, strong, band, mark, ground } = look.colours;
    context.fillStyle = ground;
    context.fillRect(0, 0, size.width, size.head);
    // The whole window, and the part of it that is in view.
    const wide = shape(), left = size.gutter, at = (t) => left + t / whole * wide;
    context.fillStyle = band;
    context.fillRect(left, 3, wide, OVERVIEW - 6);
    context.fillStyle = line;
    for (const row of bars.rows) if (meta.lanes[row.lane].kind === "steps")
      for (let i = row.from; i < row.to; i++) context.fillRect(at(bars.start[i]), 4, Math.max(at(bars.end[i]) - at(bars.start[i]) - 1, 1), OVERVIEW - 8);
    context.strokeStyle = strong;
    context.lineWidth = 2;
    context.strokeRect(at(state.from) + 1, 2, Math.max((state.to - state.from) / whole * wide - 2, 3), OVERVIEW - 4);
    const { apart, found: marks } = ticks(), base = OVERVIEW + AXIS - 4;
    grid(context, base, size.head);
    context.fillStyle = soft;
    context.font = `11px ${look.font}`;
    context.textAlign = "center";
    for (const t of marks) {
      const said = place(t, apart), half = context.measureText(said).width / 2;
      context.fillText(said, Math.min(Math.max(xOf(t), half + 2), size.width - half - 2), base - 6);
    }
    context.strokeStyle = strong;
    context.lineWidth = 1;
    context.beginPath(); context.moveTo(left, base + 0.5); context.lineTo(left + wide, base + 0.5); context.stroke();
    edges(context, base, size.head);
    context.textAlign = "left";
    context.fillStyle = mark;
    for (const finding of found) {
      let until = -1;
      for (const i of finding.held) {
        if (bars.end[i] < state.from || bars.start[i] > state.to) continue;
        const from = Math.max(xOf(bars.start[i]), left), to = Math.min(Math.max(xOf(bars.end[i]), from + 2), left + wide);
        if (to <= until) continue;
        context.fillRect(Math.max(from, until), finding.top + 3, to - Math.max(from, until), FINDING - 8);
        until = to;
      }
    }
    context.fillStyle = text;
  }

  function drawBody(context) {
    const { band, line } = look.colours;
    context.fillStyle = look.colours.ground;
    context.fillRect(0, 0, size.width, size.body);
    for (const lane of lanes) {
      context.fillStyle = lane.number === state.lane ? line : band;
      context.fillRect(size.gutter, lane.top, shape(), lane.height);
    }
    grid(context, 0, size.body);
    edges(context, 0, size.body);
    context.save();
    context.beginPath();
    context.rect(size.gutter, 0, shape(), size.body);
    context.clip();
    context.textAlign = "left";
    for (const row of bars.rows) drawRow(context, row);
    for (const i of new Set([state.hover, state.chosen])) if (i >= 0) drawLinks(context, i);
    if (state.hover >= 0) outline(context, state.hover, look.colours.strong, 1.5);
    if (state.chosen >= 0) outline(context, state.chosen, look.colours.text, 2.5);
    context.restore();
  }

  const topOf = (i) => { const row = bars.rows[bars.row[i]]; return lanes[row.lane].top + row.depth * lanes[row.lane].row; };

  function drawRow(context, row) {
    const lane = lanes[row.lane], y = lane.top + row.depth * lane.row, high = lane.row - 1.5;
    const scale = shape() / (state.to - state.from), left = size.gutter, right = size.width - EDGE;
    let from = 0, to = -1, most = -1, several = false, marked = 0, longest = -1;
    const flush = () => {
      if (to < 0) return;
      bar(context, most, from, Math.max(to - from, 1), y, high, several, marked);
      to = -1;
    };
    for (let i = firstAfter(bars, row, state.from); i < row.to; i++) {
      const x0 = left + (bars.start[i] - state.from) * scale, x1 = left + (bars.end[i] - state.from) * scale;
      if (x0 > right) break;
      if (x1 < left) continue;
      if (x1 - x0 >= 1) {
        flush();
        bar(context, i, Math.max(x0, left - 4), Math.min(x1, right + 4) - Math.max(x0, left - 4), y, high, bars.count[i] > 1, bars.evidence[i]);
      } else if (to >= 0 && x0 <= to + 0.5 && x1 - from < 24) {
        to = Math.max(to, x1);
        several = true;
        marked |= bars.evidence[i];
        if (x1 - x0 > longest && !dimmed(i) || dimmed(most) && !dimmed(i)) { most = i; longest = x1 - x0; }
      } else {
        flush();
        from = x0; to = x1; most = i; longest = x1 - x0; several = bars.count[i] > 1; marked = bars.evidence[i];
      }
    }
    flush();
  }

  const dimmed = (i) => state.matching !== null && !state.matching[i];

  function bar(context, i, x, width, y, high, several, marked) {
    context.globalAlpha = dimmed(i) ? 0.18 : several ? 0.75 : 1;
    context.fillStyle = fill(context, lookOf(i));
    if (several) context.fillRect(x, y, width, high); // no gap is drawn where none is known
    else if (width > 5) {
      context.beginPath();
      context.roundRect(x, y, width - 0.5, high, 2);
      context.fill();
    } else context.fillRect(x, y, width > 2 ? width - 0.5 : width, high);
    context.globalAlpha = dimmed(i) ? 0.4 : 1;
    if (marked && !several && width >= 5) {
      context.strokeStyle = look.colours.mark;
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, Math.max(width - 2.5, 0.5), high - 2);
    }
    if (!several && width > 30) {
      const shown = Math.max(x, size.gutter) + 4, room = Math.min(x + width, size.width - EDGE) - shown - 4;
      const fits = Math.floor(room / 5.7), name = bars.names[bars.name[i]][0];
      if (fits >= 3) {
        context.font = `${high > 13 ? 11 : 10}px ${look.font}`;
        const said = name.length <= fits ? name : `${name.slice(0, fits - 1)}…`;
        context.lineWidth = 2.5;
        context.strokeStyle = "rgba(255,255,255,.55)";
        context.strokeText(said, shown, y + high / 2 + 3.8, room);
        context.fillStyle = "#14202b";
        context.fillText(said, shown, y + high / 2 + 3.8, room);
      }
    }
    context.globalAlpha = 1;
  }

  function outline(context, i, colour, wide) {
    const x = Math.max(xOf(bars.start[i]), size.gutter - 6), lane = lanes[bars.rows[bars.row[i]].lane];
    const to = Math.min(xOf(bars.end[i]), size.width + 6);
    context.strokeStyle = colour;
    context.lineWidth = wide;
    context.strokeRect(x - 1, topOf(i) - 1, Math.max(to - x, 2) + 2, lane.row + 0.5);
  }

  // From a launch to its work; drawn for what is pointed at or chosen, so that it can be told apart.
  function drawLinks(context, i) {
    const links = [];
    if (bars.launch[i] >= 0) links.push([bars.launch[i], i]);
    for (let k = bars.firstWork[i]; k >= 0 && links.length < 200; k = bars.nextWork[k]) links.push([i, k]);
    context.strokeStyle = context.fillStyle = look.colours.text;
    context.lineWidth = 1.2;
    for (const [from, to] of links) {
      const x1 = xOf(bars.start[from]), x2 = xOf(bars.start[to]), down = topOf(to) > topOf(from);
      const rowOf = (n) => lanes[bars.rows[bars.row[n]].lane].row;
      const y1 = topOf(from) + (down ? rowOf(from) : 0), y2 = topOf(to) + (down ? 0 : rowOf(to)), bend = (y2 - y1) / 2;
      context.beginPath();
      context.moveTo(x1, y1);
      context.bezierCurveTo(x1, y1 + bend, x2, y2 - bend, x2, y2);
      context.stroke();
      context.beginPath();
      context.moveTo(x2, y2); context.lineTo(x2 - 3, y2 - (down ? 5 : -5)); context.lineTo(x2 + 3, y2 - (down ? 5 : -5));
      context.fill();
      outline(context, from, look.colours.strong, 1.5);
      outline(context, to, look.colours.strong, 1.5);
    }
  }

  // ---- moving ----

  function show(from, to) {
    const wide = Math.min(Math.max(to - from, SHORTEST), whole);
    const middle = (from + to) / 2;
    state.from = Math.min(Math.max(middle - wide / 2, 0), whole - wide);
    state.to = state.from + wide;
    draw();
  }

  function go(from, to, said = true) {
    cancelAnimationFrame(moving);
    const was = [state.from, state.to], began = performance.now();
    const turn = (now) => {
      const done = Math.min((now - began) / 160, 1), eased = done * (2 - done);
      show(was[0] + (from - was[0]) * eased, was[1] + (to - was[1]) * eased);
      if (done < 1) moving = requestAnimationFrame(turn);
    };
    if (calm.matches) show(from, to); else moving = requestAnimationFrame(turn);
    if (said) sayView(from, to);
  }

  function sayView(from, to) {
    clearTimeout(saying);
    saying = setTimeout(() => say(`In view: ${clock(Math.max(from, 0))} to ${clock(Math.min(to, whole))} of ${clock(whole)}.`), 350);
  }

  const say = (text) => { part("said").textContent = text; };

  function zoom(factor, around = (state.from + state.to) / 2, smooth = true) {
    const share = (around - state.from) / (state.to - state.from);
    const wide = Math.min(Math.max((state.to - state.from) / factor, SHORTEST), whole);
    const from = Math.min(Math.max(around - share * wide, 0), whole - wide);
    if (smooth) go(from, from + wide); else { show(from, from + wide); sayView(from, from + wide); }
  }

  function pan(share, smooth = true) {
    const wide = state.to - state.from, from = Math.min(Math.max(state.from + share * wide, 0), whole - wide);
    if (smooth) go(from, from + wide); else { show(from, from + wide); sayView(from, from + wide); }
  }

  function zoomTo(i, margin = 0.15) {
    const wide = Math.max(bars.end[i] - bars.start[i], SHORTEST);
    go(bars.start[i] - margin * wide, bars.end[i] + margin * wide);
  }

  // ---- choosing ----

  function choose(i, bring = true) {
    state.chosen = i;
    const facts = part("facts");
    facts.replaceChildren();
    if (i >= 0) {
      const { title, facts: known } = told(i);
      facts.append(make("p", { class: "tl-chosen" }, title), list(known));
      clearTimeout(saying);
      say(`${title}: ${known.map((pair) => pair.join(" ")).join(", ")}.`);
      if (bring && (bars.end[i] < state.from || bars.start[i] > state.to)) {
        const wide = state.to - state.from, middle = (bars.start[i] + bars.end[i]) / 2;
        const from = Math.min(Math.max(middle - wide / 2, 0), whole - wide);
        go(from, from + wide, false);
      }
      if (bring) bringRow(i);
    }
    facts.hidden = i < 0;
    draw();
  }

  // Scroll so that the row of a bar is on the screen.
  function bringRow(i) {
    const y = body.getBoundingClientRect().top + topOf(i);
    if (y < size.head + 20 || y > innerHeight - 60) scrollBy({ top: y - innerHeight / 2, behavior: calm.matches ? "auto" : "smooth" });
  }

  function list(facts) {
    const made = make("dl");
    for (const [name, value] of facts) {
      const pair = make("div");
      pair.append(make("dt", {}, name), make("dd", {}, value));
      made.append(pair);
    }
    return made;
  }

  function longestIn(lane) {
    let best = -1, length = -1;
    for (const row of bars.rows) {
      if (row.lane !== lane) continue;
      for (let i = firstAfter(bars, row, state.from); i < row.to && bars.start[i] <= state.to; i++) {
        const inView = Math.min(bars.end[i], state.to) - Math.max(bars.start[i], state.from);
        if (inView > length && inView >= 0) { length = inView; best = i; }
      }
    }
    return best;
  }

  function nearest(row, at, most = Infinity) {
    let best = -1, away = most;
    for (let i = firstAfter(bars, row, at - (isFinite(most) ? most : 0)); i < row.to; i++) {
      const off = Math.max(bars.start[i] - at, at - bars.end[i], 0);
      if (off < away || off === away && best >= 0 && bars.end[i] - bars.start[i] > bars.end[best] - bars.start[best]) { away = off; best = i; }
      if (bars.start[i] - at > away) break;
    }
    return best;
  }

  // The neighbour of the chosen bar in its row, or the bar in the next row that is nearest in time.
  function step(along, across) {
    if (state.chosen < 0) { choose(longestIn(Math.max(state.lane, 0))); return; }
    const here = bars.row[state.chosen];
    if (along) {
      const next = state.chosen + along;
      if (next >= bars.rows[here].from && next < bars.rows[here].to) choose(next);
      return;
    }
    const middle = Math.min(Math.max((bars.start[state.chosen] + bars.end[state.chosen]) / 2, state.from), state.to);
    for (let row = here + across; row >= 0 && row < bars.rows.length; row += across) {
      const next = nearest(bars.rows[row], middle);
      if (next >= 0) { choose(next); return; }
    }
  }

  function hit(event) {
    const area = body.getBoundingClientRect(), x = event.clientX - area.left, y = event.clientY - area.top;
    if (x < size.gutter || y < 0) return -1;
    const lane = lanes.find((one) => y >= one.top && y < one.top + Math.max(one.rows.length, 1) * one.row);
    if (!lane) return -1;
    const depth = Math.floor((y - lane.top) / lane.row);
    const row = bars.rows.find((one) => one.lane === lane.number && one.depth === depth);
    return row ? nearest(row, timeAt(x), 3 * (state.to - state.from) / shape()) : -1;
  }

  // ---- finding names ----

  function goThrough(held, what) {
    state.found = held;
    state.matching = new Uint8Array(bars.n);
    for (const i of held) state.matching[i] = 1;
    state.what = what;
    state.at = -1;
    part("clear").hidden = false;
    turn(1);
  }

  function turn(by) {
    const count = state.found.length;
    part("prev").disabled = part("next").disabled = !count;
    if (!count) { part("found").textContent = state.what ? `nothing: ${state.what}` : ""; draw(); return; }
    state.at = state.at < 0 ? 0 : (state.at + by + count) % count;
    part("found").textContent = `${state.at + 1} of ${count}: ${state.what}`;
    choose(state.found[state.at]);
  }

  function search(text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) { clear(); return; }
    const named = bars.names.map(([name]) => name.toLowerCase().includes(wanted));
    const held = [];
    for (let i = 0; i < bars.n; i++) if (named[bars.name[i]]) held.push(i);
    held.sort((a, b) => bars.start[a] - bars.start[b]);
    goThrough(held, `“${text.trim()}”`);
  }

  function clear() {
    Object.assign(state, { found: [], matching: null, what: "", at: -1 });
    part("find").value = "";
    part("clear").hidden = true;
    turn(0);
  }

  // ---- hands ----

  function tipAt(event, i) {
    tip.hidden = i < 0;
    if (i < 0) return;
    if (tip.dataset.of !== String(i)) {
      const { title, facts } = told(i);
      tip.dataset.of = i;
      tip.replaceChildren(make("p", { class: "tl-chosen" }, title), list(facts));
    }
    const area = frame.getBoundingClientRect(), x = event.clientX - area.left, y = event.clientY - area.top;
    const left = x + 16 + tip.offsetWidth > area.width ? Math.max(x - tip.offsetWidth - 12, 0) : x + 16;
    const above = event.clientY + tip.offsetHeight + 28 > innerHeight;
    Object.assign(tip.style, { left: `${left}px`, top: `${above ? y - tip.offsetHeight - 12 : y + 18}px` });
  }

  function pointers() {
    const down = new Map();
    let moved = 0, pinch = 0, overview = false;
    const inOverview = (event) => event.target === head && event.clientY - head.getBoundingClientRect().top < OVERVIEW;
    const centre = (event) => {
      const t = (event.clientX - head.getBoundingClientRect().left - size.gutter) / shape() * whole, wide = state.to - state.from;
      show(t - wide / 2, t + wide / 2);
    };
    const begin = (event) => {
      if (event.button) return;
      event.target.setPointerCapture(event.pointerId);
      down.set(event.pointerId, event);
      moved = 0;
      overview = inOverview(event);
      if (overview) centre(event);
      if (event.pointerType !== "touch") body.focus({ preventScroll: true });
    };
    const move = (event) => {
      const was = down.get(event.pointerId);
      if (!was) {
        const i = event.target === body ? hit(event) : -1;
        if (i !== state.hover) { state.hover = i; draw(); }
        tipAt(event, i);
        body.style.cursor = i >= 0 ? "pointer" : "grab";
        return;
      }
      tipAt(event, -1);
      if (down.size === 2) {
        const [one, other] = [...down.values()], apart = Math.abs(one.clientX - other.clientX);
        down.set(event.pointerId, event);
        const [a, b] = [...down.values()], now = Math.max(Math.abs(a.clientX - b.clientX), 8);
        const around = timeAt((a.clientX + b.clientX) / 2 - body.getBoundingClientRect().left);
        if (apart > 8) zoom(now / apart, around, false);
        moved = 99;
        return;
      }
      if (overview) { centre(event); moved = 99; return; }
      const by = event.clientX - was.clientX;
      moved += Math.abs(by) + Math.abs(event.clientY - was.clientY);
      down.set(event.pointerId, event);
      if (moved > 3) { body.style.cursor = "grabbing"; pan(-by / shape(), false); }
    };
    const end = (event) => {
      if (down.delete(event.pointerId) && moved <= 3 && event.type === "pointerup" && event.target === body) choose(hit(event), false);
      body.style.cursor = "grab";
    };
    for (const canvas of [head, body]) {
      canvas.addEventListener("pointerdown", begin);
      canvas.addEventListener("pointermove", move);
      canvas.addEventListener("pointerup", end);
      canvas.addEventListener("pointercancel", end);
      canvas.addEventListener("pointerleave", (event) => { state.hover = -1; tipAt(event, -1); draw(); });
      canvas.addEventListener("dblclick", (event) => { const i = event.target === body ? hit(event) : -1; if (i >= 0) zoomTo(i); });
      canvas.addEventListener("wheel", wheel, { passive: false });
    }
  }

  // The page keeps its wheel until the picture has the focus or a modifier is held.
  function wheel(event) {
    const mine = event.ctrlKey || event.metaKey || document.activeElement === body;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      event.preventDefault();
      pan((event.deltaX || event.deltaY) / shape(), false);
    } else if (mine) {
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 20 : 1;
      zoom(Math.exp(-Math.min(Math.max(event.deltaY * lines, -200), 200) * 0.003), timeAt(event.clientX - body.getBoundingClientRect().left), false);
    }
  }

  const KEYS = {
    "+": () => zoom(ZOOM), "=": () => zoom(ZOOM), "-": () => zoom(1 / ZOOM), "_": () => zoom(1 / ZOOM),
    0: () => go(0, whole), Home: () => go(0, whole),
    ArrowLeft: (event) => event.shiftKey ? step(-1, 0) : pan(-0.2),
    ArrowRight: (event) => event.shiftKey ? step(1, 0) : pan(0.2),
    ArrowUp: () => step(0, -1), ArrowDown: () => step(0, 1),
    Enter: () => state.chosen >= 0 ? zoomTo(state.chosen) : step(0, 1),
    Escape: () => { choose(-1); clear(); say("Nothing is chosen."); },
    n: () => turn(1), p: () => turn(-1),
  };

  function keyboard() {
    body.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
      event.preventDefault();
      KEYS[event.key](event);
    });
    const click = (name, action) => part(name).addEventListener("click", action);
    click("in", () => zoom(ZOOM));
    click("out", () => zoom(1 / ZOOM));
    click("left", () => pan(-0.4));
    click("right", () => pan(0.4));
    click("whole", () => { part("step").value = ""; go(0, whole); });
    click("next", () => turn(1));
    click("prev", () => turn(-1));
    click("clear", () => { clear(); part("find").focus(); });
    let later = 0;
    part("find").addEventListener("input", (event) => {
      clearTimeout(later);
      later = setTimeout(() => search(event.target.value), 150);
    });
    part("find").addEventListener("keydown", (event) => {
      if (event.key === "Enter") { event.preventDefault(); turn(event.shiftKey ? -1 : 1); }
      if (event.key === "Escape") clear();
    });
    part("step").addEventListener("change", (event) => {
      if (event.target.value === "") go(0, whole); else zoomTo(Number(event.target.value), 0.02);
    });
  }

  // ---- around it ----

  function fillSteps() {
    const select = part("step");
    for (const row of bars.rows) {
      if (meta.lanes[row.lane].kind !== "steps") continue;
      for (let i = row.from; i < Math.min(row.to, row.from + 500); i++)
        select.append(make("option", { value: i }, bars.names[bars.name[i]][0]));
    }
    select.closest("label").hidden = select.options.length < 2;
  }

  function legend() {
    const holder = part("legend"), seen = new Map();
    for (let i = 0; i < bars.n; i++) {
      const kind = meta.looks[bars.kind[i]].name, label = kind === "label";
      const key = label ? `label ${bars.names[bars.name[i]][0]}` : kind;
      if (!seen.has(key) && (!label || [...seen.keys()].filter((name) => name.startsWith("label ")).length < 12)) seen.set(key, lookOf(i));
    }
    holder.replaceChildren();
    for (const [name, one] of seen) {
      const item = make("li"), tile = make("canvas", { width: 28, height: 24, "aria-hidden": "true" });
      const context = tile.getContext("2d");
      context.scale(2, 2);
      context.fillStyle = fill(context, one);
      context.roundRect(0, 0, 14, 12, 2);
      context.fill();
      item.append(tile, make("span", {}, name));
      holder.append(item);
    }
    part("bundles").hidden = !bars.count.some((count) => count > 1);
    part("red").hidden = !found.length;
  }

  function start(columns) {
    bars = barsOf(columns);
    addButtons();
    box.hidden = false;
    document.documentElement.classList.add("tl-on");
    colours();
    fillSteps();
    legend();
    pointers();
    keyboard();
    new ResizeObserver(() => { if (frame.clientWidth && frame.clientWidth !== size.width) layout(); }).observe(frame);
    dark.addEventListener("change", () => { colours(); draw(); });
    layout();
    turn(0);
    drawNow();
    box.dataset.ready = "yes";
  }

  unpacked().then(columnsOf).then(start).catch((error) => {
    box.hidden = true;
    document.documentElement.classList.remove("tl-on");
    console.error(`the timeline stays still: ${error.message}`);
  });
})();
