"use strict";
// Charts as SVG. Each takes data and returns an element; colours come from the style sheet.

const SVG = "http://www.w3.org/2000/svg";

function el(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "line", "path", "rect", "circle", "text", "tspan", "title"].includes(name);
  const element = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const trim = (number, digits) => String(Number(number.toPrecision(digits)));

const ratioText = (ratio) => ratio.toFixed(ratio < 9.95 ? 2 : ratio < 99.5 ? 1 : 0);

function nanoseconds(value) {
  if (value < 1e3) return `${trim(value, 3)} ns`;
  if (value < 1e6) return `${trim(value / 1e3, 3)} µs`;
  if (value < 1e9) return `${trim(value / 1e6, 3)} ms`;
  return `${trim(value / 1e9, 3)} s`;
}

function kibibytes(value) {
  if (value < 1024) return `${trim(value, 3)} KiB`;
  if (value < 1024 * 1024) return `${trim(value / 1024, 3)} MiB`;
  return `${trim(value / 1024 / 1024, 3)} GiB`;
}

/** About `count` round numbers from 0 or `low` to `high`. */
function ticks(low, high, count) {
  const span = high - low || Math.abs(high) || 1;
  const power = 10 ** Math.floor(Math.log10(span / count));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => span / s <= count);
  const result = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) result.push(at);
  return result;
}

/** Round amounts of memory from 0 to `high`, all in KiB. */
function memoryTicks(high, count) {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log(high / 2) / Math.log(1024)));
  return ticks(0, high / unit, count).map((value) => [value * unit, value ? kibibytes(value * unit) : "0"]);
}

/** Round numbers for a logarithmic axis. */
function logTicks(low, high, count) {
  const all = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const digit of [1, 1.1, 1.2, 1.3, 1.5, 1.75, 2, 3, 5, 7]) all.push(digit * 10 ** power);
  }
  let inside = all.filter((at) => at >= low * 0.999 && at <= high * 1.001);
  const coarse = [[1, 1.2, 1.5, 2, 3, 5, 7], [1, 1.5, 2, 3, 5], [1, 2, 5], [1, 3], [1]];
  for (const digits of coarse) {
    if (inside.length <= count) break;
    inside = inside.filter((at) => {
      const digit = at / 10 ** Math.floor(Math.log10(at) + 1e-9);
      return digits.some((one) => Math.abs(one - digit) < 1e-6);
    });
  }
  while (inside.length > count) inside = inside.filter((_, place) => place % 2 === 0);
  return inside;
}

/** A drawing with axes. `x` and `y` map values to places; ticks are pairs of value and text. */
function frame(width, height, margin, x, y, xTicks, yTicks) {
  const svg = el("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  for (const [value, text] of yTicks) {
    svg.append(el("line", { class: "axis", x1: margin.left, x2: width - margin.right, y1: y(value), y2: y(value) }));
    svg.append(el("text", { x: margin.left - 8, y: y(value) + 4, "text-anchor": "end" }, text));
  }
  for (const [value, text] of xTicks) {
    svg.append(el("line", { class: "axis", x1: x(value), x2: x(value), y1: height - margin.bottom, y2: height - margin.bottom + 4 }));
    svg.append(el("text", { x: x(value), y: height - margin.bottom + 18, "text-anchor": "middle" }, text));
  }
  return svg;
}

const linear = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);
const logarithmic = (low, high, from, to) => linear(Math.log(low), Math.log(high), from, to);

/** What the best and this one tie in, as the text behind a name; nothing for the best itself. */
function tieText(point) {
  const ties = [point.tie.x && "time", point.tie.y && "memory"].filter(Boolean);
  return ties.length ? ` ~ ${ties.join(", ")}` : "";
}

/** Points of time and memory ratios; less of both, the lower left corner, is better. `room` is how
 * wide it will be, so that its letters are as large as all others on a narrow window too. A ring
 * instead of a dot, and `~` behind the name, mark what cannot be told apart from the best. */
function scatterChart(points, room) {
  const width = Math.max(320, Math.min(620, room || 620));
  const height = Math.round(width * 0.3 + 244);
  const margin = { left: 54, right: width < 500 ? 24 : 70, top: 30, bottom: 46 };
  const range = (key) => {
    const values = points.map((point) => point[key]);
    return [Math.min(0.95, ...values) / 1.04, Math.max(1.3, ...values) * 1.08];
  };
  const [[x0, x1], [y0, y1]] = [range("x"), range("y")];
  const mapX = logarithmic(x0, x1, margin.left, width - margin.right);
  const mapY = logarithmic(y0, y1, height - margin.bottom, margin.top);
  const x = (value) => mapX(Math.log(value));
  const y = (value) => mapY(Math.log(value));
  const marks = (low, high, count) => logTicks(low, high, count).map((value) => [value, trim(value, 3)]);
  const svg = frame(width, height, margin, x, y, marks(x0, x1, width < 500 ? 5 : 7), marks(y0, y1, 7));
  svg.append(el("line", { class: "guide", x1: x(1), x2: x(1), y1: margin.top, y2: height - margin.bottom }));
  svg.append(el("line", { class: "guide", x1: margin.left, x2: width - margin.right, y1: y(1), y2: y(1) }));
  svg.append(el("text", { x: width - margin.right, y: height - 8, "text-anchor": "end" }, "time →"));
  svg.append(el("text", { x: margin.left - 44, y: 12 }, "↑ memory"));
  const best = el("path", { class: "best-mark", d: `M${x(1)} ${y(1) - 8}l8 8l-8 8l-8 -8z` });
  hint(best, "the virtual best: for each workload the best of all");
  svg.append(best, el("text", { class: "halo", x: x(1) + 13, y: y(1) - 7 }, "virtual best"));
  // No label lies on a dot or on another label.
  const dots = points.map((point) => ({ x: x(point.x) - 9, width: 18, y: y(point.y) + 4 }));
  const taken = [{ x: x(1) - 9, width: 95, y: y(1) - 7 }, { x: x(1) - 9, width: 18, y: y(1) + 4 }, ...dots];
  const isFree = (label) => !taken.some((t) => label.x < t.x + t.width && t.x < label.x + label.width && Math.abs(label.y - t.y) < 14);
  for (const point of [...points].sort((a, b) => Number(b.strong) - Number(a.strong))) {
    const [cx, cy] = [x(point.x), y(point.y)];
    const tie = tieText(point);
    const paint = tie ? `fill:var(--panel);stroke:var(--c${point.colour});stroke-width:4` : `fill:var(--c${point.colour})`;
    const dot = el("circle", { cx, cy, r: (point.strong ? 10 : 7.5) - (tie ? 2 : 0), style: paint, "fill-opacity": 0.92, ...(tie ? { class: "tied" } : {}) });
    const figure = (ratio, tied) => `${tied ? "~" : ""}${ratioText(ratio)}`;
    hint(dot, `${point.name}\ntime ${figure(point.x, point.tie.x)}, memory ${figure(point.y, point.tie.y)}`);
    svg.append(dot);
    const room = (point.name.length + tie.length) * 7 + 4;
    // Beside its dot if there is room, else a little below or above.
    const places = [0, 14, -14, 28, -28, 42, -42].flatMap((down) => [["start", cx + 14], ["end", cx - 14 - room]]
      .map(([anchor, left]) => ({ anchor, x: left, y: cy + 4 + down, width: room })));
    const inside = (label) => label.x >= margin.left && label.x + room < width;
    const label = places.find((one) => inside(one) && isFree(one)) ?? places[0];
    taken.push(label);
    svg.append(el("text", {
      class: point.strong ? "strong halo" : "halo", x: label.anchor === "start" ? label.x : label.x + room, y: label.y,
      "text-anchor": label.anchor,
    }, point.name, ...(tie ? [el("tspan", { class: "tie" }, tie)] : [])));
  }
  // Who is there already needs no sign to the corner.
  const corner = { x: margin.left + 8, width: 130, y: height - margin.bottom - 10 };
  if (isFree(corner)) svg.append(el("text", { class: "halo", x: corner.x, y: corner.y }, "↙ faster and smaller"));
  return svg;
}

/** Horizontal bars with intervals. */
function barChart(bars) {
  const [width, row, left, right] = [400, 22, 92, 118];
  const height = bars.length * row + 4;
  const svg = el("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  // An interval of few rounds may be so wide that it would leave the bars no room.
  const most = Math.max(...bars.map((bar) => Math.min(bar.high, bar.value * 2)));
  const x = linear(0, most, left, width - right);
  const winners = bars.filter((bar) => bar.is_best).length;
  bars.forEach((bar, place) => {
    const y = place * row + 3;
    const middle = y + row / 2 - 2;
    const group = el("g");
    group.append(el("text", { x: left - 8, y: middle + 4, "text-anchor": "end", class: bar.strong ? "strong" : "" }, bar.name));
    group.append(el("rect", { x: left, y, width: Math.max(1.5, x(bar.value) - left), height: row - 7, rx: 3, style: `fill:var(--c${bar.colour})` }));
    if (bar.high > bar.low) {
      group.append(el("line", { class: "whisker", x1: x(bar.low), x2: x(Math.min(bar.high, most)), y1: middle, y2: middle }));
      for (const end of [bar.low, bar.high].filter((end) => end <= most)) {
        group.append(el("line", { class: "whisker", x1: x(end), x2: x(end), y1: middle - 3.5, y2: middle + 3.5 }));
      }
    }
    const ratio = bar.is_best ? (winners > 1 ? "tie" : "best") : bar.ratio === null ? "" : `×${ratioText(bar.ratio)}`;
    group.append(el("text", { x: width - 46, y: middle + 4, "text-anchor": "end" }, bar.shown));
    const mark = el("text", { x: width, y: middle + 4, "text-anchor": "end", class: bar.is_best ? "strong" : "" }, ratio);
    if (bar.is_best) mark.style.fill = "var(--good)";
    group.append(mark);
    hint(group, bar.hint);
    svg.append(group);
  });
  return svg;
}

/** Lines over a linear or logarithmic axis. */
function lineChart(lines, options) {
  const [width, height] = [400, options.height ?? 150];
  const margin = { left: 62, right: options.xTicks ? 22 : 12, top: 8, bottom: 26 };
  const all = lines.flatMap((line) => line.points);
  const xs = all.map((point) => point[0]);
  const ys = all.map((point) => point[1]);
  const bounds = (values, log) => [log ? Math.min(...values) : 0, Math.max(...values)];
  const [[x0, x1], [y0, y1]] = [bounds(xs, options.logX), bounds(ys, options.logY)];
  const scale = (log, low, high, from, to) => {
    const map = log ? logarithmic(low, high * (low === high ? 2 : 1), from, to) : linear(low, high, from, to);
    return log ? (value) => map(Math.log(value)) : map;
  };
  const x = scale(options.logX, x0, x1, margin.left, width - margin.right);
  const y = scale(options.logY, y0, y1, height - margin.bottom, margin.top);
  const marks = (log, low, high, count, text) => (log ? logTicks(low, high, count) : ticks(low, high, count)).map((value) => [value, text(value)]);
  const xTicks = options.xTicks ?? marks(options.logX, x0, x1, 5, options.xText);
  const yTicks = options.memory ? memoryTicks(y1, 4) : marks(options.logY, y0, y1, 4, options.yText);
  const svg = frame(width, height, margin, x, y, xTicks, yTicks);
  for (const line of lines) {
    const path = line.points.map((point, place) => `${place ? "L" : "M"}${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`).join("");
    const stroke = `stroke:var(--c${line.colour});stroke-width:${line.strong ? 2.6 : 1.6}`;
    const drawn = el("path", { d: path, fill: "none", style: stroke, "stroke-linejoin": "round" });
    hint(drawn, line.hint);
    svg.append(drawn);
    if (options.dots) for (const point of line.points) {
      svg.append(el("circle", { cx: x(point[0]), cy: y(point[1]), r: line.strong ? 3 : 2.2, style: `fill:var(--c${line.colour})` }));
    }
  }
  return svg;
}

/** Shows a text while the pointer is on an element. */
function hint(element, text) {
  const tip = document.getElementById("tip");
  element.addEventListener("pointermove", (event) => {
    tip.textContent = text;
    tip.hidden = false;
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
  });
  element.addEventListener("pointerleave", () => { tip.hidden = true; });
  element.append(el("title", {}, text));
}
