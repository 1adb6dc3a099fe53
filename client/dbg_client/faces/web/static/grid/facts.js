/** What is told of one rank, below the grid and beside the mouse. */
import { h, swatch } from "../job/dom.js";
import { conditionOf, duration } from "../job/ranks.js";
import { lookOfCondition } from "./marks.js";

/** @param {import("../job/ranks.js").Row} row @param {number} now seconds since 1970 @returns {Node[]} */
export function factsOf(row, now) {
  const condition = conditionOf(row);
  const facts = [
    row.since ? `${condition} for ${duration(now - row.since)}` : condition,
    row.where ? `${row.where.function} ${row.where.file}:${row.where.line}` : "",
    Object.entries(row.coordinates ?? {}).map(([axis, place]) => `${axis} ${place}`).join(" "),
    row.driver ? `${row.driver} drives` : "",
    row.detail,
    row.queued ? `${row.queued} queued` : "",
  ];
  const texts = facts.filter(Boolean).map((text) => h("span", {}, text));
  return [swatch(lookOfCondition(condition)), h("b", {}, row.address), ...texts];
}
