import assert from "node:assert/strict";
import { test } from "node:test";

import { Entry, History, textOf } from "../../../../../client/dbg_client/web/static/job/history.js";
import { backOff } from "../../../../../client/dbg_client/web/static/job/link.js";
import { commonBeginning } from "../../../../../client/dbg_client/web/static/terminals/lines.js";

/** @param {number} id @param {string} line @param {number | null} [every] */
function asked(id, line, every = null) {
  return new Entry(id, { line, every }, "all ranks");
}

/** @param {string} text @param {boolean} last */
function answer(text, last = true) {
  const document = { groups: [{ id: "@1", kind: "value", ranks: "0-1", count: 2, text }] };
  return { at: 5, verb: "eval", document, text, whom: "", members: { "@1": ["a", "b"] }, last };
}

test("an answer belongs to the question with its number, as long as that is open", () => {
  const history = new History();
  history.add(asked(1, "eval loss"));
  history.add(asked(2, "where"));
  const first = history.find(1);
  assert.equal(first?.title, "loss");
  first?.take(answer("0.25"));
  assert.equal(history.find(1), undefined);
  assert.deepEqual([...(first?.parts[0].keys ?? [])], ["a", "b"]);
});

test("one goes back and forth, and stays at the ends", () => {
  const history = new History();
  for (const id of [1, 2, 3]) history.add(asked(id, String(id)));
  history.move(-1);
  assert.equal(history.shown?.id, 2);
  history.move(-5);
  assert.equal(history.shown?.id, 1);
  history.move(9);
  assert.equal(history.shown?.id, 3);
  new History().move(1);
});

test("the oldest questions are forgotten, by number and by size, but not the one that is shown", () => {
  const history = new History();
  for (let id = 1; id <= 70; id++) history.add(asked(id, String(id)));
  assert.equal(history.entries.length, 60);
  history.entries.forEach((entry) => { entry.size = 1_000_000; });
  history.shown = history.entries[0];
  history.trim();
  assert.equal(history.entries.length, 16);
  assert.equal(history.entries[0], history.shown);
});

test("answers that come again and again make a series", () => {
  const entry = asked(1, "eval loss", 2);
  for (const text of ["2.0", "1.5", "'none'"]) entry.take(answer(text, false));
  assert.deepEqual(entry.series.points.map((point) => point.median), [2, 1.5]);
  assert.equal(entry.done, false);
});

test("a connection that ends leaves answers that have come, and says so of others", () => {
  const history = new History();
  history.add(asked(1, "where"));
  history.add(asked(2, "eval loss", 2));
  history.entries[1].take(answer("1", false));
  history.disconnected();
  assert.match(history.entries[0].failure, /connection/);
  assert.equal(history.entries[1].failure, "");
  assert.ok(history.entries.every((entry) => entry.done));
});

test("documents that are not as expected make no groups", () => {
  const entry = asked(1, "slow");
  entry.take({ ...answer(""), document: { groups: [{ group: "dp", collective: "all_reduce" }] } });
  assert.deepEqual(entry.groups, []);
  entry.take({ ...answer(""), document: null });
  assert.deepEqual(entry.groups, []);
});

test("a stack is told by its innermost place", () => {
  const frames = [{ file: "/a.py", line: 1, function: "main" }, { file: "/b.py", line: 7, function: "step" }];
  assert.equal(textOf({ id: "@1", kind: "stack", ranks: "0", count: 1, frames }), "step /b.py:7");
  assert.equal(textOf({ id: "@?", kind: "silent", ranks: "0", count: 1 }), "silent");
});

test("attempts are spread over a time that grows to a bound", () => {
  assert.equal(backOff(0, () => 1), 500);
  assert.equal(backOff(3, () => 0.5), 2000);
  assert.equal(backOff(1000, () => 1), 10_000);
});

test("completion goes as far as all matches agree", () => {
  assert.equal(commonBeginning(["loss", "losses", "loss_scale"]), "loss");
  assert.equal(commonBeginning(["lost", "loss"]), "los");
  assert.equal(commonBeginning(["a", "b"]), "");
  assert.equal(commonBeginning([]), "");
});
