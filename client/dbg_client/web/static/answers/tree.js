/**
 * Stacks of many ranks as one prefix tree, and the tree as a flame graph whose width is ranks.
 *
 * @typedef {import("../job/ranks.js").Place} Place
 * @typedef {{id: string, kind: string, count: number, ranks: string, text?: string, age?: number | null,
 *   thread?: string, frames?: Place[]}} StackGroup
 * @typedef {{place: Place | null, isLibrary: boolean, label: string, count: number, groups: StackGroup[],
 *   children: Node[]}} Node
 */
import { baseName } from "../job/ranks.js";

const LIBRARIES = ["/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3", "<frozen "];

/** @param {Place} place */
export function isLibrary(place) {
  return LIBRARIES.some((part) => place.file.includes(part));
}

/** @param {Place} place */
function labelOf(place) {
  return `${place.function} ${baseName(place.file)}:${place.line}`;
}

/**
 * Merge stacks from their outer ends on; children are ordered by how many ranks are there.
 *
 * @param {StackGroup[]} groups
 * @returns {Node}
 */
export function mergeStacks(groups) {
  const root = node("", null);
  for (const group of groups) {
    if (!group.frames?.length) continue;
    let here = root;
    add(root, group);
    for (const step of stepsOf(group.frames)) {
      let below = here.children.find((child) => child.label === step.label && child.isLibrary === step.isLibrary);
      if (!below) {
        below = step;
        here.children.push(below);
      }
      add(below, group);
      here = below;
    }
  }
  arrange(root);
  return root;
}

/** @param {string} label @param {Place | null} place @returns {Node} */
function node(label, place) {
  return { place, isLibrary: place !== null && isLibrary(place), label, count: 0, groups: [], children: [] };
}

/** @param {Node} to @param {StackGroup} group */
function add(to, group) {
  to.count += group.count;
  to.groups.push(group);
}

/** Return the frames of a stack; those of libraries in a row are one, from the first to the last.
 * @param {Place[]} frames @returns {Node[]} */
function stepsOf(frames) {
  /** @type {Node[]} */
  const steps = [];
  frames.forEach((place, number) => {
    const before = steps.at(-1);
    // The innermost frame always has its own line: it is where the rank is.
    const folds = isLibrary(place) && number < frames.length - 1;
    if (folds && before?.isLibrary) before.label = `${before.label.split(" … ")[0]} … ${labelOf(place)}`;
    else steps.push(node(labelOf(place), place));
  });
  return steps;
}

/** @param {Node} root */
function arrange(root) {
  root.children.sort((a, b) => b.count - a.count || (a.label < b.label ? -1 : 1));
  for (const child of root.children) arrange(child);
}

/**
 * Return the lines of a tree: frames that do not branch share one, and each has what branches off below it.
 *
 * @typedef {{steps: Node[], count: number, groups: StackGroup[], isOdd: boolean, children: Line[]}} Line
 * @param {Node} root
 * @returns {Line[]}
 */
export function linesOf(root) {
  return root.children.map((child) => {
    const steps = [child];
    let last = child;
    while (last.children.length === 1 && last.children[0].count === last.count) {
      last = last.children[0];
      steps.push(last);
    }
    const isOdd = child.count * 10 <= root.count || (child.count * 3 <= root.count && child !== root.children[0]);
    return { steps, count: last.count, groups: last.groups, isOdd, children: linesOf(last) };
  });
}

/**
 * Return the boxes of a flame graph; x and width are parts of the root's width.
 *
 * @param {Node} root
 * @returns {{node: Node, x: number, width: number, depth: number}[]}
 */
export function flameOf(root) {
  /** @type {{node: Node, x: number, width: number, depth: number}[]} */
  const boxes = [];
  /** @param {Node} parent @param {number} from @param {number} depth */
  const walk = (parent, from, depth) => {
    let x = from;
    for (const child of parent.children) {
      const width = child.count / root.count;
      boxes.push({ node: child, x, width, depth });
      walk(child, x, depth + 1);
      x += width;
    }
  };
  walk(root, 0, 0);
  return boxes;
}
