import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { lookOfCondition, looksOfGroups, MARKS } from "../../../../../client/dbg_client/web/static/grid/marks.js";
import { CONDITIONS } from "../../../../../client/dbg_client/web/static/job/ranks.js";

const CSS = readFileSync(new URL("../../../../../client/dbg_client/web/static/page.css", import.meta.url), "utf-8");

test("no two conditions look alike without colour, but for those that are usual", () => {
  const marks = CONDITIONS.map((one) => lookOfCondition(one).mark);
  assert.deepEqual(marks.filter((mark) => mark === "none").length, 2);
  assert.equal(new Set(marks).size, marks.length - 1);
});

test("the first group is calm, and each of the next thirty has a colour and mark of its own", () => {
  const groups = Array.from({ length: 36 }, (_, number) => ({ id: `@${number + 1}`, kind: "value" }));
  const looks = [...looksOfGroups(groups).values()];
  assert.equal(looks[0].mark, "none");
  assert.equal(new Set(looks.slice(1).map((look) => look.colour + look.mark)).size, 35);
});

test("errors and silence look the same in each answer, wherever they stand", () => {
  const groups = [{ id: "@err", kind: "error" }, { id: "@1", kind: "value" }, { id: "@?", kind: "silent" }];
  const looks = looksOfGroups(groups);
  assert.equal(looks.get("@err")?.mark, "cross");
  assert.equal(looks.get("@1")?.mark, "none");
  assert.equal(looks.get("@?")?.mark, "wedge");
});

test("each look has its mark and its colour, in dark and in light", () => {
  const groups = Array.from({ length: 8 }, (_, number) => ({ id: `@${number}`, kind: "stack" }));
  for (const look of [...CONDITIONS.map(lookOfCondition), ...looksOfGroups(groups).values()]) {
    assert.ok(look.mark in MARKS);
    assert.match(CSS, new RegExp(`--${look.colour}:`));
  }
});
