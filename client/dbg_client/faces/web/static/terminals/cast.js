/**
 * Recordings of stops (asciicast, version 2), and where one stands while it plays.
 *
 * @typedef {{at: number, kind: string, data: string}} Moment `kind`: `o` output, `r` a new size, `m` a mark
 * @typedef {{columns: number, rows: number, title: string, moments: Moment[], seconds: number}} Cast
 */

/** Pauses are no longer than this. */
const LONGEST_PAUSE = 2;
const LARGEST = 1000;

/** Read a recording; a line that can't be read ends it, as where a broker was killed.
 * @param {string} text @returns {Cast} */
export function readCast(text) {
  const [first, ...lines] = text.split("\n");
  const header = JSON.parse(first);
  if (header?.version !== 2) throw new Error("The file is no asciicast of version 2.");
  /** @type {Moment[]} */
  const moments = [];
  let shown = 0;
  let before = 0;
  for (const line of lines) {
    const event = readLine(line);
    if (!event) break;
    shown += Math.min(LONGEST_PAUSE, Math.max(0, event[0] - before));
    before = event[0];
    moments.push({ at: shown, kind: event[1], data: event[2] });
  }
  const title = typeof header.title === "string" ? header.title : "";
  return { columns: bounded(header.width, 80), rows: bounded(header.height, 24), title, moments, seconds: shown };
}

/** @param {string} line @returns {[number, string, string] | null} */
function readLine(line) {
  try {
    const [at, kind, data] = JSON.parse(line);
    return typeof at === "number" && typeof kind === "string" && typeof data === "string" ? [at, kind, data] : null;
  } catch {
    return null;
  }
}

/** @param {unknown} value @param {number} otherwise */
function bounded(value, otherwise) {
  return typeof value === "number" && value >= 1 && value <= LARGEST ? Math.floor(value) : otherwise;
}

/** Where a recording stands: what has to be drawn to go to another second of it. */
export class Playback {
  /** @param {Cast} cast */
  constructor(cast) {
    this.cast = cast;
    this.at = 0;
    this.next = 0;
  }

  get isOver() {
    return this.next >= this.cast.moments.length;
  }

  /** Go to a second; return what is to be drawn, and whether the screen has to be cleared before. @param {number} at */
  go(at) {
    const isBack = at < this.at;
    if (isBack) this.next = 0;
    const from = this.next;
    const { moments } = this.cast;
    while (this.next < moments.length && moments[this.next].at <= at) this.next++;
    this.at = Math.min(Math.max(0, at), this.cast.seconds);
    return { clear: isBack, moments: moments.slice(from, this.next) };
  }
}

/** Read a size such as `120x40`. @param {string} text @returns {[number, number] | null} columns and rows */
export function readSize(text) {
  const found = /^(\d{1,4})x(\d{1,4})$/.exec(text);
  return found ? [bounded(Number(found[1]), 80), bounded(Number(found[2]), 24)] : null;
}
