/**
 * The ranks as the server reports them: a map by key, and an order.
 *
 * @typedef {object} Row a rank as described by the server, with its indices on the mesh
 * @property {string} key
 * @property {string} address
 * @property {string} job
 * @property {string} host
 * @property {number} rank
 * @property {number | null} local_rank
 * @property {number | null} child
 * @property {Condition} state
 * @property {string} place
 * @property {number} since
 * @property {string} who
 * @property {string} detail
 * @property {Record<string, number>} coordinates
 */

/** A rank's states, for its colour and mark, in the order of legends: `crashed` is a stop after an exception. */
export const CONDITIONS = /** @type {const} */ ([
  "running", "stopped", "crashed", "held", "unresponsive", "lost", "exited",
]);

/** @typedef {(typeof CONDITIONS)[number]} Condition */

/** Conditions, the most urgent first. */
const URGENT = ["crashed", "stopped", "unresponsive", "lost", "held", "running", "exited"];

/** Compare two ranks in list order: by job, rank and child. @param {Row} a @param {Row} b */
function compareRows(a, b) {
  return (
    order(a.job, b.job) || a.rank - b.rank || (a.child ?? -1) - (b.child ?? -1) ||
    order(a.address, b.address) || order(a.key, b.key)
  );
}

/** @param {string} a @param {string} b */
function order(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** @param {number} seconds @returns {string} a duration in at most two units, such as `4 min 12 s` */
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

export class Ranks {
  constructor() {
    /** @type {Map<string, Row>} */
    this.byKey = new Map();
    /** @type {Row[]} */
    this.rows = [];
    /** @type {Map<string, Row>} rows received of a new snapshot, until it is complete */
    this.coming = new Map();
  }

  /** Add a page of a snapshot; the last page replaces all ranks.
   * @param {Row[]} rows @param {boolean} last */
  snapshot(rows, last) {
    for (const row of rows) this.coming.set(row.key, row);
    if (!last) return false;
    this.byKey = this.coming;
    this.coming = new Map();
    this.rows = [...this.byKey.values()].sort(compareRows);
    return true;
  }

  /** Store changed rows and forget keys; return true if ranks were added or removed.
   * @param {Row[]} rows @param {string[]} gone */
  change(rows, gone) {
    let moved = false;
    for (const key of gone) moved = this.byKey.delete(key) || moved;
    for (const row of rows) {
      moved = !this.byKey.has(row.key) || moved;
      this.byKey.set(row.key, row);
    }
    this.rows = moved ? [...this.byKey.values()].sort(compareRows)
      : this.rows.map((row) => this.byKey.get(row.key) ?? row);
    return moved;
  }

  /** Whether the ranks are of more than one job. */
  get areOfJobs() {
    return this.rows.length > 0 && this.rows[0].job !== this.rows[this.rows.length - 1].job;
  }

  /** The job of all ranks; empty if they are of several jobs, or if there are none. */
  get job() {
    return this.rows.length && !this.areOfJobs ? this.rows[0].job : "";
  }

  /** Return a rank's name among these ranks. @param {{job: string, address: string}} row */
  nameOf({ job, address }) {
    return this.areOfJobs ? `${job}/${address}` : address;
  }

  /** @returns {Map<Condition, number>} number of ranks in each occurring condition, in the order of legends */
  counts() {
    const counted = new Map(CONDITIONS.map((one) => [one, 0]));
    for (const row of this.rows) {
      counted.set(row.state, (counted.get(row.state) ?? 0) + 1);
    }
    return new Map([...counted].filter(([, count]) => count));
  }

  /** @param {ReadonlySet<string>} awaited the keys of ranks that others wait for
   * @returns {Row[]} the rows, most urgent condition first; ranks of one condition in list order */
  urgentFirst(awaited) {
    const shelves = new Map(["awaited", ...URGENT].map((one) => [one, /** @type {Row[]} */ ([])]));
    for (const row of this.rows) shelves.get(awaited.has(row.key) ? "awaited" : row.state)?.push(row);
    return [...shelves.values()].flat();
  }
}
