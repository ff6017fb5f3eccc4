// The page of package debugprobe. Everything that comes from the program is untrusted text: it
// reaches the document only through textContent and attributes, never as HTML.
"use strict";

const $ = (id) => document.getElementById(id);
const svgName = "http://www.w3.org/2000/svg";
const keptRows = 200, keptSeconds = 60, shownGroups = 12;

// element makes an HTML element with a class, text and children.
function element(name, className, ...content) {
  const e = document.createElement(name);
  if (className) e.className = className;
  e.append(...content);
  return e;
}

// svg makes an SVG element.
function svg(name, attributes, text) {
  const e = document.createElementNS(svgName, name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  if (text !== undefined) e.textContent = text;
  return e;
}

// visible makes control characters visible, and those that change the direction of text.
function visible(text) {
  return text.replace(/[\u0000-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, 
      (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

const whole = new Intl.NumberFormat("en");
const count = (n) => whole.format(n);

// short formats a number with at most three significant digits.
function short(n) {
  if (n === 0) return "0";
  const size = Math.abs(n);
  for (const [unit, letter] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= unit) return Number((n / (letter === "k" ? 1e3 : unit)).toPrecision(3)) + letter;
  }
  return String(Number(n.toPrecision(size >= 1000 ? 4 : 3)));
}

// duration formats nanoseconds.
function duration(ns) {
  const n = Number(ns), size = Math.abs(n);
  for (const [unit, name] of [[3600e9, "h"], [60e9, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (size >= unit) return Number((n / unit).toPrecision(3)) + " " + name;
  }
  return Number(n.toPrecision(3)) + " ns";
}

function amount(type) {
  if (type === "time.Duration") return duration;
  return /^u?int/.test(type) ? (n) => short(Math.round(n)) : short;
}

// parse reads JSON and keeps integers that a number cannot represent, where the browser can.
function parse(text) {
  return JSON.parse(text, (key, value, context) =>
    typeof value === "number" && !Number.isSafeInteger(value) && context &&
      /^-?\d+$/.test(context.source) ? BigInt(context.source) : value);
}

// The list of probes.

let listing = null, listed = "", chosen = null, stream = null;

async function refresh() {
  try {
    const response = await fetch("probes.json");
    if (!response.ok) throw new Error((await response.json()).error.message);
    listing = await response.json();
    $("connection").hidden = true;
  } catch (problem) {
    $("connection").textContent = "The program does not answer: " + problem.message;
    $("connection").hidden = false;
    return;
  }
  $("program").textContent = `${listing.program} · process ${listing.pid} · ${listing.go}`;
  document.title = `Probes of ${listing.program}`;
  showList();
}

function showList() {
  const wanted = $("find").value.trim().toLowerCase();
  const state = JSON.stringify(
    [listing.providers, listing.recorders, wanted, chosen, $("recorder").hidden]);
  if (state === listed) return;
  listed = state;
  const focused = document.activeElement?.dataset?.id;
  const list = document.createDocumentFragment();
  let shown = 0;
  for (const provider of listing.providers) {
    const matching = provider.probes.filter((p) => `${provider.name}:${p.name}`.toLowerCase().includes(wanted));
    if (wanted && matching.length === 0) continue;
    const loaded = badge(provider.loaded ? "loaded" : "not loaded", false);
    const heading = element("h2", "", visible(provider.name), loaded);
    const items = element("ul");
    for (const probe of matching) {
      shown++;
      items.append(element("li", "", probeButton(provider, probe)));
    }
    if (matching.length === 0) items.append(element("li", "quiet", "It has no probes."));
    list.append(element("section", "provider", heading, items));
  }
  $("providers").replaceChildren(list);
  $("nothing").hidden = shown > 0;
  $("nothing").textContent = listing.providers.length === 0 ? "This program has no providers." : "No probe has a name like that.";
  $("open-recorder").hidden = listing.recorders === 0;
  if ($("recorder").hidden) $("open-recorder").removeAttribute("aria-current");
  else $("open-recorder").setAttribute("aria-current", "true");
  showRecordings();
  if (focused) buttons().find((b) => b.dataset.id === focused)?.focus();
  if (chosen) showState();
  else if ($("recorder").hidden) chooseFromAddress();
}

function badge(text, on) {
  return element("span", on ? "badge on" : "badge", text);
}

const idOf = (provider, probe) => `${provider.name}:${probe.name}`;
const buttons = () => [...document.querySelectorAll(".probe")];

function probeButton(provider, probe) {
  const button = element("button", "probe", element("span", "name", visible(probe.name)));
  if (probe.traced) button.append(badge("traced", true));
  if (probe.enabled) button.append(badge("enabled", true));
  button.type = "button";
  button.dataset.id = idOf(provider, probe);
  if (button.dataset.id === chosen) button.setAttribute("aria-current", "true");
  button.addEventListener("click", () => choose(provider, probe));
  return button;
}

function find(id) {
  for (const provider of listing?.providers ?? []) {
    for (const probe of provider.probes) if (idOf(provider, probe) === id) return [provider, probe];
  }
  return null;
}

function chooseFromAddress() {
  let id = "";
  try { id = decodeURIComponent(location.hash.slice(1)); } catch { return; }
  const found = find(id);
  if (found) choose(...found);
}

// The chosen probe.

const isNumber = (type) => /^(u?int|float)/.test(type) || type === "time.Duration";
const isGo = (name) => /^[A-Za-z_]\w*$/.test(name);

function choose(provider, probe) {
  if (chosen === idOf(provider, probe)) return;
  stop();
  chosen = idOf(provider, probe);
  history.replaceState(null, "", "#" + encodeURIComponent(chosen));
  $("welcome").hidden = $("recorder").hidden = true;
  $("watch").hidden = false;
  $("results").hidden = true;
  problem(null);
  $("title").textContent = `${visible(provider.name)}:${visible(probe.name)}`;
  const signature = $("signature");
  signature.replaceChildren("(");
  probe.args.forEach((arg, i) => signature.append(
    i > 0 ? ", " : "", visible(arg.name) + " ", element("span", "type", arg.type)));
  signature.append(")");
  const name = (arg, i) => isGo(arg.name) ? arg.name : "arg" + i;
  const options = (keep) => probe.args.map((arg, i) => [arg, name(arg, i)])
    .filter(([arg]) => keep(arg.type))
    .map(([, text]) => Object.assign(element("option"), { value: text }));
  $("numbers").replaceChildren(...options(isNumber));
  $("keys").replaceChildren(...options(() => true));
  $("filter").value = $("by").value = "";
  $("filter").placeholder = example(probe.args.map((arg, i) => ({ name: name(arg, i), type: arg.type })));
  const first = probe.args.findIndex((arg) => arg.type === "time.Duration" ||
    isNumber(arg.type) && /^(nanoseconds|elapsed|duration|latency)/i.test(arg.name));
  $("value").value = first >= 0 ? name(probe.args[first], first) : "";
  columns(probe);
  showList();
  showState();
}

// example returns a filter that suits the arguments.
function example(args) {
  const parts = [];
  const isDuration = ({ type }) => type === "time.Duration";
  for (const { name, type } of [...args].sort((a, b) => isDuration(b) - isDuration(a))) {
    if (/^(id|parent|span)$/.test(name)) continue; // which nobody compares with a number
    if (type === "string") parts.push(/path|url|uri|route/i.test(name) ? `strings.HasPrefix(${name}, "/api/")` : `${name} != ""`);
    else if (type === "time.Duration") parts.push(`${name} > 10ms`);
    else if (type === "bool") parts.push(name);
    else if (isNumber(type)) parts.push(`${name} >= ${/status|code/.test(name) ? 500 : 100}`);
    if (parts.length === 2) break;
  }
  return parts.length ? "A Go expression, such as " + parts.join(" && ") : "A Go expression";
}

function showState() {
  const found = find(chosen);
  if (!found) {
    $("place").textContent = "The provider was closed.";
    return;
  }
  const [provider, probe] = found;
  const parts = [];
  parts.push(provider.loaded ? `Loaded${provider.path ? " from " + visible(provider.path) : ""}.` : "Not loaded: tracers cannot see this probe, but this page can.");
  if (probe.traced) parts.push("A tracer is attached.");
  if (probe.sites > 1) parts.push(`The probe has ${probe.sites} sites.`);
  $("place").textContent = parts.join(" ");
}

// Watching.

let rates, lastStats, ends, paused;

async function start() {
  stop();
  problem(null);
  const [provider, probe] = find(chosen) ?? [];
  if (!probe) return;
  const query = new URLSearchParams(
    { provider: provider.name, probe: probe.name, seconds: $("seconds").value });
  for (const name of ["filter", "value", "by"]) if ($(name).value.trim()) query.set(name, $(name).value);
  const control = new AbortController();
  stream = control;
  running(true);
  reset();
  try {
    const response = await fetch("events?" + query, { signal: control.signal });
    if (!response.ok) {
      problem((await response.json()).error);
      $("results").hidden = true;
      return;
    }
    ends = performance.now() + 1000 * Number($("seconds").value);
    $("results").hidden = false;
    countdown();
    await read(response.body, control);
    if (stream === control && !control.ended) status("The connection was lost.");
  } catch (error) {
    if (stream === control) status("The connection was lost: " + error.message);
  } finally {
    if (stream === control) {
      stream = null;
      running(false);
    }
  }
}

function stop() {
  if (!stream) return;
  stream.abort();
  stream = null;
  running(false);
  status("Stopped.");
}

// read reads server-sent events: lines of "event: NAME" and "data: JSON", and an empty one.
async function read(body, control) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    if (stream !== control) return;
    const events = [];
    for (const block of blocks) {
      let name = "message", data = "";
      for (const line of block.split("\n")) {
        if (line.startsWith("event: ")) name = line.slice(7);
        if (line.startsWith("data: ")) data = line.slice(6);
      }
      if (data === "") continue;
      const parsed = parse(data);
      if (name === "message") events.push(parsed);
      if (name === "stats") showStats(parsed);
      if (name === "histogram") showHistogram(parsed);
      if (name === "end") {
        control.ended = true;
        status({ time: "Stopped, because the time was over.", shutdown: "Stopped, because the program is shutting down." }[parsed.reason] ?? "Stopped.");
      }
    }
    addRows(events);
  }
}

function running(on) {
  const button = $("start");
  button.textContent = on ? "Stop" : "Start";
  button.classList.toggle("stop", on);
  $("status").classList.toggle("running", on);
}

function status(text) {
  if ($("status").textContent !== text) $("status").textContent = text;
}

function countdown() {
  if (!stream || stream.ended) return;
  const left = Math.max(0, Math.round((ends - performance.now()) / 1000));
  $("status").classList.add("running");
  // Only tens are announced, so that a screen reader is not kept busy.
  status(`Watching. It stops by itself ${left > 10 ? `in about ${Math.round(left / 10) * 10} seconds` : "soon"}.`);
  setTimeout(countdown, 1000);
}

function problem(error) {
  const box = $("problem");
  box.hidden = !error;
  for (const name of ["filter", "value", "by"]) $(name).removeAttribute("aria-invalid");
  if (!error) return;
  box.textContent = visible(error.message);
  const lines = error.text?.split("\n").map((line) => line.replace(/^\t/, ""));
  if (lines) box.textContent = [error.message, ...lines.slice(1)].map(visible).join("\n");
  const field = ["filter", "value", "by"].includes(error.parameter) && $(error.parameter);
  if (!field) return;
  field.setAttribute("aria-invalid", "true");
  field.focus();
  if (error.offset !== undefined) {
    // The offset counts bytes.
    const bytes = new TextEncoder().encode(field.value).slice(0, error.offset);
    const before = new TextDecoder().decode(bytes).length;
    field.setSelectionRange(before, before);
  }
}

function reset() {
  rates = [];
  lastStats = null;
  for (const id of ["rate", "matched", "sent", "dropped", "faults"]) $(id).textContent = "0";
  $("faults-tile").hidden = true;
  $("dropped-tile").classList.remove("lost");
  $("histogram-figure").hidden = true;
  $("histogram").replaceChildren();
  status("Starting.");
  setPaused(false);
  clear();
  drawRate();
}

function showStats(s) {
  const now = performance.now();
  const seconds = lastStats ? (now - lastStats.now) / 1000 : 1;
  rates.push((s.matched - (lastStats?.matched ?? 0)) / Math.max(seconds, 0.2));
  if (rates.length > keptSeconds) rates.shift();
  lastStats = { now, matched: s.matched };
  $("rate").textContent = short(Math.round(rates.at(-1)));
  for (const id of ["matched", "sent", "dropped", "faults"]) $(id).textContent = count(s[id]);
  $("faults-tile").hidden = s.faults === 0;
  $("dropped-tile").classList.toggle("lost", s.dropped > 0);
  drawRate();
}

// nice returns a round number that is at least n.
function nice(n) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(n, 1)));
  for (const factor of [1, 2, 5, 10]) if (n <= factor * unit) return factor * unit;
  return 10 * unit;
}

function drawRate() {
  const chart = $("rate-chart"), height = 120, left = 44, bottom = 20, top = 8;
  const width = Math.max(chart.clientWidth, 300);
  chart.setAttribute("viewBox", `0 0 ${width} ${height}`);
  chart.setAttribute("height", height);
  const most = nice(Math.max(...rates, 1));
  const y = (n) => top + (height - top - bottom) * (1 - n / most);
  const x = (i) => left + (width - left - 4) * (keptSeconds - rates.length + 1 + i) / keptSeconds;
  const parts = [];
  for (const n of [0, most / 2, most]) {
    parts.push(svg("line", { class: "grid", x1: left, x2: width, y1: y(n), y2: y(n) }));
    parts.push(svg("text", { x: left - 8, y: y(n) + 4, "text-anchor": "end" }, short(n)));
  }
  for (const ago of width < 500 ? [60, 30, 0] : [60, 45, 30, 15, 0]) {
    const at = left + (width - left - 4) * (keptSeconds - ago) / keptSeconds;
    const anchor = ago === 0 ? "end" : ago === 60 ? "start" : "middle";
    parts.push(svg("text", { x: at, y: height - 4, "text-anchor": anchor },
      ago === 0 ? "now" : `${ago} s ago`));
  }
  if (rates.length > 0) {
    const points = rates.map((n, i) => `${x(i).toFixed(1)},${y(n).toFixed(1)}`);
    if (rates.length > 1) {
      parts.push(svg("polygon", { class: "area", points: `${x(0)},${y(0)} ${points.join(" ")} ${x(rates.length - 1)},${y(0)}` }));
      parts.push(svg("polyline", { class: "line", points: points.join(" ") }));
    }
    parts.push(svg("circle", { class: "mark", cx: x(rates.length - 1), cy: y(rates.at(-1)), r: 3.5 }));
  }
  chart.replaceChildren(...parts);
  chart.setAttribute("aria-label", rates.length ? `Events per second: now ${short(Math.round(rates.at(-1)))}, at most ${short(Math.round(Math.max(...rates)))} in the last minute` : "Events per second");
}

// The histogram. A bucket's slot is its position on a logarithmic axis, of which a power of two
// takes four, with 0 between negative and positive numbers.

const firstPower = -40;
const position = (size) => (Math.log2(size) - firstPower) * 4 + 1; // of a positive number

function slot(low, high) {
  if (low === 0 && high === 0) return 0;
  return low < 0 ? -Math.round(position(-high)) : Math.round(position(low));
}

function showHistogram(h) {
  $("histogram-figure").hidden = h.groups.length === 0;
  const caption = $("histogram-caption");
  caption.replaceChildren(h.value ? "Histogram of " : "Events by ", element("span", "code", visible(h.value || h.by)));
  if (h.value && h.by) caption.append(" by ", element("span", "code", visible(h.by)));
  const groups = h.groups.slice(0, shownGroups);
  const rows = h.value ? distribution(groups, h) : shares(groups, h);
  const hidden = h.groups.length - groups.length;
  const notes = [];
  if (hidden > 0) notes.push(`${hidden} smaller ${hidden === 1 ? "group is" : "groups are"} not shown.`);
  if (h.others > 0) notes.push(`${count(h.others)} events belong to groups that appeared after the first ${h.groups.length}, which are not kept.`);
  if (notes.length > 0) rows.push(element("p", "note", notes.join(" ")));
  $("histogram").replaceChildren(...rows);
}

function label(group, h) {
  const key = element("div", "key", h.by ? (group.key === "" ? "(empty)" : visible(group.key)) : "all");
  key.title = key.textContent;
  return element("div", "", key, element("div", "count", `${count(group.count)} ${group.count === 1 ? "event" : "events"}`));
}

// distribution draws a row of bars for each group, on a common axis.
function distribution(groups, h) {
  const used = groups.flatMap((g) => g.buckets.map(([low, high]) => slot(low, high)));
  if (used.length === 0) return [];
  // The axis leaves out the distance between 0 and the smallest magnitude.
  const positive = used.filter((n) => n > 0), negative = used.filter((n) => n < 0);
  const slots = [];
  const run = (from, to) => { for (let n = from; n <= to; n++) slots.push(n); };
  if (negative.length) run(Math.min(...negative), Math.max(...negative));
  if (used.includes(0)) slots.push(0);
  if (positive.length) run(Math.min(...positive), Math.max(...positive));
  for (let n = 0; slots.length < 16 && n < 8; n++) { // so that a few bars are not too wide
    if (slots[0] > 1) slots.unshift(slots[0] - 1);
    if (slots.at(-1) > 0) slots.push(slots.at(-1) + 1);
  }
  const place = new Map(slots.map((n, i) => [n, i]));
  const format = amount(h.type), width = 600, height = 44;
  const x = (i) => i * width / slots.length;
  const rows = groups.map((g) => {
    const most = Math.max(...g.buckets.map((b) => b[2]));
    const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, preserveAspectRatio: "none", role: "img", "aria-label": `${format(g.numbers.min)} to ${format(g.numbers.max)}` });
    chart.append(svg("line", { class: "grid", x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }));
    for (const [low, high, n] of g.buckets) {
      const i = place.get(slot(low, high)), size = Math.max(1.5, n / most * (height - 2));
      const bar = svg("rect", {
        class: "bars", x: x(i) + 0.5, y: height - size,
        width: Math.max(1, width / slots.length - 1), height: size,
      });
      bar.append(svg("title", {}, `${range(low, high, h.type)}: ${count(n)} ${n === 1 ? "event" : "events"}`));
      chart.append(bar);
    }
    const facts = element("dl");
    for (const [name, value] of [["median", g.numbers.p50], ["99%", g.numbers.p99], ["max", g.numbers.max]]) {
      facts.append(element("div", "", element("dt", "", name), element("dd", "", format(value))));
    }
    return element("div", "group", label(g, h), chart, facts);
  });
  rows.push(element("div", "group axis", element("div"), axis(slots, format), element("div")));
  return rows;
}

// range describes a bucket. An integer's has whole numbers.
function range(low, high, type) {
  const format = amount(type);
  if (low === high) return format(low);
  if (!/^u?int/.test(type)) return `${format(low)} to ${format(high)}`;
  const first = Math.ceil(low), last = Math.max(first, Math.ceil(high) - 1);
  return first === last ? format(first) : `${format(first)} to ${format(last)}`;
}

// axis labels 0 and round numbers.
function axis(slots, format) {
  const box = svg("svg", { height: 20, "aria-hidden": "true" });
  const marks = [];
  const first = slots.findIndex((n) => n > 0), last = slots.findLastIndex((n) => n < 0);
  for (let power = -12; power <= 19; power++) {
    for (const factor of [1, 2, 5]) {
      const size = Number(`${factor}e${power}`), at = position(size);
      if (first >= 0) marks.push({ n: size, factor, at: at - slots[first] + first });
      if (last >= 0) marks.push({ n: -size, factor, at: last + 1 - (at + slots[last]) });
    }
  }
  const zero = slots.indexOf(0);
  if (zero >= 0) marks.push({ n: 0, factor: 1, at: zero + 0.5 });
  // The roundest numbers come first, and others where there is room.
  const shown = [];
  const order = (m) => [1, 5, 2].indexOf(m.factor);
  marks.sort((a, b) => order(a) - order(b) || (a.n === 0 ? -1 : b.n === 0 ? 1 : 0));
  const tens = marks.filter((m) => m.factor === 1 && m.at >= 0 && m.at <= slots.length);
  const apart = tens.length >= 3 ? 0.1 : 0.16;
  for (const m of marks) {
    const share = m.at / slots.length;
    const inside = m.n === 0 ||
      (m.n > 0 ? m.at >= first && share <= 1 : m.at <= last + 1 && share >= 0);
    if (!inside || shown.some((other) => Math.abs(other - share) < apart)) continue;
    shown.push(share);
    const anchor = share < 0.04 ? "start" : share > 0.96 ? "end" : "middle";
    const x = `${(100 * share).toFixed(2)}%`;
    box.append(svg("text", { x, y: 14, "text-anchor": anchor }, format(m.n)));
  }
  return box;
}

// shares draws a bar for each group's count.
function shares(groups, h) {
  const most = Math.max(...groups.map((g) => g.count));
  const all = h.groups.reduce((sum, g) => sum + g.count, h.others);
  return groups.map((g) => {
    const chart = svg("svg", { height: 18, role: "img", "aria-label": count(g.count) });
    const width = `${100 * g.count / most}%`;
    chart.append(svg("rect", { class: "bars", x: 0, y: 2, width, height: 14, rx: 2 }));
    const part = element("div", "count", (100 * g.count / all).toFixed(1) + " %");
    return element("div", "group", label(g, h), chart, part);
  });
}

// The list of events.

let shownArgs = [];

function columns(probe) {
  shownArgs = probe.args;
  const row = element("tr", "", element("th", "", "Time"));
  for (const arg of probe.args) {
    const type = element("span", "type", arg.type);
    row.append(element("th", isNumber(arg.type) ? "number" : "", visible(arg.name) + " ", type));
  }
  $("columns").replaceChildren(row);
}

function format(value, type) {
  return type === "time.Duration" && typeof value !== "string" ? duration(value) : visible(String(value));
}

function cell(value, type) {
  const td = element("td", isNumber(type) ? "number" : "");
  td.textContent = format(value, type);
  if (td.textContent.length > 40) td.title = td.textContent;
  return td;
}

function addRows(events) {
  if (events.length === 0) return;
  $("waiting").hidden = true;
  if (paused) return;
  const rows = document.createDocumentFragment();
  for (const event of events.slice(-keptRows).reverse()) {
    const time = element("td", "time", localTime(event.time));
    time.title = event.time;
    const row = element("tr", "", time);
    for (const arg of shownArgs) row.append(cell(event.args[arg.name], arg.type));
    rows.append(row);
  }
  const body = $("rows");
  body.prepend(rows);
  while (body.rows.length > keptRows) body.deleteRow(-1);
  $("kept").textContent = body.rows.length === keptRows ? `the last ${keptRows}, newest first` : "newest first";
}

function localTime(text) {
  const t = new Date(text), two = (n) => String(n).padStart(2, "0");
  return `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}.${(text.split(".")[1] ?? "000").slice(0, 3)}`;
}

function clear() {
  $("rows").replaceChildren();
  $("kept").textContent = "";
  $("waiting").hidden = false;
}

function setPaused(on) {
  paused = on;
  $("pause").setAttribute("aria-pressed", String(on));
  $("pause").textContent = on ? "Resume the list" : "Pause the list";
}

// The flight recorder.

let recorded = [];

function openRecorder() {
  stop();
  chosen = null;
  history.replaceState(null, "", "#");
  for (const id of ["welcome", "watch"]) $(id).hidden = true;
  $("recorder").hidden = false;
  showList();
  readRecorder();
}

// A recorder may be one that has no file to download.
function showRecordings() {
  $("recordings").replaceChildren(...listing.recordings.map((n) => {
    const link = element("a", "", listing.recordings.length > 1 ? `Download recording ${n} for stapsdt` : "Download for stapsdt");
    link.href = `recording.rec?recorder=${n}`;
    link.download = `${listing.program}-${listing.pid}-${n}.rec`;
    return link;
  }));
}

// How many of a recorder's events are read, and of these shown.
const lastEvents = 10000, shownEvents = 500;

async function readRecorder() {
  $("read-count").textContent = "Reading.";
  try {
    const response = await fetch(`recorder.json?last=${lastEvents}`);
    const text = await response.text();
    if (!response.ok) throw new Error(JSON.parse(text).error.message);
    const lines = text.split("\n").filter((line) => line !== "");
    recorded = lines.map((line) => ({ line, event: parse(line) }));
    recorded.sort((a, b) => a.event.time < b.event.time ? 1 : -1);
    showRecorded();
    showOperations();
  } catch (error) {
    $("read-count").textContent = "That failed: " + error.message;
  }
}

function showRecorded() {
  const wanted = $("contains").value.trim().toLowerCase();
  const rows = document.createDocumentFragment();
  let n = 0;
  for (const { line, event } of recorded) {
    if (!line.toLowerCase().includes(wanted)) continue;
    if (++n > shownEvents) continue;
    const types = find(`${event.provider}:${event.probe}`)?.[1].args ?? [];
    const time = element("td", "time", localTime(event.time)), args = element("td", "args");
    time.title = event.time;
    Object.entries(event.args).forEach(([name, value], i) => {
      args.append(i > 0 ? "  " : "", element("span", "", visible(name) + "="),
        format(value, types[i]?.type ?? ""));
    });
    rows.append(element("tr", "", time, element("td", "", visible(`${event.provider}:${event.probe}`)), args));
  }
  $("recorded").replaceChildren(rows);
  const more = n > shownEvents ? `, of which ${count(shownEvents)} are shown` : "";
  $("read-count").textContent = `${count(n)} ${n === 1 ? "event" : "events"}, newest first${more}`;
}

// Operations. Each begins at NAME__start and ends at NAME__end or NAME__done, whose first arguments
// are equal. One with a parent is a span, whose id is unique in the program.

const shownOperations = 5, shownOpen = 20, maxDepth = 100;

// nanoseconds returns a time of an event, which has more digits than a Date.
function nanoseconds(text) {
  const fraction = (text.match(/\.(\d+)/)?.[1] ?? "").padEnd(9, "0").slice(0, 9);
  return BigInt(Date.parse(text.replace(/\.\d+/, ""))) * 1000000n + BigInt(fraction);
}

// operations pairs events, the oldest first, and returns the operations that have no parent among
// them.
function operations(events) {
  const all = new Map(), roots = [];
  for (const event of events) {
    const [, name, side] = event.probe.match(/^(.*)__(start|end|done)$/) ?? [];
    const [id] = Object.values(event.args);
    if (name === undefined || id === undefined) continue;
    const kind = event.args.parent === undefined ? event.provider + ":" + name : "";
    const key = JSON.stringify([kind, String(id)]);
    if (side === "start") {
      const parent = all.get(JSON.stringify(["", String(event.args.parent)]));
      const one = { event, name: `${event.provider}:${name}`, began: nanoseconds(event.time), end: null, parts: [] };
      all.set(key, one);
      (parent?.parts ?? roots).push(one);
    } else if (all.has(key)) {
      const one = all.get(key);
      one.end = event;
      one.took = Number(nanoseconds(event.time) - one.began);
    }
  }
  return roots;
}

// describe returns a line for an operation. now is when the events were read.
function describe(one, depth, now) {
  const { id, parent, ...args } = one.event.args;
  const shown = Object.entries(args).map(([name, value]) => `${visible(name)}=${visible(String(value))}`);
  const error = one.end?.args.error ? `  failed: ${visible(String(one.end.args.error))}` : "";
  const took = one.end ? duration(one.took) : `>${duration(Number(now - one.began))}`;
  return `${took.padStart(9)}  ${"  ".repeat(Math.min(depth, 20))}${visible(one.name)} ${shown.join(" ")}${error}${one.end ? "" : "  not ended yet"}`;
}

function showOperations() {
  const events = recorded.map(({ event }) => event).reverse();
  const roots = operations(events);
  $("operations").hidden = roots.length === 0;
  $("operations-of").textContent = `Of the last ${count(events.length)} events.`;
  const now = events.length ? nanoseconds(events.at(-1).time) : 0n;
  const lines = [], open = [];
  const walk = (one, depth, visit) => {
    visit(one, depth);
    if (depth < maxDepth) for (const part of one.parts) walk(part, depth + 1, visit);
  };
  for (const root of roots) walk(root, 0, (one) => { if (!one.end) open.push(one); });
  $("open-now").textContent = open.slice(0, shownOpen).map((one) => describe(one, 0, now)).join("\n") || "None.";
  if (open.length > shownOpen) $("open-now").append(`\nand ${open.length - shownOpen} more`);
  const slowest = roots.filter((one) => one.end).sort((a, b) => b.took - a.took)
    .slice(0, shownOperations);
  for (const root of slowest) walk(root, 0, (one, depth) => lines.push(describe(one, depth, now)));
  $("slowest").textContent = lines.join("\n") || "None has ended.";
}

// Input.

$("open-recorder").addEventListener("click", openRecorder);
$("read").addEventListener("click", readRecorder);
$("contains").addEventListener("input", showRecorded);

$("controls").addEventListener("submit", (event) => event.preventDefault());
$("controls").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.tagName === "INPUT") {
    event.preventDefault();
    start();
  }
});
$("start").addEventListener("click", () => stream ? stop() : start());
$("pause").addEventListener("click", () => setPaused(!paused));
$("clear").addEventListener("click", clear);
$("find").addEventListener("input", () => listing && showList());
window.addEventListener("hashchange", chooseFromAddress);
window.addEventListener("resize", () => rates && drawRate());

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName);
  if (event.key === "Escape" && stream) stop();
  if (event.key === "/" && !typing) {
    event.preventDefault();
    ($("watch").hidden ? $("find") : $("filter")).focus();
  }
  const list = buttons(), at = list.indexOf(document.activeElement);
  if (event.key === "ArrowDown" && (at >= 0 || document.activeElement === $("find")) && list[at + 1]) {
    event.preventDefault();
    list[at + 1].focus();
  }
  if (event.key === "ArrowUp" && at >= 0) {
    event.preventDefault();
    (list[at - 1] ?? $("find")).focus();
  }
});

refresh();
setInterval(() => { if (!document.hidden) refresh(); }, 3000);
