/** Texts around the grid: numbers of ranks by state, the meaning of colours, and facts of one rank. */
import { ageOf, button, h, swatch } from "../job/dom.js";
import { lookOfCondition, looksOfGroups, MISSING } from "./marks.js";

/**
 * @param {import("../job/ranks.js").Ranks} ranks
 * @param {ReadonlySet<string>} awaited the keys of ranks that others wait for
 * @param {string[]} absent lines about missing ranks
 * @param {(keys: string[]) => void} select
 * @returns {Node[]}
 */
export function countsView(ranks, awaited, absent, select) {
  const shown = [...ranks.counts()].map(([condition, count]) => {
    const choose = () => select(ranks.rows.filter((row) => row.state === condition).map((row) => row.key));
    return counted(lookOfCondition(condition), count, condition, choose);
  });
  if (awaited.size) shown.push(counted(MISSING, awaited.size, "awaited", () => select([...awaited])));
  return [...shown, ...absent.map((one) => h("li", { class: "never" }, one))];
}

/** @param {import("./marks.js").Look} look @param {number} count @param {string} name @param {() => void} choose */
function counted(look, count, name, choose) {
  return h("li", {}, button({ title: `Select ${name} ranks`, "data-key": name, onclick: choose },
    swatch(look), h("b", {}, String(count)), ` ${name}`));
}

const MAX_LEGEND = 12;

/** Return the legend of an answer's groups. @param {import("../job/history.js").Group[]} groups */
export function legendOf(groups) {
  const looks = looksOfGroups(groups);
  const shown = groups.slice(0, MAX_LEGEND).map((group) => {
    const look = looks.get(group.id);
    return h("span", {}, look ? swatch(look) : "", `${group.id} ${group.text.slice(0, 40)}`);
  });
  const rest = groups.length - shown.length;
  return rest > 0 ? [...shown, h("span", {}, `and ${rest} more`)] : shown;
}

/** Return the facts of one rank, shown below the grid and next to the mouse.
 * @param {import("../job/ranks.js").Row} row @param {string} name @param {number} now seconds since 1970
 * @returns {Node[]} */
export function factsOf(row, name, now) {
  const axes = Object.entries(row.coordinates).map(([axis, place]) => `${axis} ${place}`).join(" ");
  return [swatch(lookOfCondition(row.state)), h("b", {}, name),
    h("span", {}, row.state, ...(row.since ? [" for ", ageOf(row.since, now)] : [])),
    ...[row.place, axes, row.who, row.detail].filter(Boolean).map((text) => h("span", {}, text))];
}
