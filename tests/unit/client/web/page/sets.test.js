import assert from "node:assert/strict";
import { test } from "node:test";

import {
  addressed, formatNumbers, formatRows, hasText,
} from "../../../../../client/dbg_client/web/static/job/sets.js";
import { row, rowsOf } from "./rows.js";

const ROWS = rowsOf(32);

test("numbers print in one form", () => {
  assert.equal(formatNumbers([3, 1, 2, 0, 5]), "0-3,5");
  assert.equal(formatNumbers([0, 8]), "0,8");
  assert.equal(formatNumbers([]), "");
});

test("ranks are named as a target for exactly them", () => {
  assert.equal(formatRows(ROWS, ROWS), "all");
  assert.equal(formatRows(ROWS.slice(2, 5), ROWS), "2-4");
  const jobs = [...ROWS, row(1, { job: "other", key: "other/1" })];
  assert.equal(formatRows(jobs.slice(31), jobs), "4711.0/31,other/1");
  const double = [...ROWS, row(1, { host: "x", address: "x:1", key: "4711.0/1x" })];
  assert.equal(formatRows([double[32]], double), "x:1");
});

test("what is no set is searched for as a part of what is known", () => {
  const rows = [row(0), row(1, { place: "train.py:7 in step" }), row(2, { detail: "ValueError: <b>loss</b>" })];
  const found = (/** @type {string} */ text) => rows.filter(hasText(text)).map((one) => one.rank);
  assert.deepEqual(found("train.py"), [1]);
  assert.deepEqual(found("STEP"), [1]);
  assert.deepEqual(found("<b>"), [2]);
  assert.deepEqual(found("nowhere"), []);
});

test("few ranks are asked by their keys and very many by a target, as the server takes no text without end", () => {
  const many = rowsOf(3000);
  assert.deepEqual(addressed(many.slice(0, 2), many), { keys: ["4711.0/0", "4711.0/1"], ranks: "", text: "ranks 0-1" });
  assert.deepEqual(addressed(many.slice(1), many), { keys: [], ranks: "1-2999", text: "ranks 1-2999" });
  assert.equal(addressed(many, many).ranks, "all");
  assert.equal(addressed([many[7]], many).text, "rank 7");
});
