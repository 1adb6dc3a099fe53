/**
 * The grid: a canvas with one cell per rank, and its mouse and keyboard actions.
 *
 * @typedef {import("../job/ranks.js").Row} Row
 * @typedef {import("./marks.js").Look} Look
 * @typedef {{rows: Row[], looks: Look[], selected: ReadonlySet<string>, found: ReadonlySet<string> | null,
 *   awaited: ReadonlySet<string>, axes: import("./layout.js").Axes}} Shown
 *   `found`: the search results, others are pale; `awaited`: ranks that others wait for, framed in every colouring
 */
import { byId, oncePerFrame } from "../job/dom.js";
import { layOut, neighbour, rankAt, ranksIn } from "./layout.js";
import { MARKS } from "./marks.js";

const ARROWS = /** @type {Record<string, [number, number]>} */ ({
  ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1],
});
/** Size in pixels of the smallest cells with a readable mark; smaller cells have a hole instead. */
const MARKED = 9;
/** Size in pixels of the smallest cells with the rank's number in them. */
const NUMBERED = 25;
const MAX_PIXELS = 16_000_000;

export class Grid {
  /**
   * @param {{hover: (row: Row | null, x: number, y: number) => void, select: (keys: string[], add: boolean) => void,
   *   point: (row: Row) => void, open: (row: Row) => void}} on
   */
  constructor(on) {
    this.on = on;
    this.element = byId("grid", HTMLElement);
    this.canvas = byId("cells", HTMLCanvasElement);
    this.drag = byId("drag", HTMLElement);
    /** @type {Shown} */
    this.shown = { rows: [], looks: [], selected: new Set(), found: null, awaited: new Set(), axes: null };
    this.layout = layOut([], null, 1, 1);
    /** Index of the rank under the keyboard cursor. */
    this.cursor = 0;
    /** @type {number[] | null} start and current point of a drag */
    this.dragged = null;
    /** @type {Map<string, string>} */
    this.colours = new Map();
    this.draw = oncePerFrame(() => this.paint());
    new ResizeObserver(() => this.arrange()).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.colours.clear();
      this.draw();
    });
    this.listen();
  }

  /** @param {Partial<Shown>} shown */
  show(shown) {
    const moves = (shown.rows && shown.rows !== this.shown.rows) || "axes" in shown;
    this.shown = { ...this.shown, ...shown };
    if (moves) this.arrange();
    this.draw();
  }

  arrange() {
    const { clientWidth, clientHeight } = this.element;
    if (!clientWidth) return;
    this.layout = layOut(this.shown.rows, this.shown.axes, clientWidth - 24, clientHeight - 24);
    this.cursor = Math.min(this.cursor, Math.max(0, this.shown.rows.length - 1));
    this.draw();
  }

  /** @param {string} name */
  colour(name) {
    let value = this.colours.get(name);
    if (value === undefined) {
      value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
      this.colours.set(name, value);
    }
    return value;
  }

  paint() {
    const { layout } = this;
    const width = Math.max(1, layout.columns * layout.pitch);
    const height = Math.max(1, layout.rows * layout.pitch);
    const ratio = Math.min(devicePixelRatio || 1, Math.sqrt(MAX_PIXELS / (width * height)));
    const [inner, outer] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== inner || this.canvas.height !== outer) {
      this.canvas.width = inner;
      this.canvas.height = outer;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    const context = this.canvas.getContext("2d");
    if (!context) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    this.paintCells(context);
    this.paintMarks(context);
    this.paintLabels(context);
    this.paintFrames(context);
  }

  /** @param {number} index @returns {[number, number]} */
  corner(index) {
    const { of, columns, pitch } = this.layout;
    return [(of[index] % columns) * pitch, Math.floor(of[index] / columns) * pitch];
  }

  get gap() {
    return this.layout.pitch < 8 ? 1 : 2;
  }

  /** @param {number} index */
  isPale(index) {
    const { found, rows } = this.shown;
    return found !== null && !found.has(rows[index].key);
  }

  /** Draw all cells, one path per colour. @param {CanvasRenderingContext2D} context */
  paintCells(context) {
    const { rows, looks } = this.shown;
    const edge = this.layout.pitch - this.gap;
    const radius = edge < 10 ? 0 : 2.5;
    /** @type {Map<string, Path2D>} */
    const paths = new Map();
    for (let index = 0; index < rows.length; index++) {
      const name = `${this.isPale(index) ? "pale " : ""}${looks[index].colour}`;
      let path = paths.get(name);
      if (!path) paths.set(name, (path = new Path2D()));
      const [x, y] = this.corner(index);
      if (radius) path.roundRect(x, y, edge, edge, radius);
      else path.rect(x, y, edge, edge);
    }
    for (const [name, path] of paths) {
      const isPale = name.startsWith("pale ");
      context.globalAlpha = isPale ? 0.16 : 1;
      context.fillStyle = this.colour(isPale ? name.slice(5) : name);
      context.fill(path);
    }
    context.globalAlpha = 1;
  }

  /** @param {CanvasRenderingContext2D} context */
  paintMarks(context) {
    const { rows, looks } = this.shown;
    const edge = this.layout.pitch - this.gap;
    const numbers = edge + this.gap >= NUMBERED;
    context.lineCap = "round";
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let index = 0; index < rows.length; index++) {
      const { mark } = looks[index];
      if ((mark === "none" && !numbers) || this.isPale(index)) continue;
      const [x, y] = this.corner(index);
      if (numbers) {
        // In a marked cell the number is below the mark.
        const middle = mark === "none" ? 0.52 : 0.75;
        context.fillStyle = this.colour(mark === "none" ? "on-calm" : "on-mark");
        context.font = `${rows[index].rank > 999 ? 9 : 11}px ${this.colour("sans")}`;
        context.fillText(String(rows[index].rank), x + edge / 2, y + edge * middle, edge - 2);
        if (mark !== "none") this.paintMark(context, mark, x + edge * 0.22, y + edge * 0.04, edge * 0.56);
      } else if (edge < MARKED - 1) {
        context.fillStyle = this.colour("on-mark");
        const hole = Math.max(2, Math.floor(edge / 3));
        context.fillRect(x + (edge - hole) / 2, y + (edge - hole) / 2, hole, hole);
      } else {
        this.paintMark(context, mark, x, y, edge);
      }
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {string} mark @param {number} x @param {number} y
   * @param {number} edge */
  paintMark(context, mark, x, y, edge) {
    context.save();
    context.translate(x, y);
    context.scale(edge / 12, edge / 12);
    context.strokeStyle = this.colour("on-mark");
    context.lineWidth = 1.7;
    context.stroke(new Path2D(MARKS[mark]));
    context.restore();
  }

  /** @param {CanvasRenderingContext2D} context */
  paintLabels(context) {
    context.fillStyle = this.colour("muted");
    context.font = `11px ${this.colour("sans")}`;
    context.textBaseline = "middle";
    for (const { text, x, y, width, end } of this.layout.labels) {
      context.textAlign = end ? "right" : "left";
      context.fillText(text, end ? x + width : x, y, width);
    }
  }

  /** Frame awaited and selected ranks and the cursor. @param {CanvasRenderingContext2D} context */
  paintFrames(context) {
    const { rows, selected, awaited } = this.shown;
    const edge = this.layout.pitch - this.gap;
    this.paintFramesOf(context, awaited, this.colour("missing"), 3.5);
    this.paintFramesOf(context, selected, this.colour("text"), this.layout.pitch < 12 ? 1.5 : 2);
    if (!rows.length || document.activeElement !== this.element) return;
    const [x, y] = this.corner(this.cursor);
    context.strokeStyle = this.colour("accent");
    context.lineWidth = 2;
    context.strokeRect(x - 1.5, y - 1.5, edge + 3, edge + 3);
  }

  /** @param {CanvasRenderingContext2D} context @param {ReadonlySet<string>} keys @param {string} colour
   * @param {number} line */
  paintFramesOf(context, keys, colour, line) {
    const { rows } = this.shown;
    const edge = this.layout.pitch - this.gap;
    const frames = new Path2D();
    for (let index = 0; keys.size && index < rows.length; index++) {
      if (!keys.has(rows[index].key)) continue;
      const [x, y] = this.corner(index);
      frames.rect(x - 0.5, y - 0.5, edge + 1, edge + 1);
    }
    context.strokeStyle = colour;
    context.lineWidth = line;
    context.stroke(frames);
  }

  // -------------------------------------------------------------------------------------------- mouse and keyboard

  /** @param {MouseEvent} event @returns {[number, number]} */
  at(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }

  listen() {
    const { element } = this;
    element.addEventListener("pointermove", (event) => this.moved(event));
    element.addEventListener("pointerleave", () => this.on.hover(null, 0, 0));
    element.addEventListener("pointerdown", (event) => {
      if (event.button || event.pointerType === "touch") return;
      this.dragged = [...this.at(event), ...this.at(event)];
    });
    element.addEventListener("pointerup", (event) => this.released(event));
    element.addEventListener("pointercancel", () => this.endDrag());
    element.addEventListener("dblclick", (event) => {
      const row = this.shown.rows[rankAt(this.layout, ...this.at(event))];
      if (row) this.on.open(row);
    });
    element.addEventListener("keydown", (event) => this.pressed(event));
    for (const kind of ["focus", "blur"]) element.addEventListener(kind, this.draw);
  }

  /** @param {PointerEvent} event */
  moved(event) {
    const [x, y] = this.at(event);
    if (!this.dragged || !(event.buttons & 1)) {
      this.dragged = null;
      this.on.hover(this.shown.rows[rankAt(this.layout, x, y)] ?? null, event.clientX, event.clientY);
      return;
    }
    this.dragged.splice(2, 2, x, y);
    const [x1, y1] = this.dragged;
    if (Math.hypot(x - x1, y - y1) < 4 && this.drag.hidden) return;
    if (this.drag.hidden) this.element.setPointerCapture(event.pointerId);
    this.drag.hidden = false;
    this.on.hover(null, 0, 0);
    const { offsetLeft, offsetTop } = this.canvas;
    Object.assign(this.drag.style, {
      left: `${offsetLeft + Math.min(x, x1)}px`, top: `${offsetTop + Math.min(y, y1)}px`,
      width: `${Math.abs(x - x1)}px`, height: `${Math.abs(y - y1)}px`,
    });
  }

  /** @param {PointerEvent} event */
  released(event) {
    const adds = event.shiftKey || event.ctrlKey || event.metaKey;
    const { rows } = this.shown;
    if (this.dragged && !this.drag.hidden) {
      this.on.select(ranksIn(this.layout, this.dragged).map((index) => rows[index].key), adds);
    } else if (!event.button) {
      const index = rankAt(this.layout, ...this.at(event));
      if (index >= 0) this.goTo(index);
      this.on.select(index >= 0 ? [rows[index].key] : [], adds);
    }
    this.endDrag();
  }

  endDrag() {
    this.dragged = null;
    this.drag.hidden = true;
  }

  /** @param {number} index */
  goTo(index) {
    this.cursor = index;
    const row = this.shown.rows[index];
    if (!row) return;
    const [x, y] = this.corner(index);
    const { scrollTop, clientHeight, clientWidth, scrollLeft } = this.element;
    const { pitch } = this.layout;
    if (y < scrollTop || y + pitch > scrollTop + clientHeight - 24) this.element.scrollTop = y - clientHeight / 2;
    if (x < scrollLeft || x + pitch > scrollLeft + clientWidth - 24) this.element.scrollLeft = x - clientWidth / 2;
    this.on.point(row);
    this.draw();
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const { rows, selected } = this.shown;
    const row = rows[this.cursor];
    const arrow = ARROWS[event.key];
    if (!row || event.altKey || (!arrow && (event.ctrlKey || event.metaKey))) return;
    if (arrow) {
      const from = row.key;
      let next = this.cursor;
      for (let step = event.ctrlKey ? 8 : 1; step > 0; step--) next = neighbour(this.layout, next, ...arrow);
      this.goTo(next);
      if (event.shiftKey) this.on.select([...selected, from, rows[next].key], false);
    } else if (event.key === " ") {
      this.on.select([row.key], true);
    } else if (event.key === "Enter") {
      this.on.open(row);
    } else if (event.key === "Home" || event.key === "End") {
      this.goTo(event.key === "Home" ? 0 : rows.length - 1);
    } else {
      return;
    }
    event.preventDefault();
  }
}
