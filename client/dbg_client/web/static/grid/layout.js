/**
 * Positions of the ranks' cells: blocks of equal size on one lattice, so a point is mapped to a rank without a search.
 *
 * @typedef {import("../job/ranks.js").Row} Row
 * @typedef {{down: string, across: string} | null} Axes two axes of the mesh; null: a block for each host
 * @typedef {{label: string, cells: {index: number, column: number, row: number}[]}} Block
 * @typedef {{text: string, x: number, y: number, width: number, end: boolean}} Label `end`: right-aligned at x + width
 * @typedef {{columns: number, rows: number, pitch: number, labels: Label[], of: Int32Array, at: Int32Array}} Layout
 *   `pitch`: pixels from cell to cell; `of`: the place of each rank, row * columns + column; `at`: the rank at each
 *   place, or -1.
 */

const LARGEST = 34;
const SMALLEST = 5;
/** Size in pixels of a cell if not all cells fit: large enough for the hole of a marked cell, and the grid scrolls. */
const SCROLLED = 8;
/** Size in pixels of the smallest cells with labels next to them. */
const NAMED = 11;
const WIDEST_HOST = 32;

/**
 * @param {Row[]} rows
 * @param {Axes} axes
 * @param {number} width
 * @param {number} height
 * @returns {Layout}
 */
export function layOut(rows, axes, width, height) {
  const blocks = axes ? blocksOfMesh(rows, axes) : blocksOfHosts(rows);
  const columns = 1 + Math.max(0, ...blocks.map((block) => maximum(block.cells, "column")));
  const lines = 1 + Math.max(0, ...blocks.map((block) => maximum(block.cells, "row")));
  const longest = Math.max(0, ...blocks.map((block) => block.label.length));
  const shape = { columns, lines, longest, isMesh: axes !== null, count: blocks.length };
  for (let pitch = LARGEST; pitch >= SMALLEST; pitch--) {
    const fitted = fit(shape, pitch, width, height);
    if (fitted && fitted.rows * pitch <= height) return placed(rows.length, blocks, fitted, pitch, shape);
  }
  const fitted = fit(shape, SCROLLED, Math.max(width, (columns + 2) * SCROLLED), 0);
  return placed(rows.length, blocks, /** @type {Fitted} */ (fitted), SCROLLED, shape);
}

/** @typedef {{columns: number, lines: number, longest: number, isMesh: boolean, count: number}} Shape */
/** @typedef {{left: number, top: number, blockColumns: number, blockRows: number, across: number, down: number,
 *   columns: number, rows: number}} Fitted */

/** Return the arrangement of blocks with cells of this pitch, or null if no block fits the width.
 * @param {Shape} shape @param {number} pitch @param {number} width @param {number} height 0: any
 * @returns {Fitted | null} */
function fit(shape, pitch, width, height) {
  const isNamed = pitch >= NAMED;
  const letters = shape.isMesh ? 4 : Math.min(shape.longest, 18);
  const left = isNamed ? Math.ceil((letters * 6.6 + 8) / pitch) : 0;
  const titles = shape.isMesh ? Number(isNamed) + Number(shape.longest > 0) : 0;
  const top = Math.ceil(14 / pitch) * titles;
  const blockColumns = left + shape.columns + 1;
  const blockRows = top + shape.lines + (shape.isMesh || shape.lines > 1 ? 1 : 0);
  const most = Math.floor((Math.floor(width / pitch) + 1) / blockColumns);
  if (most < 1) return null;
  // Fill a column of hosts from top to bottom before starting the next column.
  const below = Math.max(1, Math.floor((height || Infinity) / pitch / blockRows));
  const across = Math.max(1, Math.min(most, shape.isMesh || !height ? shape.count : Math.ceil(shape.count / below)));
  const down = Math.ceil(shape.count / across);
  return { left, top, blockColumns, blockRows, across, down, columns: across * blockColumns, rows: down * blockRows };
}

/**
 * @param {number} count @param {Block[]} blocks @param {Fitted} fitted @param {number} pitch @param {Shape} shape
 * @returns {Layout}
 */
function placed(count, blocks, fitted, pitch, shape) {
  const { columns, rows } = fitted;
  const of = new Int32Array(count);
  const at = new Int32Array(columns * rows).fill(-1);
  /** @type {Label[]} */
  const labels = [];
  blocks.forEach((block, number) => {
    // Order: hosts from top to bottom, as in a list; parts of a mesh from left to right.
    const column = shape.isMesh ? number % fitted.across : Math.floor(number / fitted.down);
    const row = shape.isMesh ? Math.floor(number / fitted.across) : number % fitted.down;
    const x = column * fitted.blockColumns + fitted.left;
    const y = row * fitted.blockRows + fitted.top;
    for (const cell of block.cells) {
      const place = (y + cell.row) * columns + x + cell.column;
      of[cell.index] = place;
      at[place] = cell.index;
    }
    labels.push(...labelsOf(block, x * pitch, y * pitch, pitch, fitted, shape));
  });
  return { columns, rows, pitch, labels, of, at };
}

/**
 * @param {Block} block @param {number} x @param {number} y @param {number} pitch @param {Fitted} fitted
 * @param {Shape} shape @returns {Label[]}
 */
function labelsOf(block, x, y, pitch, fitted, shape) {
  const left = fitted.left * pitch;
  if (!shape.isMesh) {
    return left ? [{ text: block.label, x: x - left, y: y + pitch / 2, width: left - 6, end: true }] : [];
  }
  /** @type {Label[]} */
  const labels = [];
  const title = fitted.top * pitch;
  if (block.label) {
    const middle = y - title + Math.min(8, title / 2);
    labels.push({ text: block.label, x, y: middle, width: shape.columns * pitch, end: false });
  }
  if (left) {
    for (let row = 0; row < shape.lines; row++) {
      labels.push({ text: String(row), x: x - left, y: y + (row + 0.5) * pitch, width: left - 6, end: true });
    }
    const every = pitch < 20 ? 2 : 1;
    for (let column = 0; column < shape.columns; column += every) {
      labels.push({ text: String(column), x: x + column * pitch + 2, y: y - 8, width: pitch * every, end: false });
    }
  }
  return labels;
}

/** @param {Row[]} rows @returns {Block[]} */
function blocksOfHosts(rows) {
  /** @type {Map<string, {row: Row, index: number}[]>} */
  const hosts = new Map();
  rows.forEach((row, index) => {
    const host = `${row.job}/${row.host}`;
    const there = hosts.get(host);
    if (there) there.push({ row, index });
    else hosts.set(host, [{ row, index }]);
  });
  const isOneJob = new Set(rows.map((row) => row.job)).size < 2;
  const most = Math.max(1, ...[...hosts.values()].map((there) => there.length));
  const wide = most <= WIDEST_HOST ? most : Math.max(WIDEST_HOST, Math.ceil(Math.sqrt(most * 2)));
  return [...hosts.values()].map((there) => {
    there.sort((a, b) => (a.row.local_rank ?? a.row.rank) - (b.row.local_rank ?? b.row.rank));
    const cells = there.map(({ index }, number) => ({ index, column: number % wide, row: Math.floor(number / wide) }));
    const { host, job } = there[0].row;
    return { label: isOneJob ? host : `${job}/${host}`, cells };
  });
}

/** @param {Row[]} rows @param {{down: string, across: string}} axes @returns {Block[]} */
function blocksOfMesh(rows, axes) {
  /** @type {Map<string, {label: string, cells: Block["cells"], taken: Set<string>}>} */
  const blocks = new Map();
  /** @type {number[]} */
  const placeless = [];
  rows.forEach((row, index) => {
    const { [axes.down]: down, [axes.across]: across, ...others } = row.coordinates;
    if (down === undefined || across === undefined) {
      placeless.push(index);
      return;
    }
    const label = Object.entries(others).map(([axis, place]) => `${axis} ${place}`).join(" ");
    const job = row.child === null ? row.job : `${row.job} children`;
    // Ranks with the same coordinates, as of two jobs, are in separate blocks.
    for (let layer = 0; ; layer++) {
      const name = JSON.stringify([job, label, layer]);
      const block = blocks.get(name) ?? { label, cells: [], taken: new Set() };
      blocks.set(name, block);
      if (block.taken.has(`${down},${across}`)) continue;
      block.taken.add(`${down},${across}`);
      block.cells.push({ index, column: across, row: down });
      return;
    }
  });
  const found = /** @type {Block[]} */ ([...blocks.values()]);
  const wide = 1 + Math.max(7, ...found.map((block) => maximum(block.cells, "column")));
  const tall = 1 + Math.max(7, ...found.map((block) => maximum(block.cells, "row")));
  for (let from = 0; from < placeless.length; from += wide * tall) {
    const cells = placeless.slice(from, from + wide * tall);
    found.push({
      label: "not in the mesh",
      cells: cells.map((index, number) => ({ index, column: number % wide, row: Math.floor(number / wide) })),
    });
  }
  return found;
}

/** @param {Block["cells"]} cells @param {"row" | "column"} side */
function maximum(cells, side) {
  return cells.reduce((most, cell) => Math.max(most, cell[side]), 0);
}

/** Return the index of the rank at a point, or -1. @param {Layout} layout @param {number} x @param {number} y */
export function rankAt(layout, x, y) {
  const column = Math.floor(x / layout.pitch);
  const row = Math.floor(y / layout.pitch);
  if (column < 0 || row < 0 || column >= layout.columns || row >= layout.rows) return -1;
  return layout.at[row * layout.columns + column];
}

/** Return the indices of ranks in a rectangle. @param {Layout} layout @param {number[]} corners x, y, x, y */
export function ranksIn(layout, [x1, y1, x2, y2]) {
  const found = [];
  const [left, right] = [Math.min(x1, x2), Math.max(x1, x2)].map((x) => Math.floor(x / layout.pitch));
  const [top, bottom] = [Math.min(y1, y2), Math.max(y1, y2)].map((y) => Math.floor(y / layout.pitch));
  for (let row = Math.max(0, top); row <= Math.min(bottom, layout.rows - 1); row++) {
    for (let column = Math.max(0, left); column <= Math.min(right, layout.columns - 1); column++) {
      const index = layout.at[row * layout.columns + column];
      if (index >= 0) found.push(index);
    }
  }
  return found;
}

/** Return the nearest rank in a direction, across gaps, or the same rank at the edge.
 * @param {Layout} layout @param {number} index @param {number} right @param {number} down */
export function neighbour(layout, index, right, down) {
  const place = layout.of[index];
  let column = (place % layout.columns) + right;
  let row = Math.floor(place / layout.columns) + down;
  while (column >= 0 && row >= 0 && column < layout.columns && row < layout.rows) {
    const found = layout.at[row * layout.columns + column];
    if (found >= 0) return found;
    column += right;
    row += down;
  }
  return index;
}
