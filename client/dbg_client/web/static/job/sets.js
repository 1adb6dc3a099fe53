/**
 * Sets of ranks as people write them (docs/reference/targets.md); the server reads those that are typed.
 *
 * @typedef {import("./ranks.js").Row} Row
 */
import { placeOf } from "./ranks.js";

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
  const short = ranks.length > 40 ? `${rows.length} ranks` : several(ranks);
  const text = ranks === "all" ? "all ranks" : short;
  return rows.length > MAX_KEYS ? { keys: [], ranks, text } : { keys: rows.map((row) => row.key), ranks: "", text };
}

/** Return what a set is called: `rank 5`, `ranks 0-3`. @param {string} ranks */
export function several(ranks) {
  return `rank${/[-,*]/.test(ranks) ? "s" : ""} ${ranks}`;
}

/** Tell whether what is known of a rank has a text in it. @param {string} text @returns {(row: Row) => boolean} */
export function hasText(text) {
  const part = text.trim().toLowerCase();
  return (row) => [row.address, row.state, row.reason, row.detail, row.driver, placeOf(row), row.where?.function]
    .some((one) => one?.toLowerCase().includes(part));
}
