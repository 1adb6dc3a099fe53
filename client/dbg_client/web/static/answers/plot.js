/** A value over steps as a small plot: the median, the spread of the ranks behind it, and the odd ones by name. */
import { button, h, svg } from "../job/dom.js";

/** @typedef {import("./series.js").Series} Series */

const WIDTH = 640;
const HEIGHT = 150;
const LEFT = 58;
const COLOURS = ["group-2", "group-3", "group-4", "group-5", "group-6"];

/** @param {Series} series @param {import("./groups.js").On} on */
export function plotView(series, on) {
  const { points, range } = series;
  const x = (/** @type {number} */ number) => LEFT + (number / Math.max(1, points.length - 1)) * (WIDTH - LEFT - 8);
  const y = (/** @type {number} */ value) => 6 + (1 - (value - range.low) / (range.high - range.low)) * (HEIGHT - 12);
  const finite = points.map((point, number) => ({ ...point, number })).filter((point) => Number.isFinite(point.median));
  const band = [
    ...finite.map((point) => `${x(point.number)},${y(point.high)}`),
    ...finite.toReversed().map((point) => `${x(point.number)},${y(point.low)}`),
  ];
  const odd = [...series.odd].slice(0, COLOURS.length);
  const lines = odd.flatMap(([, values], number) => marksOf(values, COLOURS[number], x, y, range.high));
  const middle = finite.map((point) => `${x(point.number)},${y(point.median)}`);
  const rules = [range.high, (range.low + range.high) / 2, range.low].map((value, number) => svg("g", {},
    svg("line", { x1: LEFT, x2: WIDTH - 8, y1: y(value), y2: y(value), class: "rule" }),
    svg("text", { x: LEFT - 6, y: y(value) + (number ? 4 : 9), "text-anchor": "end" }, short(value))));
  const picture = svg("svg",
    { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": told(series) },
    ...rules, svg("polygon", { points: band.join(" "), class: "band" }),
    svg("polyline", { points: middle.join(" "), class: "median" }), ...lines);
  const names = odd.map(([key, values], number) => {
    const value = values.findLast((one) => one !== undefined);
    const name = button({ class: "name", onclick: () => on.choose([key]) },
      `${on.name([key])}: ${short(value ?? NaN)}`);
    name.style.borderColor = `var(--${COLOURS[number]})`;
    return name;
  });
  return h("figure", { class: "series" }, picture, h("figcaption", {}, told(series), ...names));
}

/** Draw an odd rank where it was odd; what is not finite lies at the upper edge.
 * @param {(number | undefined)[]} values @param {string} colour @param {(number: number) => number} x
 * @param {(value: number) => number} y @param {number} top */
function marksOf(values, colour, x, y, top) {
  return values.flatMap((value, number) => {
    if (value === undefined) return [];
    const isFinite = Number.isFinite(value);
    const height = y(isFinite ? value : top);
    const mark = isFinite ? svg("circle", { cx: x(number), cy: height, r: 2.6 })
      : svg("path", { d: `M${x(number) - 3} ${height}l6 6m0-6l-6 6`, class: "infinite" });
    mark.style[isFinite ? "fill" : "stroke"] = `var(--${colour})`;
    return [mark];
  });
}

/** @param {Series} series */
function told(series) {
  const last = series.points.at(-1);
  if (!last) return "";
  return `median ${short(last.median)}, from ${short(last.low)} to ${short(last.high)} on ${last.count} ranks; ` +
    `${series.points.length} answers`;
}

/** @param {number} value */
function short(value) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  return String(Number(value.toPrecision(5)));
}
