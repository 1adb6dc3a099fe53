/**
 * History of questions and answers. Bounded: the oldest are forgotten first.
 *
 * @typedef {{id: string, kind: string, ranks: string, text: string, keys: string[]}} Group
 * @typedef {{depth: number, count: number, text: string, groups: string[], is_odd: boolean}} Branch
 * @typedef {{at: number, whom: string, summary: string, groups: Group[], tree: Branch[],
 *   verdicts: import("../answers/verdict.js").Verdict[], text: string,
 *   curve: import("../answers/curve.js").Point[], wrong: number}} Answer
 *   `whom`: the ranks that the line or the verb names, empty for the selected ranks
 */

const MAX_ENTRIES = 60;
/** Maximum characters of all answers; above it the oldest questions are dropped. */
const MAX_TEXT = 16_000_000;

export class Entry {
  /** @param {number} id @param {import("./link.js").Question} question @param {string} whom */
  constructor(id, question, whom) {
    this.id = id;
    this.question = question;
    this.whom = whom;
    /** @type {Answer | null} */
    this.answer = null;
    this.progress = "";
    this.failure = "";
    /** The question that the user has to agree to. */
    this.confirm = "";
    this.done = false;
    this.size = 0;
  }

  get title() {
    return this.question.line.replace(/^eval /, "");
  }

  /** @returns {Group[]} */
  get groups() {
    return this.answer?.groups ?? [];
  }

  /** @param {Answer} answer @param {number} size */
  take(answer, size) {
    this.answer = answer;
    this.progress = "";
    this.done = true;
    this.whom = answer.whom || this.whom;
    this.size = size;
  }
}

export class History {
  constructor() {
    /** @type {Entry[]} oldest first */
    this.entries = [];
    /** @type {Entry | null} the entry on the screen */
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

  /** Forget the oldest answers if the total is too large. */
  trim() {
    let size = this.entries.reduce((sum, entry) => sum + entry.size, 0);
    while (size > MAX_TEXT && this.entries.length > 1) {
      const oldest = this.entries[0] === this.shown ? 1 : 0;
      size -= this.entries[oldest].size;
      this.entries.splice(oldest, 1);
    }
  }

  /** Show the answer before or after the current one. @param {number} by */
  move(by) {
    const at = this.shown ? this.entries.indexOf(this.shown) : this.entries.length;
    const there = this.entries[Math.min(Math.max(0, at + by), this.entries.length - 1)];
    if (there) this.shown = there;
  }

  /** Mark all open questions as failed after the connection has closed. */
  disconnected() {
    for (const entry of this.entries) {
      if (entry.done) continue;
      entry.done = true;
      entry.failure ||= "The connection to the server closed before the answer arrived.";
      entry.progress = entry.confirm = "";
    }
  }
}
