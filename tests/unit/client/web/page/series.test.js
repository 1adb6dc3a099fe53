import assert from "node:assert/strict";
import { test } from "node:test";

import { compare } from "../../../../../client/dbg_client/web/static/job/history.js";
import { MAX_POINTS, numberIn, pointOf, Series } from "../../../../../client/dbg_client/web/static/answers/series.js";

test("the number of a value is read as it is printed", () => {
  assert.equal(numberIn("0.25"), 0.25);
  assert.equal(numberIn("tensor(1.8703, device='cuda:0')"), 1.8703);
  assert.equal(numberIn("-1e-7"), -1e-7);
  assert.equal(numberIn("(3, 4)"), 3);
  assert.ok(Number.isNaN(numberIn("tensor(nan)")));
  assert.equal(numberIn("-inf"), -Infinity);
  for (const text of ["'abc'", "None", "gpu013", "", "<b>1x</b>"]) assert.equal(numberIn(text), null);
});

test("a point has the median, the spread and who stands apart", () => {
  const keys = Array.from({ length: 9 }, (_, number) => String(number));
  const groups = keys.map((key) => ({ text: String(1 + Number(key) / 1000), keys: [key] }));
  const point = pointOf(5, [...groups, { text: "99", keys: ["far"] }, { text: "nan", keys: ["none"] }]);
  assert.equal(point?.count, 11);
  assert.equal(point?.low, 1);
  assert.equal(point?.high, 99);
  assert.deepEqual(point?.odd.map(({ key }) => key), ["none", "far"]);
});

test("ranks that agree have no odd one, and neither have two that differ", () => {
  assert.deepEqual(pointOf(0, [{ text: "1.0", keys: ["a", "b", "c"] }])?.odd, []);
  assert.deepEqual(pointOf(0, [{ text: "1", keys: ["a"] }, { text: "2", keys: ["b"] }])?.odd, []);
  assert.equal(pointOf(0, [{ text: "'x'", keys: ["a"] }]), null);
  assert.deepEqual(pointOf(0, [{ text: "nan", keys: ["a", "b", "c"] }, { text: "1", keys: ["d"] }])?.odd, []);
});

test("a series is bounded, and its range holds all that is finite", () => {
  const series = new Series();
  for (let at = 0; at < MAX_POINTS + 5; at++) series.add(pointOf(at, [{ text: String(at), keys: ["a", "b", "c"] }]));
  assert.equal(series.points.length, MAX_POINTS);
  assert.ok(series.range.low < 5 && series.range.high > MAX_POINTS + 3);
  assert.ok(new Series().range.low < new Series().range.high);
});

test("an odd rank has its values where it was odd", () => {
  const series = new Series();
  series.add(pointOf(0, [{ text: "1", keys: ["a", "b", "c"] }]));
  series.add(pointOf(1, [{ text: "1", keys: ["a", "b"] }, { text: "nan", keys: ["c"] }]));
  assert.deepEqual([...series.odd], [["c", [undefined, NaN]]]);
});

test("two answers differ by the ranks that changed groups", () => {
  const part = (/** @type {string} */ text, /** @type {string[]} */ ...keys) => ({ id: "", text, keys: new Set(keys) });
  const moves = compare([part("1", "a", "b", "c"), part("2", "d")], [part("1", "a", "b"), part("3", "c", "e")]);
  assert.deepEqual(moves.map(({ from, to, keys, same }) => [from, to, keys.join(), same]), [
    ["1", "3", "c", false], ["2", null, "d", false], [null, "3", "e", false], ["1", "1", "a,b", true],
  ]);
});
