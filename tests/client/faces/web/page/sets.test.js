import assert from "node:assert/strict";
import { test } from "node:test";

import {
  addressed, BadSet, formatNumbers, formatRows, parseSearch, parseSet,
} from "../../../../../client/dbg_client/faces/web/static/job/sets.js";
import { row, rowsOf } from "./rows.js";

const ROWS = rowsOf(32);

/** @param {string} text @param {import("./rows.js").Row[]} [rows] */
function chosen(text, rows = ROWS) {
  return formatNumbers(rows.filter(parseSet(text)).map((one) => one.rank));
}

test("numbers print in one form", () => {
  assert.equal(formatNumbers([3, 1, 2, 0, 5]), "0-3,5");
  assert.equal(formatNumbers([0, 8, 16, 24]), "0-24/8");
  assert.equal(formatNumbers([0, 8]), "0,8");
  assert.equal(formatNumbers([]), "");
  assert.equal(formatNumbers([1, 3, 5, 7, 8]), "1-5/2,7-8");
});

test("a typed set chooses the ranks that a target names", () => {
  assert.equal(chosen("all"), "0-31");
  assert.equal(chosen("0-3,5"), "0-3,5");
  assert.equal(chosen("0-31/8"), "0-24/8");
  assert.equal(chosen("0:8:2"), "0-6/2");
  assert.equal(chosen("gpu001:*"), "8-15");
  assert.equal(chosen("gpu[000-001]:*,!3"), "0-2,4-15");
  assert.equal(chosen("gpu*:*"), "0-31");
  assert.equal(chosen("gpu001:8-9,11,:0"), "0,8-9,11");
  assert.equal(chosen("!5"), "0-4,6-31");
  assert.equal(chosen("all,!0-3,5"), "4,6-31");
  assert.equal(chosen("tp=0"), "0-24/8");
  assert.equal(chosen("4711.0/5"), "5");
  assert.equal(chosen("other/5"), "");
});

test("a state is a set, and a crashed rank is stopped as well", () => {
  const crashed = row(1, { state: "stopped", reason: "crash" });
  const rows = [row(0), crashed, row(2, { state: "stopped" }), row(3, { state: "held" })];
  assert.equal(chosen("stopped", rows), "1-2");
  assert.equal(chosen("crashed", rows), "1");
  assert.equal(chosen("held,running", rows), "0,3");
});

test("a child is named by its number alone", () => {
  const rows = [row(5), row(5, { child: 1, address: "gpu000:5.1" })];
  assert.deepEqual(rows.filter(parseSet("5")).map((one) => one.child), [null]);
  assert.deepEqual(rows.filter(parseSet("5.1")).map((one) => one.child), [1]);
});

test("a group of the answer is a set", () => {
  const group = (/** @type {string} */ name) => (name === "@2" ? new Set(["4711.0/7"]) : undefined);
  assert.deepEqual(ROWS.filter(parseSet("@2", group)).map((one) => one.rank), [7]);
  assert.throws(() => parseSet("@9", group), BadSet);
});

test("what is no set is refused with a sentence", () => {
  for (const text of ["", " ", "5-3", "0-8/0", "nonsense", "a<b>:*", "gpu[9-1]:*", "99999999999"]) {
    assert.throws(() => parseSet(text), BadSet, text);
  }
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
  const where = { file: "/home/me/train.py", line: 7, function: "step" };
  const rows = [row(0), row(1, { where }), row(2, { detail: "ValueError: <b>loss</b>" })];
  const found = (/** @type {string} */ text) => rows.filter(parseSearch(text, () => undefined)).map((one) => one.rank);
  assert.deepEqual(found("train.py"), [1]);
  assert.deepEqual(found("STEP"), [1]);
  assert.deepEqual(found("<b>"), [2]);
  assert.deepEqual(found("0-1"), [0, 1]);
  assert.deepEqual(found("nowhere"), []);
});

test("few ranks are asked by their keys and very many by a target, as the server takes no text without end", () => {
  const many = rowsOf(3000);
  assert.deepEqual(addressed(many.slice(0, 2), many), { keys: ["4711.0/0", "4711.0/1"], ranks: "", text: "ranks 0-1" });
  assert.deepEqual(addressed(many.slice(1), many), { keys: [], ranks: "1-2999", text: "ranks 1-2999" });
  assert.equal(addressed(many, many).ranks, "all");
  assert.equal(addressed([many[7]], many).text, "rank 7");
});
