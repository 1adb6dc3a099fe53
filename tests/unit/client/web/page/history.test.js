import assert from "node:assert/strict";
import { test } from "node:test";

import { Entry, History } from "../../../../../client/dbg_client/web/static/job/history.js";
import { backOff } from "../../../../../client/dbg_client/web/static/job/link.js";

/** @param {number} id @param {string} line */
function asked(id, line) {
  return new Entry(id, { line }, "all ranks");
}

const ANSWER = {
  at: 5, whom: "", summary: "", tree: [], verdicts: [], curve: [], wrong: 0, text: "",
  groups: [{ id: "@1", kind: "value", ranks: "0-1", text: "0.25", keys: ["a", "b"] }],
};

test("an answer belongs to the question with its number, as long as that is open", () => {
  const history = new History();
  history.add(asked(1, "eval loss"));
  history.add(asked(2, "where"));
  const first = history.find(1);
  assert.equal(first?.title, "loss");
  first?.take(ANSWER, 1);
  assert.equal(history.find(1), undefined);
  assert.deepEqual(first?.groups, ANSWER.groups);
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

test("a connection that ends leaves answers that have come, and says so of others", () => {
  const history = new History();
  history.add(asked(1, "where"));
  history.add(asked(2, "eval loss"));
  history.entries[1].take(ANSWER, 1);
  history.disconnected();
  assert.match(history.entries[0].failure, /connection/);
  assert.equal(history.entries[1].failure, "");
  assert.ok(history.entries.every((entry) => entry.done));
});

test("attempts are spread over a time that grows to a bound", () => {
  assert.equal(backOff(0, () => 1), 500);
  assert.equal(backOff(3, () => 0.5), 2000);
  assert.equal(backOff(1000, () => 1), 10_000);
});
