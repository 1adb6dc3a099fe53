/** How many ranks are in which state: the legend of the grid, and a way to select them. */
import { button, h, swatch } from "../job/dom.js";
import { conditionOf } from "../job/ranks.js";
import { briefOf } from "../job/history.js";
import { lookOfCondition, looksOfGroups, MISSING } from "./marks.js";

/**
 * @param {import("../job/ranks.js").Ranks} ranks
 * @param {Set<string>} awaited the keys of ranks for which others wait
 * @param {{ranks: string, text: string}[]} absent ranks that are expected and not there
 * @param {(keys: string[]) => void} select
 * @returns {Node[]}
 */
export function countsView(ranks, awaited, absent, select) {
  const shown = [...ranks.counts()].map(([condition, count]) => {
    const choose = () => select(ranks.rows.filter((row) => conditionOf(row) === condition).map((row) => row.key));
    return counted(lookOfCondition(condition), count, condition, choose);
  });
  if (awaited.size) shown.push(counted(MISSING, awaited.size, "awaited", () => select([...awaited])));
  return [...shown, ...absent.map((one) => h("li", { class: "never" }, `${one.ranks}: ${one.text}`))];
}

/** @param {import("./marks.js").Look} look @param {number} count @param {string} name @param {() => void} choose */
function counted(look, count, name, choose) {
  return h("li", {}, button({ title: `Select those ${name}`, onclick: choose },
    swatch(look), h("b", {}, String(count)), ` ${name}`));
}

const MAX_LEGEND = 12;

/** Return what the colours and marks of an answer's groups mean. @param {import("../job/history.js").Group[]} groups */
export function legendOf(groups) {
  const looks = looksOfGroups(groups);
  const shown = groups.slice(0, MAX_LEGEND).map((group) => {
    const look = looks.get(group.id);
    return h("span", {}, look ? swatch(look) : "", `${group.id} ${briefOf(group)}`);
  });
  const rest = groups.length - shown.length;
  return rest > 0 ? [...shown, h("span", {}, `and ${rest} more`)] : shown;
}
