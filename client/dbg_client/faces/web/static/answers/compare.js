/**
 * What has changed between two answers: which ranks went from which group to which.
 *
 * @typedef {{id: string, text: string, keys: ReadonlySet<string>}} Part
 * @typedef {{from: string | null, to: string | null, keys: string[], same: boolean}} Move
 *   texts of both; null: not asked
 */

/**
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
