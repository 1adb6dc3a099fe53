/**
 * Looks of ranks: a colour and a mark, so that unusual ranks are recognizable without colour as well.
 *
 * Colours are names of custom properties of page.css, chosen from the palette of Okabe and Ito; marks are paths in a
 * square of 12 by 12, drawn by both canvas and SVG.
 *
 * @typedef {{colour: string, mark: string, name: string}} Look
 * @typedef {import("../job/ranks.js").Condition} Condition
 */

/** Marks by name: the lines drawn on a cell. */
export const MARKS = /** @type {Record<string, string>} */ ({
  none: "",
  bars: "M4.2 2.5V9.5M7.8 2.5V9.5",
  cross: "M2.5 2.5L9.5 9.5M9.5 2.5L2.5 9.5",
  dash: "M2.5 6H9.5",
  wedge: "M6 2.4L9.8 9.2H2.2Z",
  slash: "M2.5 9.5L9.5 2.5",
  dot: "M6 5.2A.8 .8 0 1 1 6 6.8A.8 .8 0 1 1 6 5.2",
  plus: "M6 2.5V9.5M2.5 6H9.5",
  ring: "M6 2.6A3.4 3.4 0 1 1 6 9.4A3.4 3.4 0 1 1 6 2.6",
  post: "M6 2.5V9.5",
  square: "M3.2 3.2H8.8V8.8H3.2Z",
  notch: "M2.8 4.4L6 8.4L9.2 4.4",
});

/** @type {Record<Condition, Look>} */
const CONDITIONS = {
  running: { colour: "running", mark: "none", name: "running" },
  stopped: { colour: "stopped", mark: "bars", name: "stopped" },
  crashed: { colour: "crashed", mark: "cross", name: "crashed" },
  held: { colour: "held", mark: "dash", name: "held" },
  unresponsive: { colour: "unresponsive", mark: "wedge", name: "unresponsive" },
  lost: { colour: "lost", mark: "slash", name: "lost" },
  exited: { colour: "exited", mark: "none", name: "exited" },
};

/** A rank that others wait for in a collective; the verdict at the top of the page names it. @type {Look} */
export const MISSING = { colour: "missing", mark: "ring", name: "missing from a collective" };

/** Groups after the first: five colours, and seven marks that repeat with another period. */
const COLOURS = ["group-2", "group-3", "group-4", "group-5", "group-6"];
const SHAPES = ["dot", "plus", "ring", "post", "square", "notch", "dash"];

/** @type {Record<string, Look>} */
const KINDS = {
  error: { colour: "crashed", mark: "cross", name: "" },
  running: { colour: "running", mark: "none", name: "" },
  silent: { colour: "unresponsive", mark: "wedge", name: "" },
  lost: { colour: "lost", mark: "slash", name: "" },
};

/** @param {Condition} condition @returns {Look} */
export function lookOfCondition(condition) {
  return CONDITIONS[condition];
}

/**
 * Return the look of each group of an answer: the largest is plain, because users look for the others.
 *
 * @param {{id: string, kind: string}[]} groups in the order of the answer, largest first
 * @returns {Map<string, Look>}
 */
export function looksOfGroups(groups) {
  let number = 0;
  return new Map(groups.map(({ id, kind }) => {
    const fixed = KINDS[kind];
    if (fixed) return [id, { ...fixed, name: id }];
    const odd = number++;
    if (!odd) return [id, { colour: "group-1", mark: "none", name: id }];
    return [id, { colour: COLOURS[(odd - 1) % COLOURS.length], mark: SHAPES[(odd - 1) % SHAPES.length], name: id }];
  }));
}
