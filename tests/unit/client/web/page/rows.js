/** Rows for the tests of the page's modules. */

/** @typedef {import("../../../../../client/dbg_client/web/static/job/ranks.js").Row} Row */

/** @param {number} rank @param {Partial<Row>} [other] @returns {Row} */
export function row(rank, other = {}) {
  const host = other.host ?? `gpu${String(Math.floor(rank / 8)).padStart(3, "0")}`;
  return {
    key: `${other.job ?? "4711.0"}/${rank}${other.child ?? ""}`, address: `${host}:${rank}`, job: "4711.0", host, rank,
    local_rank: rank % 8, child: null, state: "running", place: "", since: 1000, who: "", detail: "",
    coordinates: { dp: Math.floor(rank / 8), tp: rank % 8 }, ...other,
  };
}

/** @param {number} count @returns {Row[]} */
export function rowsOf(count) {
  return Array.from({ length: count }, (_, rank) => row(rank));
}
