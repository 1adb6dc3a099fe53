import assert from "node:assert/strict";
import { test } from "node:test";

import { flameOf, isLibrary, linesOf, mergeStacks } from "../../../../../client/dbg_client/web/static/answers/tree.js";

/** @param {string} functions @param {number} count */
function group(functions, count) {
  const frames = functions.split(" ").map((one, number) => ({
    file: one.startsWith("lib") ? `/x/site-packages/${one}.py` : "/x/train.py", line: number + 1, function: one,
  }));
  return { id: `@${functions}`, kind: "stack", count, ranks: "", frames };
}

const GROUPS = [group("main step backward", 6), group("main step forward", 1), group("main load", 3)];

test("stacks share their outer frames, and the branch with most ranks comes first", () => {
  const root = mergeStacks(GROUPS);
  assert.equal(root.count, 10);
  assert.deepEqual(root.children.map((one) => [one.label, one.count]), [["main train.py:1", 10]]);
  assert.deepEqual(root.children[0].children.map((one) => one.count), [7, 3]);
});

test("frames that do not branch share a line, and few ranks are odd", () => {
  const [main] = linesOf(mergeStacks(GROUPS));
  assert.equal(main.steps.length, 1);
  assert.equal(main.isOdd, false);
  assert.deepEqual(main.children.map((line) => [line.steps.length, line.isOdd]), [[1, false], [1, true]]);
  const [alone] = linesOf(mergeStacks([group("main step backward", 6)]));
  assert.equal(alone.steps.length, 3);
});

test("a stack that ends where others go on has no line of its own, and counts above", () => {
  const [main] = linesOf(mergeStacks([group("main", 2), group("main step", 1)]));
  assert.equal(main.count, 3);
  assert.equal(main.children[0].count, 1);
});

test("frames of libraries are one step, but for the innermost", () => {
  const root = mergeStacks([group("main lib1 lib2 lib3", 1)]);
  const [line] = linesOf(root);
  const labels = ["main train.py:1", "lib1 lib1.py:2 … lib2 lib2.py:3", "lib3 lib3.py:4"];
  assert.deepEqual(line.steps.map((one) => one.label), labels);
  assert.ok(isLibrary({ file: "/usr/lib/python3.11/json.py", line: 1, function: "f" }));
});

test("groups without a stack are left out", () => {
  assert.deepEqual(mergeStacks([{ id: "@?", kind: "silent", count: 3, ranks: "0-2" }]).children, []);
});

test("the boxes of a flame graph lie within their parents", () => {
  const boxes = flameOf(mergeStacks(GROUPS));
  assert.deepEqual(boxes.map(({ node, x, width, depth }) => [node.label.split(" ")[0], x, width, depth]), [
    ["main", 0, 1, 0], ["step", 0, 0.7, 1], ["backward", 0, 0.6, 2], ["forward", 0.6, 0.1, 2], ["load", 0.7, 0.3, 1],
  ]);
});
