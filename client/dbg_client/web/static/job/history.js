/**
 * What was asked and answered, to go back in. Bounded: of more questions the oldest are forgotten.
 *
 * @typedef {{id: string, kind: string, count: number, ranks: string, text?: string, frames?: object[]}} Group
 * @typedef {{at: number, verb: string, document: any, text: string, whom: string, members: Record<string, string[]>,
 *   last: boolean}} Answer `whom`: the ranks as the line or the verb names them, empty for those that were selected
 * @typedef {{id: string, text: string, keys: ReadonlySet<string>}} Part
 * @typedef {{from: string | null, to: string | null, keys: string[], same: boolean}} Move
 *   texts of both; null: not asked
 */
import { pointOf, Series } from "../answers/series.js";

const MAX_ENTRIES = 60;
/** Characters of answers that are kept; older questions then lose theirs. */
const MAX_TEXT = 16_000_000;

export class Entry {
  /** @param {number} id @param {import("./link.js").Question} question @param {string} whom */
  constructor(id, question, whom) {
    this.id = id;
    this.question = question;
    this.whom = whom;
    /** @type {Answer | null} */
    this.answer = null;
    this.series = new Series();
    this.progress = "";
    this.failure = "";
    /** The question that the user has to agree to. */
    this.confirm = "";
    this.done = false;
    /** Whether it was asked again and again when the connection ended. */
    this.isBroken = false;
    this.size = 0;
  }

  get title() {
    return this.question.line.replace(/^eval /, "");
  }

  /** @returns {Group[]} */
  get groups() {
    const groups = this.answer?.document?.groups;
    return Array.isArray(groups) ? groups.filter((group) => typeof group.id === "string") : [];
  }

  /** @param {Group} group */
  keysOf(group) {
    return this.answer?.members[group.id] ?? [];
  }

  /** @returns {Part[]} */
  get parts() {
    return this.groups.map((group) => ({ id: group.id, text: textOf(group), keys: new Set(this.keysOf(group)) }));
  }

  /** @param {Answer} answer */
  take(answer) {
    this.answer = answer;
    this.progress = "";
    this.done = answer.last;
    this.whom = answer.whom || this.whom;
    this.size = answer.text.length + JSON.stringify(answer.document ?? null).length;
    if (!this.question.every) return;
    const values = this.groups.filter((group) => group.kind === "value");
    this.series.add(pointOf(answer.at, values.map((group) => ({ text: textOf(group), keys: this.keysOf(group) }))));
  }
}

/** Return what a group answered as one text. @param {Group} group */
export function textOf(group) {
  if (group.text !== undefined) return group.text;
  const places = /** @type {import("./ranks.js").Place[]} */ (group.frames ?? []);
  const inner = places.at(-1);
  return inner ? `${inner.function} ${inner.file}:${inner.line}` : group.kind;
}

/** Return the same for a legend. @param {Group} group */
export function briefOf(group) {
  const text = textOf(group);
  return (group.text === undefined ? text.replace(/ \S*\//, " ") : text).slice(0, 40);
}

export class History {
  constructor() {
    /** @type {Entry[]} the oldest first */
    this.entries = [];
    /** @type {Entry | null} the one that is shown */
    this.shown = null;
  }

  /** @param {Entry} entry */
  add(entry) {
    this.entries.push(entry);
    this.shown = entry;
    if (this.entries.length > MAX_ENTRIES) this.entries.shift();
  }

  /** @param {number} id */
  find(id) {
    return this.entries.findLast((entry) => entry.id === id && !entry.done);
  }

  /** Forget the oldest answers if all are too large together. */
  trim() {
    let size = this.entries.reduce((sum, entry) => sum + entry.size, 0);
    while (size > MAX_TEXT && this.entries.length > 1) {
      const oldest = this.entries[0] === this.shown ? 1 : 0;
      size -= this.entries[oldest].size;
      this.entries.splice(oldest, 1);
    }
  }

  /** Show the answer before or after the one that is shown. @param {number} by */
  move(by) {
    const at = this.shown ? this.entries.indexOf(this.shown) : this.entries.length;
    const there = this.entries[Math.min(Math.max(0, at + by), this.entries.length - 1)];
    if (there) this.shown = there;
  }

  /** No answer comes for what was asked on a connection that has ended. */
  disconnected() {
    for (const entry of this.entries) {
      if (entry.done) continue;
      entry.done = true;
      entry.isBroken = Boolean(entry.question.every && entry.answer);
      entry.failure ||= entry.answer ? "" : "The connection to the server ended before the answer came.";
      entry.progress = entry.confirm = "";
    }
  }
}

/**
 * Return what has changed between two answers: which ranks went from which group to which.
 *
 * @param {Part[]} before
 * @param {Part[]} after
 * @returns {Move[]} the ranks that moved first, those of many ranks before those of few
 */
export function compare(before, after) {
  const earlier = textByKey(before);
  const later = textByKey(after);
  /** @type {Map<string, Move>} */
  const moves = new Map();
  for (const key of new Set([...earlier.keys(), ...later.keys()])) {
    const from = earlier.get(key) ?? null;
    const to = later.get(key) ?? null;
    const name = JSON.stringify([from, to]);
    const move = moves.get(name) ?? { from, to, keys: [], same: from === to };
    move.keys.push(key);
    moves.set(name, move);
  }
  return [...moves.values()].sort((a, b) => Number(a.same) - Number(b.same) || b.keys.length - a.keys.length);
}

/** @param {Part[]} parts */
function textByKey(parts) {
  return new Map(parts.flatMap((part) => [...part.keys].map((key) => /** @type {const} */ ([key, part.text]))));
}
