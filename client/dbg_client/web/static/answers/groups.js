/**
 * An answer beside the grid: its groups, its stacks as a tree or a flame graph, its value over steps, or as text.
 *
 * @typedef {import("../job/history.js").Entry} Entry
 * @typedef {import("../job/history.js").Group} Group
 * @typedef {{choose: (keys: string[]) => void, name: (keys: string[]) => string}} On `choose` selects ranks
 */
import { button, h, swatch, timeOfDay } from "../job/dom.js";
import { compare, textOf } from "../job/history.js";
import { duration } from "../job/ranks.js";
import { several } from "../job/sets.js";
import { looksOfGroups } from "../grid/marks.js";
import { flameView, treeView } from "./stacks.js";
import { plotView } from "./plot.js";
import { verdictView } from "./verdict.js";

/**
 * Draw an answer.
 *
 * @param {Entry} entry @param {Entry | null} earlier the answer to compare it with
 * @param {"tree" | "flame" | "groups"} as how stacks are shown @param {On} on
 * @returns {Node[]}
 */
export function answerView(entry, earlier, as, on) {
  const { answer } = entry;
  if (!answer) return [];
  const document = answer.document ?? {};
  const head = h("p", { class: "sum" }, summaryOf(entry));
  if (earlier?.answer && entry.groups.length) return [head, compareView(earlier, entry, on)];
  const plot = entry.question.every && entry.series.points.length > 1 ? plotView(entry.series, on) : null;
  if (document.verdicts) {
    return [head, ...document.verdicts.map((/** @type {any} */ one) => verdictView(one)), ...missingView(document)];
  }
  if (entry.groups.some((group) => group.frames)) {
    const stacks = as === "tree" ? treeView(entry, on) : as === "flame" ? flameView(entry, on) : null;
    // Below a flame graph all groups are named: the boxes of few ranks are too narrow for words.
    const rest = as === "tree" ? entry.groups.filter((group) => !group.frames) : entry.groups;
    return [head, ...(stacks ? [stacks] : []), groupsView(entry, rest, on), ...missingView(document)];
  }
  if (entry.groups.length) {
    return [head, ...(plot ? [plot] : []), groupsView(entry, entry.groups, on), ...missingView(document)];
  }
  return [head, h("pre", { class: "text" }, answer.text || "Nothing was said.")];
}

/** @param {Entry} entry */
function summaryOf(entry) {
  const { answer, groups } = entry;
  if (!answer) return "";
  const { asked, answered } = answer.document ?? {};
  const said = typeof asked === "number" ? `${answered} of ${asked} ranks answered` : "";
  const distinct = groups.filter((group) => group.kind === "value").length;
  const values = distinct > 1 ? `${distinct} different values` : distinct === 1 && answered > 1 ? "all the same" : "";
  return [said, values, timeOfDay(answer.at)].filter(Boolean).join(" · ");
}

/** @param {Entry} entry @param {Group[]} groups @param {On} on */
function groupsView(entry, groups, on) {
  const looks = looksOfGroups(entry.groups);
  return h("ul", { class: "groups" }, ...groups.map((group) => {
    const keys = entry.keysOf(group);
    const age = /** @type {{age?: number | null}} */ (group).age;
    const look = looks.get(group.id);
    return h("li", { class: `group ${group.kind}` },
      button({ class: "who", title: "Select these ranks", onclick: () => on.choose(keys) },
        look ? swatch(look) : "", h("b", {}, group.id), h("span", {}, ` ${ranksText(group)}`)),
      h("span", { class: "ranksof" }, group.ranks),
      h("pre", { class: "value" }, textOf(group)),
      age ? h("span", { class: "muted" }, `for ${duration(age)}`) : "");
  }));
}

/** @param {Group} group */
function ranksText(group) {
  return group.count === 1 ? "1 rank" : `${group.count} ranks`;
}

/** @param {any} document */
function missingView(document) {
  const missing = Array.isArray(document.missing) ? document.missing : [];
  if (!missing.length) return [];
  const names = missing.map((/** @type {any} */ one) => `${several(one.ranks ?? "")} (${one.state ?? "missing"})`);
  return [h("p", { class: "muted" }, `Not among them: ${names.join("; ")}`)];
}

/** @param {Entry} before @param {Entry} after @param {On} on */
function compareView(before, after, on) {
  const moves = compare(before.parts, after.parts);
  const shown = (/** @type {string | null} */ text) => text === null
    ? h("i", { class: "muted" }, "not asked") : h("pre", { class: "value" }, text);
  return h("table", { class: "table compare" },
    h("caption", {}, `${before.title} at ${timeOfDay(before.answer?.at ?? 0)}, compared with this answer`),
    h("thead", {}, h("tr", {}, ...["Ranks", "Before", "Now"].map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, ...moves.map((move) => h("tr", { class: move.same ? "same" : "moved" },
      h("th", { scope: "row" }, button({ class: "name", onclick: () => on.choose(move.keys) },
        on.name(move.keys))),
      h("td", {}, shown(move.from)), h("td", {}, move.same ? "the same" : shown(move.to))))));
}
