import assert from "node:assert/strict";
import { test } from "node:test";

import { Playback, readCast, readSize } from "../../../../../../client/dbg_client/faces/web/static/terminals/cast.js";

const LINES = [
  '{"version": 2, "width": 100, "height": 30, "title": "A hang"}', '[0.5, "o", "one"]', '[1, "r", "120x40"]',
  '[100, "o", "two"]',
];

test("pauses are cut, and what a broker did not finish writing is left out", () => {
  const cast = readCast([...LINES, '[101, "o", "thr'].join("\n"));
  assert.deepEqual([cast.columns, cast.rows, cast.title, cast.seconds], [100, 30, "A hang", 3]);
  assert.deepEqual(cast.moments.map(({ at, kind }) => [at, kind]), [[0.5, "o"], [1, "r"], [3, "o"]]);
});

test("sizes are bounded whatever the file says", () => {
  const cast = readCast('{"version": 2, "width": 1e9, "height": "x"}');
  assert.deepEqual([cast.columns, cast.rows, cast.seconds], [80, 24, 0]);
  assert.deepEqual(readSize("120x40"), [120, 40]);
  assert.deepEqual(readSize("9999x9999"), [80, 24]);
  assert.equal(readSize("<b>"), null);
});

test("what is no recording is an error", () => {
  for (const text of ["", "nonsense", '{"version": 3}', "null"]) assert.throws(() => readCast(text), text);
});

test("going back draws again from the beginning", () => {
  const playback = new Playback(readCast(LINES.join("\n")));
  assert.deepEqual(playback.go(0.7).moments.map(({ data }) => data), ["one"]);
  assert.deepEqual(playback.go(9).moments.map(({ data }) => data), ["120x40", "two"]);
  assert.ok(playback.isOver);
  assert.equal(playback.at, 3);
  const back = playback.go(0.6);
  assert.ok(back.clear);
  assert.deepEqual(back.moments.map(({ data }) => data), ["one"]);
});
