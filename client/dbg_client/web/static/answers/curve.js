/**
 * Chart of a value over the steps of a training: the median of the ranks as a line, their range as a band.
 *
 * @typedef {[step: number, low: number, middle: number, high: number]} Point
 */
import { h, svg } from "../job/dom.js";

const WIDTH = 600, HEIGHT = 130, EDGE = 16;

/** Draw a chart; `wrong` is the step of the first wrong number, 0 for none.
 * @param {string} title @param {Point[]} points @param {number} wrong */
export function curveView(title, points, wrong) {
  const first = points[0][0], last = Math.max(points[points.length - 1][0], wrong);
  const most = Math.max(...points.map((point) => point[3])) || 1;
  /** @param {number} step */
  const x = (step) => EDGE + ((step - first) / (last - first || 1)) * (WIDTH - 2 * EDGE);
  /** @param {number} value */
  const y = (value) => HEIGHT - EDGE - (value / most) * (HEIGHT - 2 * EDGE);
  /** @param {Point[]} line @param {1 | 2 | 3} value */
  const path = (line, value) => line.map((point) => `${x(point[0]).toFixed(1)},${y(point[value]).toFixed(1)}`);
  const band = [...path(points, 3), ...path(points.toReversed(), 1)].join(" ");
  const chart = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "curve", role: "img", "aria-label": title },
    svg("polygon", { points: band, class: "band" }),
    svg("polyline", { points: path(points, 2).join(" "), class: "middle" }),
    svg("text", { x: EDGE, y: 11 }, most.toPrecision(3)),
    svg("text", { x: EDGE, y: HEIGHT - 3 }, `step ${first}`),
    svg("text", { x: WIDTH - EDGE, y: HEIGHT - 3, "text-anchor": "end" }, String(last)),
    wrong > 0 && svg("line", { x1: x(wrong), x2: x(wrong), y1: EDGE, y2: HEIGHT - EDGE, class: "wrong" }));
  return h("figure", { class: "chart" }, h("figcaption", {}, title), chart);
}
