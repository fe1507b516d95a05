// The page: what is chosen stands behind the # of the address, so that a view can be linked to.

addEventListener("error", (event) => { document.body.dataset.error = event.message; });

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const colours = new Map(data.arms.map((arm, place) => [arm.id, place % 12]));
const armOf = new Map(data.arms.map((arm) => [arm.id, arm]));
const single = data.sentence !== null;

const state = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
const hidden = new Set((state.hide ?? "").split(",").filter(Boolean));
const shown = (id) => !hidden.has(armOf.get(id)?.name);

function choose(key, value) {
  if (value) state[key] = value;
  else delete state[key];
  history.replaceState(null, "", `#${new URLSearchParams(state)}`);
  draw();
}

function theme() {
  const dark = state.theme ? state.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").textContent = dark ? "☀ light" : "☾ dark";
}

function drawLegend() {
  $("legend").replaceChildren(...data.arms.map((arm) => {
    const chip = el("button", { class: "chip", type: "button", "aria-pressed": shown(arm.id), style: `--own:var(--c${colours.get(arm.id)})` },
      el("i"), arm.name, el("small", {}, arm.version));
    chip.addEventListener("click", () => {
      if (!hidden.delete(arm.name)) hidden.add(arm.name);
      choose("hide", [...hidden].join(","));
    });
    return chip;
  }));
}

/** An arm's ratio to the best, over all workloads or of the only one, and whether nothing tells it from
 * the best. */
function standing(id, metric) {
  const own = single
    ? data.workloads[0].rows.find((one) => one.metric === metric)?.bars.find((one) => one.arm === id)
    : data.summary.rows.find(([arm]) => arm === id)?.[1][data.summary.metrics.indexOf(metric)];
  return own?.ratio == null ? null : own;
}

/** Whether somebody else is the best and this one cannot be told apart from it. */
const isTie = (own) => Boolean(own?.is_best && !own.leads);

function drawScatter() {
  const time = data.metrics.some((metric) => metric.key === "wall") ? "wall" : "cpu";
  const point = (arm) => ({
    name: arm.name, x: standing(arm.id, time)?.ratio, y: standing(arm.id, "peak")?.ratio, colour: colours.get(arm.id), strong: arm.subject,
    tie: { x: isTie(standing(arm.id, time)), y: isTie(standing(arm.id, "peak")) },
  });
  const points = data.arms.filter((arm) => shown(arm.id)).map(point).filter((one) => one.x && one.y);
  const what = single ? "Ratios to the best in each; 1 is the best, less is better."
    : "Geometric means of the ratios to the virtual best: the best of all in each workload.";
  $("scatter-note").textContent = `${what} A ring, and ~ behind a name: cannot be told apart from the best in that.`;
  $("scatter").replaceChildren(points.length ? scatterChart(points, $("scatter").clientWidth) : el("p", {}, "Nothing to show."));
}

function drawSummary() {
  const columns = single ? data.metrics.map((metric) => metric.key).filter((key) => key !== "cycles") : data.summary.metrics;
  const by = columns.includes(state.by) ? state.by : columns[0];
  const down = state.down === "1";
  const value = (id, key) => standing(id, key)?.ratio ?? null;
  const order = data.arms.filter((arm) => shown(arm.id)).sort((a, b) => {
    const difference = (value(a.id, by) ?? Infinity) - (value(b.id, by) ?? Infinity);
    return down ? -difference : difference;
  });
  const head = el("tr", {}, el("th", {}, "ratio to the best"));
  for (const key of columns) {
    const button = el("button", { type: "button" }, data.metrics.find((metric) => metric.key === key).name);
    button.addEventListener("click", () => {
      state.down = by === key && !down ? "1" : "";
      choose("by", key);
    });
    const sorted = key === by ? { "aria-sort": down ? "descending" : "ascending" } : {};
    head.append(el("th", sorted, button));
  }
  const body = order.map((arm) => {
    const name = el("td", {}, el("span", { class: "dot", style: `--own:var(--c${colours.get(arm.id)})` }), arm.name);
    const cells = columns.map((key) => {
      const own = standing(arm.id, key);
      return el("td", own?.is_best ? { class: "best" } : {}, own ? `${isTie(own) ? "~" : ""}${ratioText(own.ratio)}` : "–");
    });
    return el("tr", arm.subject ? { class: "subject" } : {}, name, ...cells);
  });
  const noise = columns.map((key) => {
    const own = single ? data.workloads[0].rows.find((row) => row.metric === key)?.noise : data.summary.noise[columns.indexOf(key)];
    return el("td", {}, own == null ? "–" : own > 1 ? "±>100%" : `±${(own * 100).toFixed(1)}%`);
  });
  body.push(el("tr", { class: "quiet" }, el("td", {}, single ? "noise" : "noise of one row"), ...noise));
  if (!single && data.summary.null) {
    const [copies, own] = data.summary.null;
    const system = data.arms.find((arm) => arm.system)?.name;
    const cells = own.map((ratio) => el("td", {}, ratio === null ? "–" : ratioText(ratio)));
    body.push(el("tr", { class: "quiet" }, el("td", {}, `null: best of ${copies} × ${system}`), ...cells));
  }
  $("table-title").textContent = single ? "All figures" : "Against the virtual best";
  const mean = single ? "" : " That of a mean is the noise of one row divided by the root of the number of rows.";
  $("table-note").textContent = `Ratio to the best; less is better. ~ and green: cannot be told apart from the best, within the noise.${mean}`;
  $("summary").replaceChildren(el("table", {}, el("thead", {}, head), el("tbody", {}, ...body)));
}

const barHint = (arm, bar, unit) =>
  `${arm.name} ${arm.version}\n${unit}: ${bar.shown}\n95 % interval: ${(bar.low / bar.value * 100 - 100).toFixed(1)} to +${(bar.high / bar.value * 100 - 100).toFixed(1)} %`;

function bars(workload, metric) {
  const row = workload.rows.find((one) => one.metric === metric.key);
  const list = (row?.bars ?? []).filter((bar) => shown(bar.arm)).sort((a, b) => a.value - b.value);
  if (!list.length) return el("p", { class: "mute" }, `No figures of ${metric.name}.`);
  return barChart(list.map((bar) => {
    const arm = armOf.get(bar.arm);
    return { ...bar, name: arm.name, colour: colours.get(bar.arm), strong: arm.subject, hint: barHint(arm, bar, metric.name) };
  }));
}

function lines(list, points, text) {
  return list.filter((one) => shown(one.arm)).map((one) => {
    const arm = armOf.get(one.arm);
    return { points: points(one), colour: colours.get(one.arm), strong: arm.subject, hint: `${arm.name}\n${text(one)}` };
  }).filter((line) => line.points.length > 1).sort((a, b) => Number(a.strong) - Number(b.strong));
}

function memoryChart(workload) {
  const peak = (one) => `peak ${kibibytes(Math.max(...one.points.map((point) => point[1])))}`;
  const drawn = lines(workload.curves, (one) => one.points, peak);
  const seconds = (value) => (value < 1 && value > 0 ? `${trim(value * 1e3, 3)} ms` : `${trim(value, 3)} s`);
  return drawn.length ? lineChart(drawn, { xText: seconds, memory: true }) : null;
}

function latencyChart(workload) {
  // A quantile q stands at 1 / (1 - q): each step to the right is ten times rarer.
  const rarity = (quantile) => 1 / (1 - quantile);
  const points = (one) => one.quantiles.filter(([quantile]) => quantile < 1).map(([quantile, ns]) => [rarity(quantile), Math.max(ns, 1)]);
  const text = (one) => one.quantiles.map(([quantile, ns]) => `${trim(quantile * 100, 7)} %: ${nanoseconds(ns)}`).join("\n");
  const drawn = lines(workload.latencies, points, text);
  const xTicks = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999].map((quantile) => [rarity(quantile), `${trim(quantile * 100, 7)} %`]);
  return drawn.length ? lineChart(drawn, { logX: true, logY: true, xTicks, yText: nanoseconds, dots: true }) : null;
}

function card(workload, metric) {
  const article = el("article", { class: "card", "data-name": workload.name });
  if (!single) article.append(el("h3", {}, workload.name), el("p", { class: "about" }, workload.about));
  for (const one of single ? data.metrics : [metric]) {
    article.append(el("h4", {}, one.title), bars(workload, one));
  }
  const [memory, latency] = [memoryChart(workload), latencyChart(workload)];
  const extra = [];
  if (memory) extra.push(el("h4", {}, "Resident memory over time"), memory);
  if (latency) extra.push(el("h4", {}, "Latency of one operation, by percentile"), latency);
  article.append(...extra);
  for (const [arm, text] of workload.failures) {
    article.append(el("p", { class: "failure" }, `${armOf.get(arm).name}: ${text}`));
  }
  if (workload.varies) article.append(el("p", { class: "mute" }, "Its output differs every time, so it was not compared."));
  return article;
}

/** A single program fills the width: one card for each figure and curve. */
function singleCards() {
  const workload = data.workloads[0];
  const cards = data.metrics.map((metric) => el("article", { class: "card" }, el("h3", {}, metric.title), bars(workload, metric)));
  const [memory, latency] = [memoryChart(workload), latencyChart(workload)];
  if (memory) cards.push(el("article", { class: "card" }, el("h3", {}, "Resident memory over time"), memory));
  if (latency) cards.push(el("article", { class: "card" }, el("h3", {}, "Latency of one operation"), latency));
  for (const [arm, text] of workload.failures) {
    cards.push(el("article", { class: "card" }, el("h3", {}, "Out of the race"), el("p", { class: "failure" }, `${armOf.get(arm).name}: ${text}`)));
  }
  return cards;
}

const orders = {
  given: ["as measured", () => 0],
  name: ["by name", (a, b) => a.name.localeCompare(b.name)],
  worst: ["where the first loses most", (a, b) => lost(b) - lost(a)],
  best: ["where the first wins most", (a, b) => lost(a) - lost(b)],
};

/** The subject's figure against the best of the others, in the chosen metric. */
function lost(workload) {
  const row = workload.rows.find((one) => one.metric === chosenMetric().key);
  const own = row?.bars.find((bar) => armOf.get(bar.arm).subject)?.value ?? 0;
  const others = row?.bars.filter((bar) => !armOf.get(bar.arm).subject).map((bar) => bar.value) ?? [];
  return own / Math.min(...others, Infinity) || 0;
}

/** What stands in a race that ended before its first round: there are curves, and nothing else. */
const nothing = { key: "", name: "anything", title: "Nothing was timed" };

const chosenMetric = () => data.metrics.find((metric) => metric.key === state.metric) ?? data.metrics[0] ?? nothing;

const has = (workload, metric) => workload.rows.some((row) => row.metric === metric.key);

/** The chosen figure, or what a workload without it is about: the memory that is kept, or the most that was. */
const metricFor = (workload) => [chosenMetric(), ...["settled", "peak"].map((key) => data.metrics.find((metric) => metric.key === key))]
  .find((metric) => metric && has(workload, metric)) ?? chosenMetric();

function drawMap(all) {
  const list = all.filter((workload) => has(workload, chosenMetric()) || workload.failures.length);
  const arms = data.arms.filter((arm) => shown(arm.id));
  const pick = (name) => { $("filter").value = name; choose("filter", name); };
  // Two tables beside each other, unless there is little to show.
  const half = list.length > 12 ? Math.ceil(list.length / 2) : list.length;
  const parts = [list.slice(0, half), list.slice(half)].filter((part) => part.length);
  $("map-panel").hidden = list.length < 2;
  $("map-note").textContent = `${chosenMetric().title}: ratio to the best of the row. Green: best, or cannot be told apart from it. Click a name for its charts.`;
  $("map").replaceChildren(...parts.map((part) => mapTable(part, chosenMetric(), arms, pick)));
}

function drawCards() {
  $("map-panel").hidden = true;
  if (single) return void $("cards").replaceChildren(...singleCards());
  const words = (state.filter ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (one) => words.every((word) => `${one.name} ${one.about}`.toLowerCase().includes(word));
  const list = data.workloads.filter(matches).sort((orders[state.sort] ?? orders.given)[1]);
  drawMap(list);
  $("cards").replaceChildren(...list.map((workload) => card(workload, metricFor(workload))));
  $("none").hidden = list.length > 0;
}

/** What the model says of two cores, beside what this machine does. */
function checkCard() {
  const head = ["workload", "allocator", "model", "measured", ""].map((name) => el("th", {}, name));
  const rows = data.scale_check.map((row) => {
    const measured = `${row.measured.toFixed(2)} (${row.low.toFixed(2)} to ${row.high.toFixed(2)})`;
    const verdict = el("td", row.verdict === "holds" ? { class: "best" } : {}, row.verdict);
    return el("tr", {}, ...[row.workload, row.allocator, row.model.toFixed(2), measured].map((text) => el("td", {}, text)), verdict);
  });
  return el("article", { class: "card wide" }, el("h3", {}, "From one core to two"), el("p", { class: "about" }, "How many times as fast two cores are, simulated and on this machine"),
    el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows))));
}

function drawScale() {
  $("scale").hidden = data.scale.length === 0;
  const traces = [...new Set(data.scale.map((curve) => curve.workload))];
  const kinds = [["speedup", "Throughput, as a multiple of one core's", true], ["transfers", "Cache lines moved between cores, per operation", false],
    ["hand_overs", "Locks handed over to another core, per operation", false]];
  const charts = traces.flatMap((trace) => kinds.map(([key, title, log], kind) => {
    const curves = data.scale.filter((curve) => curve.workload === trace);
    // Who frees what does not depend on the allocator.
    const remote = `; ${(curves[0].points.at(-1).remote_frees * 100).toFixed(0)} % of the calls free what another core allocated`;
    const drawn = curves.map((curve, place) => ({
      points: curve.points.map((point) => [point.cores, point[key]]), colour: place, strong: place === 0,
      hint: curve.points.map((point) => `${point.cores} cores: ${trim(point[key], 3)}`).join("\n"),
    })).reverse();
    const cores = curves[0].points.map((point) => [point.cores, String(point.cores)]);
    const names = curves.map((curve, place) => el("span", { class: "chip", style: `--own:var(--c${place})` }, el("i"), curve.design));
    return el("article", { class: "card" }, el("h3", {}, trace), el("p", { class: "about" }, kind ? title : title + remote),
      lineChart(drawn, { logX: true, logY: log, xTicks: cores, yText: (value) => trim(value, 3), dots: true, height: 200 }), ...names);
  }));
  if (data.scale_check.length) charts.push(checkCard());
  $("scale-charts").replaceChildren(...charts);
}

/** Marks on which sides there is more to scroll to. */
function edges() {
  for (const box of document.querySelectorAll(".scroll")) {
    const rest = box.scrollWidth - box.clientWidth - box.scrollLeft;
    const more = [box.scrollLeft > 1 && "left", rest > 1 && "right"].filter(Boolean).join(" ");
    if (more) box.dataset.more = more;
    else delete box.dataset.more;
  }
}

function draw() {
  theme();
  drawLegend();
  drawScatter();
  drawSummary();
  drawCards();
  drawScale();
  edges();
}

function setUp() {
  document.title = `masu bench: ${data.title}`;
  $("title").textContent = data.title;
  const said = data.sentence ?? data.headline;
  $("sentence").hidden = !said;
  $("sentence").textContent = said;
  $("partial").hidden = !data.partial;
  $("partial").textContent = data.partial ?? "";
  $("scale-note").replaceChildren(...data.scale_note.map((line) => el("p", { class: "note" }, line)));
  $("details-title").textContent = single ? "The program under each allocator" : "Workload by workload";
  $("about").replaceChildren(...data.header.map((line) => el("p", {}, line)));
  $("metric").append(...data.metrics.map((metric) => el("option", { value: metric.key }, metric.title)));
  $("sort").append(...Object.entries(orders).map(([key, [text]]) => el("option", { value: key }, text)));
  $("metric").value = chosenMetric()?.key ?? "";
  $("sort").value = state.sort in orders ? state.sort : "given";
  $("filter").value = state.filter ?? "";
  for (const label of ["metric", "sort", "filter"]) $(label).parentElement.hidden = single;
  $("metric").addEventListener("change", (event) => choose("metric", event.target.value));
  $("sort").addEventListener("change", (event) => choose("sort", event.target.value));
  $("filter").addEventListener("input", (event) => choose("filter", event.target.value));
  $("theme").addEventListener("click", () => choose("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", theme);
  addEventListener("resize", () => { drawScatter(); edges(); });
  // Scrolling does not bubble; it is seen on its way down.
  addEventListener("scroll", edges, { capture: true, passive: true });
  draw();
  document.body.dataset.ready = "1";
}

setUp();
