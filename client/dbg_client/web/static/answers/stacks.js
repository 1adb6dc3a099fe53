/**
 * Stacks of an answer, drawn: a tree that folds, or a flame graph whose width is ranks.
 *
 * @typedef {import("../job/history.js").Entry} Entry
 * @typedef {import("./tree.js").StackGroup} StackGroup
 * @typedef {import("./groups.js").On} On
 */
import { button, h, swatch } from "../job/dom.js";
import { looksOfGroups } from "../grid/marks.js";
import { flameOf, linesOf, mergeStacks } from "./tree.js";

const OPEN_DEPTH = 12;

/** @param {Entry} entry */
function stacksOf(entry) {
  return mergeStacks(/** @type {StackGroup[]} */ (entry.groups));
}

/** @param {Entry} entry @param {StackGroup[]} groups */
function keysOf(entry, groups) {
  return groups.flatMap((group) => entry.keysOf(group));
}

/** @param {Entry} entry @param {On} on */
export function treeView(entry, on) {
  const looks = looksOfGroups(entry.groups);
  /** @param {import("./tree.js").Line} line @param {number} depth @returns {Node} */
  const drawn = (line, depth) => {
    const keys = keysOf(entry, line.groups);
    const look = line.groups.length === 1 ? looks.get(line.groups[0].id) : undefined;
    const steps = line.steps.flatMap((step, number) => [
      number ? h("span", { class: "then", "aria-hidden": "true" }, " › ") : "",
      h("span", { class: step.isLibrary ? "step library" : "step", title: step.place?.file }, step.label),
    ]);
    const choose = (/** @type {Event} */ event) => {
      // It stands in a summary, which would fold.
      event.preventDefault();
      on.choose(keys);
    };
    const label = h("span", { class: line.isOdd ? "stack odd" : "stack" },
      button({ class: "count", title: `Select ${on.name(keys)}`, onclick: choose },
        look ? swatch(look) : "", String(line.count)), ...steps);
    if (!line.children.length) return h("li", {}, h("div", { class: "leaf" }, label));
    return h("li", {}, h("details", { open: depth < OPEN_DEPTH },
      h("summary", {}, label), h("ul", {}, ...line.children.map((child) => drawn(child, depth + 1)))));
  };
  return h("ul", { class: "tree" }, ...linesOf(stacksOf(entry)).map((line) => drawn(line, 0)));
}

/** @param {Entry} entry @param {On} on */
export function flameView(entry, on) {
  const root = stacksOf(entry);
  const boxes = flameOf(root);
  const looks = looksOfGroups(entry.groups);
  const depth = Math.max(0, ...boxes.map((box) => box.depth)) + 1;
  const frame = h("div", { class: "flame", role: "group", "aria-label": "Flame graph: width is ranks" });
  frame.style.height = `${depth * 23}px`;
  for (const { node, x, width, depth: level } of boxes) {
    const keys = keysOf(entry, node.groups);
    const box = button({
      class: node.isLibrary ? "box library" : "box",
      title: `${node.label}\n${node.place?.file ?? ""}\n${node.count} of ${root.count} ranks: ${on.name(keys)}`,
      onclick: () => on.choose(keys),
    }, node.label);
    const look = node.groups.length === 1 && !node.children.length ? looks.get(node.groups[0].id) : undefined;
    if (look) box.style.borderBottomColor = `var(--${look.colour})`;
    Object.assign(box.style, { left: `${x * 100}%`, width: `calc(${width * 100}% - 1px)`, top: `${level * 23}px` });
    frame.append(box);
  }
  return frame;
}
