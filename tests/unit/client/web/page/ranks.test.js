import assert from "node:assert/strict";
import { test } from "node:test";

import { duration, Ranks } from "../../../../../client/dbg_client/web/static/job/ranks.js";
import { row, rowsOf } from "./rows.js";

test("a snapshot takes the place of all ranks once its last page has come", () => {
  const ranks = new Ranks();
  ranks.snapshot(rowsOf(4), true);
  assert.equal(ranks.snapshot([row(7)], false), false);
  assert.equal(ranks.rows.length, 4);
  assert.equal(ranks.snapshot([row(6)], true), true);
  assert.deepEqual(ranks.rows.map((one) => one.rank), [6, 7]);
});

test("a change tells whether ranks came or went", () => {
  const ranks = new Ranks();
  ranks.snapshot(rowsOf(3), true);
  assert.equal(ranks.change([row(1, { state: "stopped" })], []), false);
  assert.equal(ranks.rows[1].state, "stopped");
  assert.equal(ranks.change([row(9)], ["4711.0/0"]), true);
  assert.deepEqual(ranks.rows.map((one) => one.rank), [1, 2, 9]);
  assert.equal(ranks.change([], ["nobody"]), false);
});

test("ranks stay in their order, in whatever order they have come and change", () => {
  const ranks = new Ranks();
  ranks.snapshot([row(2), row(0)], true);
  ranks.change([row(1)], []);
  ranks.change([row(2, { state: "stopped" })], []);
  assert.deepEqual(ranks.rows.map((one) => one.rank), [0, 1, 2]);
  assert.equal(ranks.rows[2].state, "stopped");
});

test("ranks of several jobs are called by their job, too", () => {
  const ranks = new Ranks();
  ranks.snapshot([row(0), row(1)], true);
  assert.equal(ranks.nameOf(row(1)), row(1).address);
  ranks.change([row(1, { job: "other", key: "other/1" })], []);
  assert.deepEqual(ranks.rows.map((one) => ranks.nameOf(one)),
    ["4711.0/gpu000:0", "4711.0/gpu000:1", "other/gpu000:1"]);
});

test("counts are in the order of legends and lists begin with what needs a look", () => {
  const ranks = new Ranks();
  ranks.snapshot([row(0), row(1, { state: "held" }), row(2, { state: "crashed" }), row(3)], true);
  assert.deepEqual([...ranks.counts()], [["running", 2], ["crashed", 1], ["held", 1]]);
  assert.deepEqual(ranks.urgentFirst(new Set()).map((one) => one.rank), [2, 1, 0, 3]);
  assert.deepEqual(ranks.urgentFirst(new Set([row(3).key])).map((one) => one.rank), [3, 2, 1, 0]);
});

test("durations are short", () => {
  assert.deepEqual([0.4, 61, 3700, 90000].map(duration), ["0 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]);
});
