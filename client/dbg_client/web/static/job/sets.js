/**
 * Sets of ranks as people write them (docs/reference/targets.md); the server parses the sets that a user types.
 *
 * @typedef {import("./ranks.js").Row} Row
 */
/** Print rank numbers as `a-b,c`. @param {Iterable<number>} numbers */
export function formatNumbers(numbers) {
  const sorted = [...new Set(numbers)].sort((a, b) => a - b);
  const pieces = [];
  for (let from = 0, to; from < sorted.length; from = to) {
    for (to = from + 1; sorted[to] === sorted[to - 1] + 1;) to++;
    pieces.push(to - from > 1 ? `${sorted[from]}-${sorted[to - 1]}` : String(sorted[from]));
  }
  return pieces.join(",");
}

/**
 * Return a target for exactly these ranks. A rank is named by its number only if no other rank of its job has it.
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

/** Maximum ranks that a question names by key: with more the text would exceed the server's limit. */
const MAX_KEYS = 1000;

/** Return the fields with which a question names ranks, and the name shown to people.
 * @param {Row[]} rows @param {Row[]} all @returns {{keys: string[], ranks: string, text: string}} */
export function addressed(rows, all) {
  const ranks = formatRows(rows, all);
  const short = ranks.length > 40 ? `${rows.length} ranks` : several(ranks);
  const text = ranks === "all" ? "all ranks" : short;
  return rows.length > MAX_KEYS ? { keys: [], ranks, text } : { keys: rows.map((row) => row.key), ranks: "", text };
}

/** Return the name of a set: `rank 5`, `ranks 0-3`. @param {string} ranks */
export function several(ranks) {
  return `rank${/[-,*]/.test(ranks) ? "s" : ""} ${ranks}`;
}

/** Return a filter for rows with this text in any column. @param {string} text @returns {(row: Row) => boolean} */
export function hasText(text) {
  const part = text.trim().toLowerCase();
  return (row) => [row.address, row.state, row.place, row.who, row.detail]
    .some((one) => one.toLowerCase().includes(part));
}
