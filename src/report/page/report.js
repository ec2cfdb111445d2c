"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const heads = data.examination.heads;
const byName = new Map(heads.map((h, i) => [h.head, i]));
const patternNames = heads[0].patterns.map(p => p.pattern);
const $ = id => document.getElementById(id);
const make = (tag, text, className) => {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
};
// Loops: lists here may be longer than a function may have arguments.
const largest = (list, start = -Infinity) => list.reduce((a, b) => b > a ? b : a, start);
const smallest = (list, start = Infinity) => list.reduce((a, b) => b < a ? b : a, start);
const fixed = (x, digits = 3) => x === null || x === undefined || Number.isNaN(x) ? "–" : x.toFixed(digits);
const isDark = () => document.documentElement.dataset.theme === "dark";
const ink = () => getComputedStyle(document.documentElement).getPropertyValue("--ink");
const soft = () => getComputedStyle(document.documentElement).getPropertyValue("--soft");

// Sequential: one hue from the ground to deep blue. Diverging: orange, ground, blue; the middle is 0.
const mix = (a, b, t) => a.map((x, i) => Math.round(x + (b[i] - x) * t));
function sequential(t) {
  const x = Math.min(1, Math.max(0, t));
  const ends = isDark() ? [[28, 33, 39], [0, 114, 178], [190, 228, 255]] : [[255, 255, 255], [86, 164, 220], [3, 37, 76]];
  return x < .5 ? mix(ends[0], ends[1], 2 * x) : mix(ends[1], ends[2], 2 * x - 1);
}
function diverging(t) {
  const ground = isDark() ? [28, 33, 39] : [255, 255, 255];
  return t < 0 ? mix(ground, [213, 94, 0], Math.min(1, -t)) : mix(ground, [0, 90, 150], Math.min(1, t));
}
const css = c => `rgb(${c[0]},${c[1]},${c[2]})`;
const inkOn = c => .299 * c[0] + .587 * c[1] + .114 * c[2] > 140 ? "#000" : "#fff";
function drawBar(holder, color, low, high) {
  holder.replaceChildren();
  const canvas = make("canvas");
  canvas.width = 120; canvas.height = 12;
  const g = canvas.getContext("2d");
  for (let x = 0; x < 120; ++x) { g.fillStyle = css(color(low < 0 ? 2 * x / 119 - 1 : x / 119)); g.fillRect(x, 0, 1, 12); }
  holder.append(fixed(low, 2), canvas, fixed(high, 2));
}

// Whitespace and control characters made visible.
const visible = text => text.replace(/[\u0000-\u0020\u007f-\u00a0\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, c =>
  c === " " ? "·" : c === "\n" ? "⏎" : c === "\t" ? "→" : c === "\u007f" ? "␡" : c === "\u00a0" ? "⍽" :
  c < " " ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : `⟨${c.charCodeAt(0).toString(16)}⟩`);
const tokenText = token => typeof token === "string" ? visible(token) : visible(token[0]);
const tokenTitle = token => typeof token === "string" ? "" : `part of ${token[1]}`;

const state = { head: heads[0].head, shown: 0, query: -1, locked: false };

// 1. Findings ------------------------------------------------------------------------------------
$("run-name").textContent = data.run;
const context = data.examination.context;
$("summary").textContent = `${heads.length} heads in ${data.layers} layers, looked at on ${data.examination.sequences} sequences of ` +
  `${context} tokens (${data.text.name}); loss ${fixed(data.examination.loss)} nats a token`;
data.findings.forEach((text, i) => {
  const item = make("li");
  const name = text.split(" ")[0];
  if (byName.has(name)) {
    const link = make("a", name);
    link.href = "#" + name;
    item.append(link, text.slice(name.length));
    const pattern = text.slice(name.length).match(/^ \(([^)]*)\)/);
    const best = pattern && examplesOf(name, pattern[1]).best[0];
    if (best) item.append(exampleLine(best));
  } else item.textContent = text;
  $("finding-list").append(item);
});

// Examples: rows of the shown texts on which a head does best and worst by one pattern.
function cells(shown, head) {
  const s = data.shown[shown];
  s.decoded ??= {};
  if (!s.decoded[head]) {
    const raw = atob(s.patterns[head]);
    const bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; ++i) bytes[i] = raw.charCodeAt(i);
    s.decoded[head] = bytes;
  }
  return s.decoded[head];
}
function weight(bytes, i, j) { return bytes[i * (i + 1) / 2 + j] / 255; }
function examplesOf(head, pattern) {
  const rows = [];
  data.shown.forEach((s, shown) => {
    const bytes = cells(shown, head);
    for (const [row, keys] of Object.entries(s.targets[pattern] ?? {})) {
      const i = +row;
      rows.push({ shown, i, keys, mass: keys.reduce((sum, j) => sum + weight(bytes, i, j), 0), head });
    }
  });
  rows.sort((a, b) => b.mass - a.mass);
  return { best: rows.slice(0, 3), worst: rows.slice(-3).reverse() };
}
function exampleLine(e) {
  const line = make("button", undefined, "example");
  line.type = "button";
  const tokens = data.shown[e.shown].tokens, first = Math.max(0, Math.min(...e.keys) - 3);
  line.append(`${fixed(e.mass, 2)}  `);
  if (first > 0) line.append("… ");
  for (let t = first; t <= Math.min(tokens.length - 1, e.i + 1); ++t) {
    if (t - first > 60) { if (t !== e.i && t !== e.i + 1) continue; line.append(" … "); }
    line.append(make(t === e.i ? "b" : e.keys.includes(t) ? "mark" : "span", tokenText(tokens[t])));
  }
  line.addEventListener("click", () => { select(e.head); state.shown = e.shown; state.query = e.i; state.locked = true; drawHead(); $("head").scrollIntoView(); });
  return line;
}

// 2. Grid ----------------------------------------------------------------------------------------
const shapes = ["entropy", "distance", "confidence"];
const plain = { role: "role", cost: "ablation cost (mean), nats", importance: "importance", gradient_share: "gradient share", copying: "copying score (from the weights)", sink: "attention on the first token" };
function option(select, value, text) { const o = make("option", text); o.value = value; select.append(o); }
option($("grid-metric"), "role", "role");
patternNames.forEach(p => option($("grid-metric"), "pattern:" + p, p));
shapes.forEach(s => option($("grid-metric"), "shape:" + s, s));
for (const [key, text] of Object.entries(plain)) if (key !== "role") option($("grid-metric"), key, text);
function metricOf(head) {
  const which = $("grid-metric").value, index = byName.get(head.head);
  if (which === "role") return head.patterns.find(p => p.pattern === head.role)?.lift ?? 0;
  if (which.startsWith("pattern:")) {
    const p = head.patterns.find(q => q.pattern === which.slice(8));
    return $("grid-raw").checked ? p.score : p.lift;
  }
  if (which.startsWith("shape:")) return head[which.slice(6) + ($("grid-sink").checked ? "_beyond_sink" : "")];
  if (which === "cost") return head.cost.mean;
  if (which === "copying") return data.circuits.copying[index];
  return head[which];
}
function range(values) {
  const low = smallest(values), high = largest(values);
  if (low < 0 && $("grid-metric").value === "copying") { const most = Math.max(-low, high); return [-most, most]; }
  return [0, Math.max(high, 1e-9)];
}
function headButton(head, value, low, high) {
  const cell = make("td", undefined, "cell"), button = make("button");
  const color = low < 0 ? diverging(value / high) : sequential(value / high);
  button.type = "button";
  button.dataset.head = head.head;
  button.style.background = css(color);
  button.style.color = inkOn(color);
  button.setAttribute("aria-pressed", head.head === state.head);
  button.append(`${head.head}  ${fixed(value)}`, make("small", head.role));
  button.addEventListener("click", () => { select(head.head); });
  cell.append(button);
  return cell;
}
function drawGrid() {
  const values = heads.map(metricOf), [low, high] = range(values);
  const table = make("table");
  if ($("grid-sort").checked) {
    heads.map((h, i) => [h, values[i]]).sort((a, b) => b[1] - a[1]).forEach(([h, v]) => {
      const row = make("tr");
      row.append(headButton(h, v, low, high), make("td", h.role, "word"));
      table.append(row);
    });
  } else {
    for (let l = 0; l < data.layers; ++l) {
      const row = make("tr");
      row.append(make("th", `layer ${l}`));
      heads.forEach((h, i) => { if (h.layer === l) row.append(headButton(h, values[i], low, high)); });
      table.append(row);
    }
  }
  $("grid-table").replaceChildren(table);
  drawBar($("grid-bar"), low < 0 ? diverging : sequential, low, high);
}
["grid-metric", "grid-raw", "grid-sink", "grid-sort"].forEach(id => $(id).addEventListener("change", drawGrid));

// 3. Timeline ------------------------------------------------------------------------------------
const looks = data.timeline.heads;
const liveMetrics = looks.length ? [...Object.keys(looks[0].heads[0].lift).map(p => "lift:" + p), "gradient_share", "update_share", "importance", "redundancy", "output_gradient_norm", "entropy", "distance", "confidence", "sink"] : [];
liveMetrics.forEach(m => option($("time-metric"), m, m.replace("lift:", "lift of ")));
$("time-step").max = Math.max(0, looks.length - 1);
$("time-step").value = looks.length - 1;
const live = (head, metric) => metric.startsWith("lift:") ? head.lift[metric.slice(5)] : head[metric];
function plot(canvas, series, options = {}) {
  const g = canvas.getContext("2d"), w = canvas.width, h = canvas.height, pad = 44;
  g.clearRect(0, 0, w, h);
  const points = series.flatMap(s => s.points).filter(p => p[1] !== null);
  if (!points.length) { g.fillStyle = soft(); g.fillText("nothing recorded", pad, h / 2); return null; }
  const xs = points.map(p => p[0]);
  const x0 = smallest(xs), x1 = largest(xs, x0 + 1e-9);
  const yRange = axis => {
    const ys = series.filter(s => (s.axis ?? 0) === axis).flatMap(s => s.points).map(p => p[1]).filter(y => y !== null);
    const low = smallest(ys, options.zero && axis === 0 ? 0 : Infinity), high = largest(ys);
    return [low, high > low ? high : low + 1];
  };
  const ranges = [yRange(0), series.some(s => s.axis === 1) ? yRange(1) : null];
  const X = x => pad + (x - x0) / (x1 - x0) * (w - 2 * pad), Y = (y, axis) => h - 26 - (y - ranges[axis][0]) / (ranges[axis][1] - ranges[axis][0]) * (h - 46);
  g.font = "11px system-ui, sans-serif"; g.fillStyle = soft(); g.strokeStyle = soft(); g.lineWidth = 1;
  for (let k = 0; k <= 4; ++k) {
    const x = x0 + (x1 - x0) * k / 4;
    g.fillText(Number.isInteger(x0) ? Math.round(x) : x.toFixed(1), X(x) - 10, h - 8);
    [0, 1].forEach(a => { if (ranges[a]) g.fillText((ranges[a][0] + (ranges[a][1] - ranges[a][0]) * k / 4).toFixed(2), a ? w - pad + 6 : 4, h - 22 - (h - 46) * k / 4); });
  }
  if (options.zero && ranges[0][0] < 0) { g.beginPath(); g.moveTo(pad, Y(0, 0)); g.lineTo(w - pad, Y(0, 0)); g.stroke(); }
  for (const s of series) {
    g.strokeStyle = g.fillStyle = s.color; g.lineWidth = s.width ?? 1.2; g.setLineDash(s.dash ?? []);
    g.beginPath();
    s.points.forEach(([x, y], i) => { if (y !== null) i ? g.lineTo(X(x), Y(y, s.axis ?? 0)) : g.moveTo(X(x), Y(y, s.axis ?? 0)); });
    g.stroke();
    if (s.dots) s.points.forEach(([x, y]) => { g.beginPath(); g.arc(X(x), Y(y, s.axis ?? 0), 3, 0, 7); g.fill(); });
  }
  g.setLineDash([]);
  (options.labels ?? []).forEach(([text, color], i) => { g.fillStyle = color; g.fillText(text, pad + 6 + 128 * (i % 4), 14 + 13 * Math.floor(i / 4)); });
  return X;
}
const hues = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
function drawTimeline() {
  const metric = $("time-metric").value, at = +$("time-step").value;
  const series = [{ points: data.timeline.loss, color: soft(), axis: 1, dash: [3, 3] }];
  if (looks.length) heads.forEach(h => {
    const points = looks.map(l => [l.step, live(l.heads[byName.get(h.head)], metric) ?? null]);
    series.push({ points, color: hues[h.layer % hues.length], width: h.head === state.head ? 3 : 1 });
  });
  const layers = [...Array(data.layers).keys()].map(l => ["layer " + l, hues[l % hues.length]]);
  const X = plot($("time-canvas"), series, { labels: [["loss, right axis", soft()], [state.head + " is thick", ink()], ...layers] });
  $("time-grid").replaceChildren();
  if (!looks.length) { $("time-label").textContent = "no heads.jsonl: train with --probe-every"; return; }
  const look = looks[at];
  if (X) { const g = $("time-canvas").getContext("2d"); g.strokeStyle = ink(); g.lineWidth = 1; g.beginPath(); g.moveTo(X(look.step), 18); g.lineTo(X(look.step), 314); g.stroke(); }
  $("time-label").textContent = `${look.step}`;
  const values = look.heads.map(h => live(h, metric)), high = largest(looks.flatMap(l => l.heads.map(h => live(h, metric))), 1e-9);
  const table = make("table", undefined, "mini");
  for (let l = 0; l < data.layers; ++l) {
    const row = make("tr");
    heads.forEach((h, i) => {
      if (h.layer !== l) return;
      const cell = make("td");
      cell.style.background = css(sequential(values[i] / high));
      cell.title = `${h.head}: ${fixed(values[i])}`;
      cell.addEventListener("click", () => select(h.head));
      row.append(cell);
    });
    table.append(row);
  }
  $("time-grid").append(make("div", `step ${look.step}`), table);
}
["time-metric", "time-step"].forEach(id => $(id).addEventListener("input", drawTimeline));

// 4. Head card -----------------------------------------------------------------------------------
data.shown.forEach((s, i) => option($("shown"), i, `sequence ${s.number}`));
$("shown").addEventListener("change", () => { state.shown = +$("shown").value; state.query = -1; state.locked = false; drawHead(); });
let spans = [], scale = 1;
function drawPattern() {
  const T = data.shown[state.shown].tokens.length, bytes = cells(state.shown, state.head);
  scale = Math.max(1, Math.floor(Math.min(560, 560) / T)) || 1;
  const size = T * scale;
  for (const id of ["pattern", "overlay"]) {
    const canvas = $(id);
    canvas.width = canvas.height = size;
    canvas.style.width = canvas.style.height = size + "px";
  }
  const small = make("canvas");
  small.width = small.height = T;
  const image = small.getContext("2d").createImageData(T, T), colors = [...Array(256).keys()].map(v => sequential(v / 255));
  for (let i = 0, at = 0; i < T; ++i) {
    for (let j = 0; j <= i; ++j, ++at) {  // keys behind the query are not there: transparent
      const c = colors[bytes[at]], p = 4 * (i * T + j);
      image.data[p] = c[0]; image.data[p + 1] = c[1]; image.data[p + 2] = c[2]; image.data[p + 3] = 255;
    }
  }
  small.getContext("2d").putImageData(image, 0, 0);
  const g = $("pattern").getContext("2d");
  g.imageSmoothingEnabled = false;
  g.clearRect(0, 0, size, size);
  g.drawImage(small, 0, 0, size, size);
  drawBar($("pattern-bar"), sequential, 0, 1);
}
function drawTokens() {
  const tokens = data.shown[state.shown].tokens;
  spans = tokens.map((token, i) => {
    const span = make("span", tokenText(token));
    if (tokenTitle(token)) { span.append(make("i", `(${visible(token[1])})`)); span.title = tokenTitle(token); }
    span.addEventListener("mouseenter", () => hover(i));
    span.addEventListener("click", () => lock(i));
    return span;
  });
  $("tokens").replaceChildren(...spans);
}
function drawQuery(key = -1) {
  const i = state.query, bytes = cells(state.shown, state.head), g = $("overlay").getContext("2d"), T = spans.length;
  g.clearRect(0, 0, T * scale, T * scale);
  const tokens = data.shown[state.shown].tokens;
  spans.forEach((span, j) => {
    const there = i >= 0 && j <= i, c = there ? sequential(weight(bytes, i, j)) : null;
    span.style.background = there ? css(c) : "";
    span.style.color = there ? inkOn(c) : i >= 0 ? soft() : "";
    span.classList.toggle("query", j === i);
  });
  if (i < 0) { $("hover").textContent = ""; return; }
  g.strokeStyle = "#d55e00"; g.lineWidth = 1;
  g.strokeRect(.5, i * scale + .5, (i + 1) * scale - 1, Math.max(1, scale - 1));
  const order = [...Array(i + 1).keys()].sort((a, b) => weight(bytes, i, b) - weight(bytes, i, a)).slice(0, 3);
  const under = key >= 0 && key <= i && !order.includes(key) ? [key] : [];
  const list = [...under, ...order].map(j => `“${tokenText(tokens[j])}” ${fixed(weight(bytes, i, j), 2)}`).join(", ");
  $("hover").textContent = `${state.locked ? "held: " : ""}query ${i} “${tokenText(tokens[i])}” looks at ${list}`;
}
function hover(i, key) { if (state.locked) return; state.query = i; drawQuery(key); }
function lock(i) { state.locked = !(state.locked && state.query === i); state.query = i; drawQuery(); }
const rowAt = event => {
  const box = $("overlay").getBoundingClientRect(), T = spans.length;
  const at = x => Math.min(T - 1, Math.max(0, Math.floor(x / box.width * T)));
  return [at(event.clientY - box.top), at(event.clientX - box.left)];
};
$("overlay").addEventListener("mousemove", event => hover(...rowAt(event)));
$("overlay").addEventListener("mouseleave", () => { if (!state.locked) { state.query = -1; drawQuery(); } });
$("overlay").addEventListener("click", event => lock(rowAt(event)[0]));
function scoreBar(p) {
  const bar = make("span", undefined, "lift"), at = x => `${Math.min(100, Math.max(0, 100 * x))}%`;
  const lift = make("i"), interval = make("u"), null_ = make("s");
  lift.style.width = at(p.lift);
  interval.style.left = at(p.low);
  interval.style.width = `${Math.max(.5, 100 * (Math.min(1, p.high) - Math.max(0, p.low)))}%`;
  null_.style.left = at(Math.max(p.null, p.shuffled));
  bar.append(lift, interval, null_);
  bar.title = "blue: lift; orange: its 95% interval; grey line: the larger null";
  return bar;
}
function drawScores(head) {
  const table = make("table"), top = make("tr");
  ["pattern", "lift", "", "interval", "untrained", "shuffled", "hits", "rows", "cost there", "elsewhere", "logit", "p"].forEach((t, i) => top.append(make("th", t, i ? "" : "word")));
  table.append(top);
  for (const p of head.patterns) {
    const row = make("tr", undefined, p.holds ? "holds" : "");
    const bar = make("td");
    bar.append(scoreBar(p));
    row.append(make("td", p.pattern, "word"), make("td", fixed(p.lift)), bar, make("td", `${fixed(p.low)} to ${fixed(p.high)}`),
      make("td", fixed(p.null)), make("td", fixed(p.shuffled)), make("td", fixed(p.hit_rate, 2)), make("td", p.rows),
      make("td", fixed(p.cost.mean, 4)), make("td", p.elsewhere.rows ? fixed(p.elsewhere.mean, 4) : "–"), make("td", fixed(p.logit.mean)), make("td", p.p.toExponential(1)));
    table.append(row);
  }
  $("head-scores").replaceChildren(make("h3", "Scores; marked rows pass all tests"), table);
}
function drawExamples(head) {
  const pattern = head.patterns.find(p => p.pattern === head.role) ?? head.patterns.reduce((a, b) => b.lift > a.lift ? b : a);
  const { best, worst } = examplesOf(head.head, pattern.pattern), holder = $("head-examples");
  holder.replaceChildren(make("h3", `Best examples of “${pattern.pattern}”`), ...best.map(exampleLine), make("h3", "Counterexamples"), ...worst.map(exampleLine));
}
function drawHead() {
  const head = heads[byName.get(state.head)];
  $("head-name").textContent = head.head;
  $("head-role").textContent = `${head.role}; ablation costs ${fixed(head.cost.mean, 4)} nats a token (${fixed(head.cost.low, 4)} to ${fixed(head.cost.high, 4)}), ` +
    `importance ${fixed(head.importance, 4)}, gradient share ${fixed(head.gradient_share)}, copying score ${fixed(data.circuits.copying[byName.get(head.head)], 2)}, ` +
    `entropy ${fixed(head.entropy, 2)}, distance ${fixed(head.distance, 1)}, first token ${fixed(head.sink, 2)}`;
  $("shown").value = state.shown;
  drawPattern();
  drawTokens();
  drawQuery();
  drawScores(head);
  drawExamples(head);
}

// 5. Worth ---------------------------------------------------------------------------------------
Object.keys(data.circuits.composition).forEach(name => option($("alike-by"), name, name.replace(/^(query|key|value)/, "$1 composition")));
function alikeTable() {
  const by = $("alike-by").value, n = heads.length;
  if (by === "similarity" || by === "divergence") return (a, b) => data[by][a][b];
  const flat = data.circuits.composition[by];
  return (a, b) => flat[a * n + b];
}
function drawAlike() {
  const canvas = $("alike"), g = canvas.getContext("2d"), n = heads.length, cell = canvas.width / n, table = alikeTable();
  const values = heads.flatMap((_, a) => heads.map((_, b) => table(a, b)));
  const signed = !["similarity", "divergence"].includes($("alike-by").value), most = largest(values.map(Math.abs), 1e-9);
  const top = $("alike-by").value === "similarity" ? 1 : $("alike-by").value === "divergence" ? Math.LN2 : most;
  g.clearRect(0, 0, canvas.width, canvas.height);
  for (let a = 0; a < n; ++a) for (let b = 0; b < n; ++b) {
    if (table(a, b) === null) continue;  // not there, which is not 0
    g.fillStyle = css(signed ? diverging(table(a, b) / top) : sequential(table(a, b) / top));
    g.fillRect(b * cell, a * cell, Math.ceil(cell), Math.ceil(cell));
  }
  drawBar($("alike-bar"), signed ? diverging : sequential, signed ? -top : 0, top);
}
$("alike-by").addEventListener("change", drawAlike);
$("alike").addEventListener("mousemove", event => {
  const n = heads.length, at = x => Math.min(n - 1, Math.max(0, Math.floor(x / $("alike").clientWidth * n)));
  const a = at(event.offsetY), b = at(event.offsetX);
  $("alike-label").textContent = `${heads[a].head} and ${heads[b].head}: ${fixed(alikeTable()(a, b))}`;
});
function ranks(x) {
  const order = x.map((v, i) => [v, i]).sort((a, b) => a[0] - b[0]), r = [];
  for (let i = 0; i < order.length;) { let j = i; while (j < order.length && order[j][0] === order[i][0]) ++j; for (let k = i; k < j; ++k) r[order[k][1]] = (i + j - 1) / 2; i = j; }
  return r;
}
function rankCorrelation(x, y) {
  const a = ranks(x), b = ranks(y), m = (a.length - 1) / 2;
  let ab = 0, aa = 0, bb = 0;
  a.forEach((v, i) => { ab += (v - m) * (b[i] - m); aa += (v - m) ** 2; bb += (b[i] - m) ** 2; });
  return aa > 0 && bb > 0 ? ab / Math.sqrt(aa * bb) : 0;
}
function drawWorth() {
  const table = make("table"), top = make("tr");
  ["head", "ablation", "", "importance", ""].forEach((t, i) => top.append(make("th", t, i ? "" : "word")));
  table.append(top);
  const mostCost = largest(heads.map(h => h.cost.mean), 1e-9), mostImportance = largest(heads.map(h => h.importance), 1e-9);
  const bar = x => { const cell = make("td"), b = make("span"); b.style.cssText = `display:inline-block;height:.7rem;width:${Math.max(0, 110 * x)}px;background:#0072b2`; cell.className = "word"; cell.append(b); return cell; };
  [...heads].sort((a, b) => b.cost.mean - a.cost.mean).slice(0, 24).forEach(h => {
    const row = make("tr"), name = make("td", undefined, "word"), link = make("a", h.head);
    link.href = "#" + h.head;
    name.append(link);
    row.append(name, make("td", fixed(h.cost.mean, 4)), bar(h.cost.mean / mostCost), make("td", fixed(h.importance, 4)), bar(h.importance / mostImportance));
    table.append(row);
  });
  $("worth-bars").replaceChildren(table);
  $("worth-correlation").textContent = `Rank correlation of ablation cost with importance: ${fixed(rankCorrelation(heads.map(h => h.cost.mean), heads.map(h => h.importance)), 2)}; ` +
    `with gradient share: ${fixed(rankCorrelation(heads.map(h => h.cost.mean), heads.map(h => h.gradient_share)), 2)}.`;
  const series = data.pruning.map((c, i) => ({ points: c.points.map(p => [p.heads, p.loss]), color: hues[i], width: 2, dots: true }));
  plot($("pruning"), series, { labels: data.pruning.map((c, i) => [c.by, hues[i]]) });
  const prune = make("table"), names = make("tr");
  ["heads", ...data.pruning.map(c => c.by), "tokens/s"].forEach(t => names.append(make("th", t)));
  prune.append(names);
  data.pruning[0].points.forEach((p, k) => {
    const row = make("tr");
    row.append(make("td", p.heads), ...data.pruning.map(c => make("td", fixed(c.points[k].loss, 4))), make("td", p.tokens_per_second ? Math.round(p.tokens_per_second).toLocaleString("en") : "–"));
    prune.append(row);
  });
  $("pruning-table").replaceChildren(prune);
}
function drawClaim() {
  const points = looks.map(l => [l.step, l.share_vs_redundancy]).filter(p => p[1] !== null);
  plot($("claim"), [{ points, color: hues[0], width: 2 }], { zero: true, labels: [["gradient share and redundancy", hues[0]]] });
  const mean = points.length ? points.reduce((s, p) => s + p[1], 0) / points.length : 0;
  $("claim-text").textContent = points.length ? `Mean rank correlation of gradient share with redundancy over training: ${fixed(mean, 2)}. The claim says it is negative; ` +
    (mean < -.1 ? "here it is." : mean > .1 ? "here it is positive." : "here it is near zero.") + " Among few heads a layer, correlations scatter." : "Not measured: it needs heads.jsonl and three heads in a layer.";
  const table = make("table"), top = make("tr");
  ["checkpoint", "share and ablation", "share and redundancy"].forEach((t, i) => top.append(make("th", t, i ? "" : "word")));
  table.append(top);
  data.claim.forEach(c => { const row = make("tr"); row.append(make("td", c.checkpoint, "word"), make("td", fixed(c.share_vs_ablation, 2)), make("td", fixed(c.share_vs_redundancy, 2))); table.append(row); });
  $("claim-table").replaceChildren(table);
}

// 6. Methods -------------------------------------------------------------------------------------
const paragraphs = [
  "Score of a pattern: mean over its rows of the attention on the keys a head of that kind should look at. Chance: the same under uniform causal attention. Lift: (score - chance) / (1 - chance). Intervals: 95%, bootstrap over sequences.",
  "Nulls: the most that any head of the same model reaches untrained; the head's own lift on labels that belong elsewhere (another sequence's for patterns that hang on the text, random keys for those that hang on the position alone).",
  "Ablation cost: change of the loss, in nats, when the head's output is its mean over the text; on the rows a pattern should help, and on all others. One head's cost is a lower bound, because other heads fill in.",
  `Role: lift of at least ${data.methods.least_lift}, its interval above both nulls; cost and loss of the right token's logit on the pattern's rows, more cost there than elsewhere; the largest p of the three kept by Benjamini and Hochberg's procedure at a false-discovery rate of ${data.examination.false_discovery_rate} over all heads and patterns. Otherwise "sink" (more than ${data.methods.sink_mass} of the attention on the first token) or "unclassified".`,
  "Importance: mean over sequences of |dL/dxi|, xi a gate of 1 on the head (Michel et al. 2019). Gradient share: squared norm of the gradient of the head's slices over its layer's. Redundancy: greatest CKA of outputs with a head of the layer, what comes from the first token removed. Copying: sum of the eigenvalues of the token-to-logit circuit over the sum of their sizes. Composition: less the mean of fresh weights.",
  "Patterns are 8-bit: weights below 1/510 show as none. Attention is not explanation: a head may look at a place and take nothing from it; that is why a role needs ablation and logit to agree. Roles are relative to this text.",
  `Seed ${data.examination.seed}; text hash ${data.text.hash}; T ${context}; ${data.examination.sequences} sequences; model ${JSON.stringify(data.model)}`];
$("methods-text").append(...paragraphs.map(t => make("p", t)));
$("download").addEventListener("click", () => {
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([$("data").textContent], { type: "application/json" }));
  link.download = "heads.json";
  link.click();
});

// Up and down move from query to query in the pattern, Enter holds one.
function walkPattern(event) {
  const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (step) { state.query = Math.min(spans.length - 1, Math.max(0, state.query + step)); drawQuery(); event.preventDefault(); }
  if (event.key === "Enter" && state.query >= 0) lock(state.query);
}
// Selection, keyboard, deep links, theme ---------------------------------------------------------
function select(name) { history.replaceState(null, "", "#" + name); open(name); }
function open(name) {
  state.head = name;
  state.query = -1;
  state.locked = false;
  document.querySelectorAll("#grid-table button").forEach(b => b.setAttribute("aria-pressed", b.dataset.head === name));
  drawHead();
  drawTimeline();
}
addEventListener("hashchange", () => { const name = location.hash.slice(1); if (byName.has(name)) open(name); });
addEventListener("keydown", event => {
  if (event.key === "Escape") { state.locked = false; state.query = -1; drawQuery(); return; }
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.target.id === "overlay") { walkPattern(event); return; }
  if (!event.target.closest("#grid-table")) return;  // elsewhere the arrows scroll
  const at = heads[byName.get(state.head)];
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!step) { if (event.key === "Enter" && event.target.dataset.head) setTimeout(() => $("head").scrollIntoView()); return; }
  const layer = heads.filter(h => h.layer === at.layer + step[0]);
  const next = layer.find(h => h.index === at.index + step[1]) ?? (step[0] ? layer[layer.length - 1] : null);
  if (!next) return;
  event.preventDefault();
  select(next.head);
  document.querySelector(`#grid-table button[data-head="${next.head}"]`)?.focus({ preventScroll: true });
});
function drawAll() {
  for (const draw of [drawGrid, drawTimeline, drawHead, drawAlike, drawWorth, drawClaim]) {
    try { draw(); } catch (error) { console.error(error); }  // one that fails leaves the others standing
  }
}
$("theme").addEventListener("click", () => { document.documentElement.dataset.theme = isDark() ? "light" : "dark"; drawAll(); });
document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
if (byName.has(location.hash.slice(1))) state.head = location.hash.slice(1);
drawAll();
if (byName.has(location.hash.slice(1))) $("head").scrollIntoView();
})();
