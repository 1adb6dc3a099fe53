import assert from "node:assert/strict";
import { test } from "node:test";

import { layOut, neighbour, rankAt, ranksIn } from "../../../../../client/dbg_client/web/static/grid/layout.js";
import { row, rowsOf } from "./rows.js";

/** @param {import("../../../../../client/dbg_client/web/static/grid/layout.js").Layout} layout @param {number} index */
function center(layout, index) {
  const place = layout.of[index];
  const x = (place % layout.columns + 0.5) * layout.pitch;
  const y = (Math.floor(place / layout.columns) + 0.5) * layout.pitch;
  return /** @type {[number, number]} */ ([x, y]);
}

test("each rank has a place of its own, and is found there", () => {
  for (const axes of [null, { down: "dp", across: "tp" }, { down: "tp", across: "dp" }]) {
    const layout = layOut(rowsOf(1000), axes, 800, 600);
    assert.equal(new Set(layout.of).size, 1000);
    for (let index = 0; index < 1000; index++) assert.equal(rankAt(layout, ...center(layout, index)), index);
  }
});

test("as many ranks as a large job has fit a screen without scrolling", () => {
  for (const count of [1, 8, 512, 1000, 4096, 10_000]) {
    const layout = layOut(rowsOf(count), null, 900, 640);
    assert.ok(layout.rows * layout.pitch <= 640, String(count));
    assert.ok(layout.columns * layout.pitch <= 900 + layout.pitch, String(count));
  }
  assert.ok(layOut(rowsOf(8), null, 900, 640).pitch > 30);
});

test("what does not fit is scrolled to, in cells that can be told apart", () => {
  const layout = layOut(rowsOf(10_000), null, 300, 200);
  assert.ok(layout.rows * layout.pitch > 200);
  assert.equal(layout.pitch, 8);
});

test("the ranks of a host lie beside each other under its name", () => {
  const layout = layOut(rowsOf(16), null, 800, 600);
  assert.deepEqual(layout.labels.map((label) => label.text), ["gpu000", "gpu001"]);
  assert.equal(layout.of[7] - layout.of[0], 7);
  assert.equal(neighbour(layout, 0, 0, 1), 8);
});

test("a host with very many ranks is wrapped", () => {
  const layout = layOut(rowsOf(500).map((one) => ({ ...one, host: "one", local_rank: one.rank })), null, 800, 600);
  assert.ok(layout.rows > 10);
  assert.equal(new Set(layout.of).size, 500);
});

test("two axes span blocks, one for each place on the others", () => {
  const rows = rowsOf(64).map((one, rank) => ({
    ...one, coordinates: { pp: rank >> 5, dp: (rank >> 3) & 3, tp: rank & 7 },
  }));
  const layout = layOut(rows, { down: "dp", across: "tp" }, 800, 600);
  const texts = layout.labels.map((label) => label.text);
  assert.ok(texts.includes("pp 0") && texts.includes("pp 1"));
  assert.equal(layout.of[8] - layout.of[0], layout.columns);
});

test("ranks of one place and ranks without a place are drawn, too", () => {
  const placeless = [row(3, { coordinates: {} }), row(4, { coordinates: { dp: 1 } })];
  const rows = [row(0), row(1), row(0, { key: "again" }), ...placeless];
  const layout = layOut(rows, { down: "dp", across: "tp" }, 800, 600);
  assert.equal(new Set(layout.of).size, 5);
  assert.ok(layout.labels.some((label) => label.text === "not in the mesh"));
});

test("a rectangle has the ranks that it touches, from any corner", () => {
  const layout = layOut(rowsOf(64), null, 800, 600);
  const [from, to] = [center(layout, 1), center(layout, 18)];
  const found = ranksIn(layout, [...from, ...to]);
  assert.deepEqual(found, [1, 2, 9, 10, 17, 18]);
  assert.deepEqual(ranksIn(layout, [...to, ...from]), found);
  assert.deepEqual(ranksIn(layout, [-50, -50, -10, -10]), []);
});

test("arrows go over gaps and stay at the edge", () => {
  const layout = layOut(rowsOf(64), null, 800, 600);
  assert.equal(neighbour(layout, 0, -1, 0), 0);
  assert.equal(neighbour(layout, 0, 1, 0), 1);
  assert.equal(neighbour(layout, 56, 0, 1), 56);
  const wide = layOut(rowsOf(1000), null, 900, 640);
  const across = neighbour(wide, 7, 1, 0);
  assert.ok(across > 8 && across % 8 === 0, "from the end of a host to the begin of the one beside it");
});

test("no ranks and places outside are no error", () => {
  const layout = layOut([], null, 800, 600);
  assert.equal(rankAt(layout, 10, 10), -1);
  assert.equal(rankAt(layOut(rowsOf(8), null, 800, 600), -1, -1), -1);
});

test("hosts of several jobs are named with their job", () => {
  const rows = [row(0), row(0, { job: "other", key: "other/0" })];
  assert.deepEqual(layOut(rows, null, 800, 600).labels.map((label) => label.text), ["4711.0/gpu000", "other/gpu000"]);
});
