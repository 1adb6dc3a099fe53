/**
 * Sets of ranks as people type them (docs/reference/targets.md).
 *
 * The page needs them to mark cells; what a question is put to, the server decides by the same text.
 *
 * @typedef {import("./ranks.js").Row} Row
 * @typedef {(row: Row) => boolean} Fits
 */
import { conditionOf, placeOf } from "./ranks.js";

const MAX_NUMBER = 10_000_000;
const NUMBERS = /^(\d{1,8})(?:-(\d{1,8})(?:\/(\d{1,8}))?|:(\d{1,8})(?::(\d{1,8}))?)?$/;
const CHILD = /^(\d{1,8})\.(\d{1,8})$/;
const STATES = new Set(["stopped", "held", "crashed", "running", "unresponsive", "lost", "exited"]);
const HOST = /^(?:[A-Za-z0-9._-]+|\*|\[[0-9,-]*\])+$/;
const COORDINATE = /^([A-Za-z_][A-Za-z0-9_]*)=(.+)$/;

/** What can't be read as a set. */
export class BadSet extends Error {}

/**
 * Print rank numbers as `a-b[/step],…`: neighbours join first, then three or more single numbers at equal distances.
 *
 * @param {Iterable<number>} numbers
 */
export function formatNumbers(numbers) {
  const sorted = [...new Set(numbers)].sort((a, b) => a - b);
  /** @type {string[]} */
  const pieces = [];
  /** @type {number[]} */
  let alone = [];
  for (let from = 0; from < sorted.length; ) {
    let to = from;
    while (to + 1 < sorted.length && sorted[to + 1] === sorted[to] + 1) to++;
    if (to === from) {
      alone.push(sorted[from]);
    } else {
      pieces.push(...steps(alone), `${sorted[from]}-${sorted[to]}`);
      alone = [];
    }
    from = to + 1;
  }
  return [...pieces, ...steps(alone)].join(",");
}

/** @param {number[]} alone */
function steps(alone) {
  const pieces = [];
  for (let from = 0; from < alone.length; ) {
    const step = alone[from + 1] - alone[from];
    let to = from;
    while (to + 1 < alone.length && alone[to + 1] - alone[to] === step) to++;
    if (to - from >= 2) {
      pieces.push(`${alone[from]}-${alone[to]}/${step}`);
      from = to + 1;
    } else {
      pieces.push(String(alone[from]));
      from++;
    }
  }
  return pieces;
}

/**
 * Return a target for exactly these ranks. Numbers are enough where every rank of the job list has its own.
 *
 * @param {Row[]} rows
 * @param {Row[]} all
 */
export function formatRows(rows, all) {
  if (rows.length === all.length) return "all";
  const jobs = new Set(all.map((row) => row.job));
  const seen = new Map();
  for (const row of all) seen.set(`${row.job}/${row.rank}`, (seen.get(`${row.job}/${row.rank}`) ?? 0) + 1);
  /** @type {Map<string, number[]>} */
  const numbered = new Map();
  const others = [];
  for (const row of rows) {
    const job = jobs.size > 1 ? `${row.job}/` : "";
    if (row.child !== null || seen.get(`${row.job}/${row.rank}`) > 1) others.push(job + row.address);
    else numbered.set(job, [...(numbered.get(job) ?? []), row.rank]);
  }
  return [...[...numbered].map(([job, numbers]) => job + formatNumbers(numbers)), ...others].join(",");
}

/** Ranks that a question names by their keys: those of very many would make a text that the server does not take. */
const MAX_KEYS = 1000;

/** Return how a question names ranks, and how people are told of them.
 * @param {Row[]} rows @param {Row[]} all @returns {{keys: string[], ranks: string, text: string}} */
export function addressed(rows, all) {
  const ranks = formatRows(rows, all);
  const short = ranks.length > 40 ? `${rows.length} ranks` : `rank${rows.length > 1 ? "s" : ""} ${ranks}`;
  const text = ranks === "all" ? "all ranks" : short;
  return rows.length > MAX_KEYS ? { keys: [], ranks, text } : { keys: rows.map((row) => row.key), ranks: "", text };
}

/** Divide at commas that stand in no bracket. @param {string} text */
function terms(text) {
  return text.match(/(?:\[[^\]]*\]|[^,[])+/g) ?? [];
}

/**
 * Read a set: `0-3,5`, `gpu[01-04]:*`, `stopped`, `!5`, `tp=0-1`, `@2`.
 *
 * @param {string} text
 * @param {(name: string) => ReadonlySet<string> | undefined} group the keys of a group of the answer that is shown
 * @returns {Fits}
 */
export function parseSet(text, group = () => undefined) {
  /** @type {Fits[]} */
  const include = [];
  /** @type {Fits[]} */
  const exclude = [];
  let before = { out: false, job: /** @type {string | null} */ (null), host: /** @type {string | null} */ (null) };
  for (const typed of terms(text.trim())) {
    const term = typed.trim();
    const goesOn = NUMBERS.test(term) && !/:/.test(term);
    const read = goesOn ? { ...before, what: term } : divide(term);
    before = read;
    (read.out ? exclude : include).push(fitting(read, group));
  }
  if (!include.length && !exclude.length) throw new BadSet("The set is empty: type 0-3, gpu013:*, stopped or tp=0.");
  return (row) => (!include.length || include.some((fits) => fits(row))) && !exclude.some((fits) => fits(row));
}

/** @typedef {{out: boolean, job: string | null, host: string | null, what: string}} Term */

/** @param {string} term @returns {Term} */
function divide(term) {
  const out = term.startsWith("!");
  let rest = out ? term.slice(1) : term;
  let job = null;
  const slash = rest.indexOf("/");
  if (slash > 0 && !/^\d+-\d+\/\d+$/.test(rest.slice(rest.lastIndexOf(":") + 1))) {
    job = rest.slice(0, slash);
    rest = rest.slice(slash + 1);
  }
  const slice = NUMBERS.exec(rest);
  const isSlice = slice && (slice[4] === undefined || Number(slice[1]) < Number(slice[4]));
  const colon = rest.indexOf(":");
  if (isSlice || colon < 0) return { out, job, host: null, what: rest };
  return { out, job, host: rest.slice(0, colon) || null, what: rest.slice(colon + 1) };
}

/** @param {Term} term @param {(name: string) => ReadonlySet<string> | undefined} group @returns {Fits} */
function fitting({ job, host, what }, group) {
  const here = what === "*" && host ? () => true : fittingWhat(what, group);
  const inJob = job === null ? null : pattern(job);
  const onHost = host === null ? null : pattern(host);
  return (row) => (!inJob || inJob(row.job)) && (!onHost || onHost(row.host)) && here(row);
}

/** @param {string} what @param {(name: string) => ReadonlySet<string> | undefined} group @returns {Fits} */
function fittingWhat(what, group) {
  if (what === "all") return () => true;
  if (what === "stopped") return (row) => row.state === "stopped";
  if (STATES.has(what)) return (row) => conditionOf(row) === what;
  if (what.startsWith("@")) {
    const keys = group(what);
    if (!keys) throw new BadSet(`The answer has no group ${what}.`);
    return (row) => keys.has(row.key);
  }
  const child = CHILD.exec(what);
  if (child) return (row) => row.rank === Number(child[1]) && row.child === Number(child[2]);
  const coordinate = COORDINATE.exec(what);
  if (coordinate) {
    const inRange = range(coordinate[2]);
    return (row) => inRange(row.coordinates?.[coordinate[1]] ?? NaN);
  }
  const numbers = range(what);
  return (row) => row.child === null && numbers(row.rank);
}

/** @param {string} text @returns {(number: number) => boolean} */
function range(text) {
  const found = NUMBERS.exec(text);
  if (!found) throw new BadSet(`“${text}” is no rank, host or state: type 0-3, gpu013:*, stopped or tp=0.`);
  const [, low, high, by, end, stride] = found;
  const first = Number(low);
  const last = end !== undefined ? Number(end) - 1 : Number(high ?? low);
  const step = Number(by ?? stride ?? 1);
  if (step < 1 || last < first || last > MAX_NUMBER) throw new BadSet(`The range “${text}” is empty.`);
  return (number) => number >= first && number <= last && (number - first) % step === 0;
}

/** Read a job or host in which `*` is anything and `[01-04]` these numbers. @param {string} text */
function pattern(text) {
  if (!HOST.test(text)) throw new BadSet(`“${text}” is no host: type gpu013, gpu[01-04] or gpu*.`);
  const source = text.replace(/\[([0-9,-]*)\]|\*|[^[*]+/g, (piece, inside) => {
    if (piece === "*") return ".*";
    return inside === undefined ? piece.replace(/[.]/g, "\\.") : `(?:${spelled(inside)})`;
  });
  const expression = new RegExp(`^${source}$`);
  return (/** @type {string} */ host) => expression.test(host);
}

/** @param {string} inside such as `01-04,07` */
function spelled(inside) {
  return inside.split(",").flatMap((piece) => {
    const [first, last = first] = piece.split("-");
    const count = Number(last) - Number(first) + 1;
    if (!first || !(count >= 1 && count <= 100_000)) throw new BadSet(`The numbers “[${inside}]” can't be read.`);
    return Array.from({ length: count }, (_, index) => String(Number(first) + index).padStart(first.length, "0"));
  }).join("|");
}

/** Read what is searched for: a set, or else a part of what is known of a rank.
 * @param {string} text @param {(name: string) => ReadonlySet<string> | undefined} group @returns {Fits} */
export function parseSearch(text, group) {
  try {
    return parseSet(text, group);
  } catch (error) {
    if (!(error instanceof BadSet)) throw error;
    const part = text.trim().toLowerCase();
    return (row) => [row.address, row.state, row.reason, row.detail, row.driver, placeOf(row), row.where?.function]
      .some((one) => one?.toLowerCase().includes(part));
  }
}
