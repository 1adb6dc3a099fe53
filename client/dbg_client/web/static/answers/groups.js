/**
 * View of an answer next to the grid: a stack tree, groups, verdicts or text, all prepared by the server.
 *
 * @typedef {import("../job/history.js").Entry} Entry
 * @typedef {import("../job/history.js").Group} Group
 * @typedef {{choose: (keys: string[]) => void}} On `choose` selects ranks
 */
import { button, h, swatch, timeOfDay } from "../job/dom.js";
import { looksOfGroups } from "../grid/marks.js";
import { curveView } from "./curve.js";
import { verdictView } from "./verdict.js";

/** Draw an answer. @param {Entry} entry @param {On} on @returns {Node[]} */
export function answerView({ answer }, on) {
  if (!answer) return [];
  const { summary, at, tree, groups, verdicts, text, curve, wrong } = answer;
  const head = h("p", { class: "sum" }, [summary, timeOfDay(at)].filter(Boolean).join(" · "));
  if (verdicts.length) return [head, ...verdicts.map((one) => verdictView(one))];
  const chart = curve.length ? [curveView("norm of all gradients, per step", curve, wrong)] : [];
  if (!groups.length) return [head, ...chart, h("pre", { class: "text" }, text || "The answer is empty.")];
  const looks = looksOfGroups(groups);
  const inTree = new Set(tree.flatMap((line) => line.groups));
  const others = groups.filter((group) => !inTree.has(group.id));
  return [head, ...(tree.length ? [treeView(answer, looks, on)] : []),
    h("ul", { class: "groups" }, ...others.map((group) => groupView(group, looks.get(group.id), on)))];
}

/** @param {Group} group @param {import("../grid/marks.js").Look | undefined} look @param {On} on */
function groupView({ id, kind, keys, ranks, text }, look, on) {
  return h("li", { class: `group ${kind}` },
    button({ class: "who", title: "Select these ranks", onclick: () => on.choose(keys) },
      look ? swatch(look) : "", h("b", {}, id), ` ${keys.length} rank${keys.length === 1 ? "" : "s"}`),
    h("span", { class: "ranksof" }, ranks), h("pre", { class: "value" }, text));
}

/** @param {import("../job/history.js").Answer} answer @param {Map<string, import("../grid/marks.js").Look>} looks
 * @param {On} on */
function treeView({ tree, groups }, looks, on) {
  const keysOf = new Map(groups.map(({ id, keys }) => [id, keys]));
  return h("ul", { class: "tree" }, ...tree.map((line) => {
    const look = line.groups.length === 1 ? looks.get(line.groups[0]) : undefined;
    const choose = () => on.choose(line.groups.flatMap((id) => keysOf.get(id) ?? []));
    const row = h("li", { class: line.is_odd ? "odd" : null }, line.count ? button(
      { class: "count", title: "Select these ranks", onclick: choose }, look ? swatch(look) : "", String(line.count),
    ) : "", line.text);
    row.style.paddingLeft = `${line.depth * 21}px`;
    return row;
  }));
}
