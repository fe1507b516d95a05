// The map: every workload against every allocator at a glance, each cell a ratio to the row's best.

/** How strongly a loss is coloured: nothing at the best, most at four times as much, and never so
 * strongly that its figure is hard to read. */
const heat = (ratio) => Math.round(Math.min(1, Math.log(ratio) / Math.log(4)) * 62);

/** One cell; `bar` is the figure of the allocator in this row, if it has one. */
function mapCell(bar, failed, text) {
  if (failed) return el("td", { class: "cell out", title: text }, "✗");
  if (!bar || bar.ratio === null) return el("td", { class: "cell" });
  const kind = bar.is_best ? "cell good" : "cell";
  const cell = el("td", { class: kind }, ratioText(bar.ratio));
  if (!bar.is_best) cell.style.background = `color-mix(in srgb, var(--bad) ${heat(bar.ratio)}%, transparent)`;
  hint(cell, text);
  return cell;
}

/** `workloads` in `metric`, a column for each of `arms`; `pick` is called with a name that is clicked. */
function mapTable(workloads, metric, arms, pick) {
  const head = el("tr", {}, el("th", {}), ...arms.map((arm) => el("th", arm.subject ? { class: "own" } : {}, el("span", {}, arm.name))));
  const rows = workloads.map((workload) => {
    const row = workload.rows.find((one) => one.metric === metric.key);
    const name = el("button", { type: "button", title: workload.about }, workload.name);
    name.addEventListener("click", () => pick(workload.name));
    const cells = arms.map((arm) => {
      const bar = row?.bars.find((one) => one.arm === arm.id);
      const failure = workload.failures.find(([id]) => id === arm.id);
      return mapCell(bar, Boolean(failure), `${workload.name}, ${arm.name}\n${failure?.[1] ?? bar?.shown ?? ""}`);
    });
    return el("tr", {}, el("td", {}, name), ...cells);
  });
  return el("table", { class: "map" }, el("thead", {}, head), el("tbody", {}, ...rows));
}
