/**
 * A value over steps: of each answer the median, the spread of the ranks, and those that stand apart.
 *
 * @typedef {{at: number, low: number, median: number, high: number, count: number, 
 *   odd: {key: string, value: number}[]}} Point numbers are NaN where no rank has a finite one
 */

/** Answers of one plot; of more the oldest are dropped. */
export const MAX_POINTS = 400;
/** Ranks that a plot names. */
const MAX_ODD = 8;
const NUMBER = /(?:^|[\s(=[])([+-]?(?:nan|inf(?:inity)?|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?))(?=$|[\s,)\]])/i;

/** Return the first number of a text such as `tensor(1.87, device='cuda:0')`, or null. @param {string} text */
export function numberIn(text) {
  const found = NUMBER.exec(text.slice(0, 1000));
  if (!found) return null;
  const word = found[1].toLowerCase();
  if (word.includes("nan")) return NaN;
  if (word.includes("inf")) return word.startsWith("-") ? -Infinity : Infinity;
  return Number(word);
}

/**
 * @param {number} at
 * @param {{text: string, keys: Iterable<string>}[]} groups groups of values
 * @returns {Point | null} null if no group has a number
 */
export function pointOf(at, groups) {
  /** @type {{key: string, value: number}[]} */
  const values = [];
  for (const group of groups) {
    const value = numberIn(group.text);
    if (value === null) continue;
    for (const key of group.keys) values.push({ key, value });
  }
  if (!values.length) return null;
  const finite = values.map(({ value }) => value).filter(Number.isFinite).sort((a, b) => a - b);
  const median = middle(finite);
  const odd = oddOnes(values, finite, median);
  return { at, median, low: finite[0] ?? NaN, high: finite.at(-1) ?? NaN, count: values.length, odd };
}

/** @param {number[]} sorted */
function middle(sorted) {
  if (!sorted.length) return NaN;
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/**
 * Return the ranks without a finite value, and those far from the median by the spread of most.
 *
 * @param {{key: string, value: number}[]} values @param {number[]} finite @param {number} median
 */
function oddOnes(values, finite, median) {
  const spread = middle(finite.map((value) => Math.abs(value - median)).sort((a, b) => a - b));
  const far = Math.max(6 * spread, Math.abs(median) * 1e-6);
  const distance = (/** @type {number} */ value) => (Number.isFinite(value) ? Math.abs(value - median) : Infinity);
  const odd = values.filter(({ value }) => !Number.isFinite(value) || (finite.length > 2 && distance(value) > far));
  // Where most are odd, nobody is.
  if (odd.length * 2 > values.length) return [];
  return odd.sort((a, b) => (distance(b.value) > distance(a.value) ? 1 : -1)).slice(0, MAX_ODD);
}

export class Series {
  constructor() {
    /** @type {Point[]} */
    this.points = [];
  }

  /** @param {Point | null} point */
  add(point) {
    if (!point) return;
    this.points.push(point);
    if (this.points.length > MAX_POINTS) this.points.shift();
  }

  /** @returns {{low: number, high: number}} the range of all that is finite; never empty */
  get range() {
    const values = this.points.flatMap((point) => [point.low, point.high, ...point.odd.map(({ value }) => value)]);
    const finite = values.filter(Number.isFinite);
    const low = finite.length ? Math.min(...finite) : 0;
    const high = finite.length ? Math.max(...finite) : 1;
    const room = (high - low || Math.abs(high) || 1) * 0.06;
    return { low: low - room, high: high + room };
  }

  /** @returns {Map<string, (number | undefined)[]>} for each rank that was ever odd its values where it was */
  get odd() {
    /** @type {Map<string, (number | undefined)[]>} */
    const found = new Map();
    this.points.forEach((point, number) => {
      for (const { key, value } of point.odd) {
        const values = found.get(key) ?? Array.from({ length: this.points.length }, () => undefined);
        values[number] = value;
        found.set(key, values);
      }
    });
    return found;
  }
}
