// SPDX-License-Identifier: Apache-2.0
// The script of the page: takes events, draws each curve as SVG, posts what the buttons ask.
"use strict";
const COLORS = ["#2a6fdb", "#c4572e", "#2f9e5b", "#8a4fc7", "#b8860b", "#c2417f", "#2b98a6", "#777777"];
const MOST_POINTS = 20000, WIDTH = 480, HEIGHT = 230, LEFT = 58, RIGHT = 8, TOP = 8, BOTTOM = 24;
const query = new URLSearchParams(location.search), key = query.get("key");
const path = (name) => name + (key ? "?key=" + encodeURIComponent(key) : "");
const at = (id) => document.getElementById(id);
// This run is the first; the others come from their output directories.
const runs = [{name: "this run", series: {}, shown: true}];
let status = null, ended = false, dirty = false, kernels = null;

function clock(seconds) {
  if (seconds === null || !isFinite(seconds)) return "?";
  const whole = Math.round(seconds), two = (n) => String(n).padStart(2, "0");
  const hours = Math.floor(whole / 3600), minutes = Math.floor(whole / 60) % 60;
  return hours ? hours + ":" + two(minutes) + ":" + two(whole % 60) : minutes + ":" + two(whole % 60);
}
function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e6 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}
const megabytes = (bytes) => Math.round(bytes / 1e6) + " MB";
function element(name, text, attributes) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const each in attributes || {}) made.setAttribute(each, attributes[each]);
  return made;
}
function shape(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const each in attributes) made.setAttribute(each, attributes[each]);
  if (text !== undefined) made.textContent = text;
  return made;
}

// ---- what comes
function join(run, series) {
  for (const name in series) {
    let points = run.series[name] || (run.series[name] = []);
    for (const point of series[name]) {
      while (points.length && points[points.length - 1][0] >= point[0]) points.pop();
      points.push(point);
    }
    if (points.length > MOST_POINTS) run.series[name] = points.filter((_, i) => i % 2 === 0);
  }
}
function take(message, all) {
  if (all) {
    runs[0].series = {};
    at("messages").replaceChildren();
  }
  status = message.status;
  join(runs[0], message.series);
  if (message.kernels) showKernels(kernels = message.kernels);
  for (const each of message.messages) {
    at("messages").prepend(element("li", each.text, each.warning ? {"class": "warning"} : {}));
    if (at("messages").childElementCount > 300) at("messages").lastChild.remove();
  }
  showStatus();
  if (all || Object.keys(message.series).length) dirty = true;
}
function showStatus() {
  const s = status, share = s.max_steps ? s.step / s.max_steps : 0;
  document.title = Math.floor(100 * share) + " % " + s.phase + " · transom train";
  at("phase").textContent = s.phase;
  at("model").textContent = s.model;
  at("progress").value = share;
  at("facts").textContent = [s.task, s.output_dir, s.device && s.device + ", " + s.threads + " threads, " + s.precision,
    s.processes > 1 ? s.processes + " processes" : ""].filter(Boolean).join(" · ");
  const parts = ["step " + s.step + " of " + s.max_steps, "epoch " + s.epoch.toFixed(2) + " of " + s.epochs,
    clock(s.seconds) + " gone", clock(s.seconds_left) + " left"];
  if (s.steps_per_second) parts.push(short(s.steps_per_second) + " steps/s", short(s.samples_per_second) + " samples/s");
  if (s.memory) parts.push("memory " + megabytes(s.memory) + " (peak " + megabytes(s.memory_peak) + ")");
  if (s.device_memory) parts.push("device " + megabytes(s.device_memory) + " (peak " + megabytes(s.device_memory_peak) +
    (s.device_memory_limit ? ", of " + megabytes(s.device_memory_limit) : "") + ")");
  if (s.saved_step !== null) parts.push("saved step " + s.saved_step);
  at("rates").textContent = parts.join(" · ");
  at("pause").textContent = s.phase === "paused" ? "Go on" : "Pause";
  const runs_on = !ended && (s.phase === "training" || s.phase === "paused");
  for (const id of ["pause", "save", "stop", "profile"]) at(id).disabled = !runs_on;
}
function showKernels(table) {
  const all = table.rows.reduce((sum, row) => sum + row.seconds, 0) || 1;
  at("kernels_note").textContent = "Of updates " + table.first_step + " to " + (table.first_step + table.steps - 1) +
    ", which took " + short(table.seconds * 1000) + " ms.";
  const head = element("tr");
  for (const name of ["operation", "kernel", "types"]) head.append(element("th", name));
  for (const name of ["calls", "ms", "share"]) head.append(element("th", name, {"class": "n"}));
  at("kernels").replaceChildren(head);
  for (const row of table.rows) {
    const line = element("tr");
    for (const text of [row.operation, row.kernel, row.types]) line.append(element("td", text));
    for (const text of [row.calls, short(row.seconds * 1000), (100 * row.seconds / all).toFixed(1) + " %"])
      line.append(element("td", text, {"class": "n"}));
    at("kernels").append(line);
  }
}

// ---- charts
const RANK = ["loss", "eval_loss"], LAST = ["grad_norm", "learning_rate", "memory_mb", "device_memory_mb"];
function rank(name) {
  if (RANK.includes(name)) return RANK.indexOf(name);
  return LAST.includes(name) ? 100 + LAST.indexOf(name) : 10;
}
function smoothed(points, weight) {
  if (weight <= 0) return points;
  let sum = 0, mass = 0;  // an exponential mean, corrected for its beginning
  return points.map(([step, value]) => {
    sum = weight * sum + (1 - weight) * value;
    mass = weight * mass + (1 - weight);
    return [step, sum / mass];
  });
}
function marks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((k) => rough <= k * 1.0001) || power;
  const result = [];
  for (let mark = Math.ceil(low / step) * step; mark <= high + step * 1e-9; mark += step) result.push(mark);
  return result;
}
// At most two points a column: its least and its largest.
function thinned(points) {
  const most = 2 * (WIDTH - LEFT - RIGHT);
  if (points.length <= most) return points;
  const size = Math.ceil(points.length / (most / 2)), result = [];
  for (let i = 0; i < points.length; i += size) {
    const part = points.slice(i, i + size);
    const low = part.reduce((a, b) => b[1] < a[1] ? b : a), high = part.reduce((a, b) => b[1] > a[1] ? b : a);
    result.push(...(low[0] <= high[0] ? [low, high] : [high, low]));
  }
  return result;
}
function chart(name) {
  const logarithmic = at("logarithmic").checked, weight = Number(at("smoothing").value);
  const curves = [];
  runs.forEach((run, i) => {
    if (!run.shown || !run.series[name]) return;
    const points = thinned(smoothed(run.series[name], weight)).filter((p) => !logarithmic || p[1] > 0)
      .map((p) => [p[0], logarithmic ? Math.log10(p[1]) : p[1]]);
    if (points.length) curves.push({color: COLORS[i % COLORS.length], points});
  });
  const figure = element("figure"), caption = element("figcaption", name), last = runs[0].series[name];
  if (last && last.length) caption.append(element("span", short(last[last.length - 1][1])));
  figure.append(caption);
  const svg = shape("svg", {viewBox: "0 0 " + WIDTH + " " + HEIGHT, role: "img", "aria-label": name});
  figure.append(svg);
  if (!curves.length) return figure;
  let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const curve of curves) for (const [x, y] of curve.points) {
    x0 = Math.min(x0, x); x1 = Math.max(x1, x); y0 = Math.min(y0, y); y1 = Math.max(y1, y);
  }
  if (x1 === x0) x1 = x0 + 1;
  if (y1 - y0 < 1e-12 * Math.max(1, Math.abs(y0))) { const room = Math.abs(y0) * 0.05 || 0.5; y0 -= room; y1 += room; }
  const x = (v) => LEFT + (v - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT);
  const y = (v) => HEIGHT - BOTTOM - (v - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM);
  for (const mark of marks(y0, y1, 4)) {
    svg.append(shape("line", {"class": "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(mark), y2: y(mark)}));
    svg.append(shape("text", {x: LEFT - 5, y: y(mark) + 4, "text-anchor": "end"}, short(logarithmic ? 10 ** mark : mark)));
  }
  for (const mark of marks(x0, x1, 5))
    svg.append(shape("text", {x: x(mark), y: HEIGHT - 7, "text-anchor": "middle"}, short(mark)));
  for (const curve of curves) {
    const line = curve.points.map(([a, b], i) => (i ? "L" : "M") + x(a).toFixed(1) + " " + y(b).toFixed(1)).join("");
    svg.append(shape("path", {d: line, stroke: curve.color}));
    if (curve.points.length < 30)
      for (const [a, b] of curve.points) {
        const dot = shape("circle", {cx: x(a), cy: y(b), r: 2.5, fill: curve.color});
        dot.append(shape("title", {}, "step " + a + ": " + short(logarithmic ? 10 ** b : b)));
        svg.append(dot);
      }
  }
  return figure;
}
function draw() {
  if (!dirty || document.hidden) return;
  dirty = false;
  const names = new Set();
  for (const run of runs) if (run.shown) for (const name in run.series) names.add(name);
  const sorted = [...names].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
  at("charts").replaceChildren(...sorted.map(chart));
}

// ---- other runs
function showRuns() {
  for (const old of [...at("runs").querySelectorAll("label")]) old.remove();
  runs.forEach((run, i) => {
    const label = element("label"), box = element("input", undefined, {type: "checkbox"}), swatch = element("span");
    swatch.className = "swatch";
    swatch.style.background = COLORS[i % COLORS.length];
    box.checked = run.shown;
    box.addEventListener("change", () => { run.shown = box.checked; load(run).then(() => { dirty = true; draw(); }); });
    label.append(box, swatch, run.name);
    if (run.directory) label.title = run.directory;
    at("runs").append(label);
  });
}
async function load(run) {
  if (run.id === undefined || !run.shown) return;
  const answer = await fetch(path("runs/" + run.id));
  if (answer.ok) run.series = (await answer.json()).series;
  else note((await answer.json()).error);
}
async function findRuns() {
  const answer = await fetch(path("runs"));
  if (!answer.ok) return;
  for (const found of await answer.json()) {
    const known = runs.find((run) => run.directory === found.directory);
    if (known) known.id = found.id;
    else runs.push({name: found.name, directory: found.directory, id: found.id, series: {}, shown: false});
  }
  await Promise.all(runs.map(load));
  showRuns();
  dirty = true;
}

// ---- what is asked
function note(text) { at("note").textContent = text; }
async function ask(what, said) {
  try {
    const answer = await fetch(path(what), {method: "POST", headers: {"X-Transom-Dashboard": "1"}});
    note(answer.ok ? said : (await answer.json()).error);
  } catch (error) { note("the run does not answer"); }
}
function begin() {
  showRuns();
  at("pause").addEventListener("click", () => status && status.phase === "paused" ?
    ask("resume", "goes on") : ask("pause", "pauses after this update"));
  at("save").addEventListener("click", () => ask("save", "saves after this update"));
  at("stop").addEventListener("click", () => {
    if (confirm("Stop the run after this update? A checkpoint to resume from is saved."))
      ask("stop", "stops after this update, with a checkpoint");
  });
  at("profile").addEventListener("click", () => ask("profile", "measures the next updates"));
  for (const id of ["smoothing", "logarithmic"]) at(id).addEventListener("input", () => { dirty = true; draw(); });
  document.addEventListener("visibilitychange", draw);
  take(JSON.parse(at("initial").textContent), true);
  draw();
  findRuns().then(draw).catch(() => {});
  if (query.has("still")) return;
  const events = new EventSource(path("events"));
  events.addEventListener("state", (event) => { take(JSON.parse(event.data), true); draw(); });
  events.addEventListener("update", (event) => take(JSON.parse(event.data), false));
  events.addEventListener("end", () => { ended = true; events.close(); showStatus(); note("the program has ended"); draw(); });
  events.onerror = () => { if (!ended) note("the connection is lost; trying again"); };
  events.onopen = () => note("");
  setInterval(draw, 500);
  setInterval(() => { if (!ended) findRuns().catch(() => {}); }, 15000);
}
begin();
