/**
 * The ranks as a table, most urgent first: narrow screens and screen readers use it instead of the grid.
 *
 * @typedef {import("../job/ranks.js").Row} Row
 * @typedef {import("./marks.js").Look} Look
 */
import { ageOf, button, byId, h, refill, swatch } from "../job/dom.js";

const PER_PAGE = 100;
const HEADERS = ["Rank", "State", "Place", "Since", "Who", "Detail"];

export class List {
  /** @param {{open: (row: Row) => void, select: (keys: string[], add: boolean) => void}} on */
  constructor(on) {
    this.on = on;
    this.element = byId("list", HTMLElement);
    this.page = 0;
    /** @type {{rows: Row[], look: (row: Row) => Look, name: (row: Row) => string, selected: ReadonlySet<string>,
     *   now: number, isSeen: boolean}} `isSeen`: the list is shown instead of the grid, and can have the focus */
    this.shown = {
      rows: [], look: () => ({ colour: "", mark: "none", name: "" }), name: (row) => row.address, selected: new Set(),
      now: 0, isSeen: false,
    };
  }

  /** @param {Partial<List["shown"]>} shown */
  show(shown) {
    this.shown = { ...this.shown, ...shown };
    const pages = Math.max(1, Math.ceil(this.shown.rows.length / PER_PAGE));
    this.page = Math.min(this.page, pages - 1);
    const rows = this.shown.rows.slice(this.page * PER_PAGE, (this.page + 1) * PER_PAGE);
    const table = h("table", { class: "table" },
      h("thead", {}, h("tr", {}, ...HEADERS.map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, ...rows.map((row) => this.line(row))));
    refill(this.element, table, pages > 1 ? this.pager(pages) : "");
  }

  /** @param {Row} row */
  line(row) {
    const { look, selected, now, isSeen } = this.shown;
    const name = button({
      class: "name", "data-key": row.key, "aria-pressed": String(selected.has(row.key)),
      tabindex: isSeen ? null : -1,
      onclick: (/** @type {MouseEvent} */ event) => this.on.select([row.key], event.ctrlKey || event.shiftKey),
      ondblclick: () => this.on.open(row),
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        // As in the grid: Space selects, Enter opens.
        if (event.key !== "Enter") return;
        event.preventDefault();
        this.on.open(row);
      },
    }, this.shown.name(row));
    const cells = [row.state, row.place, row.since ? ageOf(row.since, now) : "", row.who, row.detail];
    return h("tr", {}, h("th", { scope: "row" }, swatch(look(row)), name), ...cells.map((one) => h("td", {}, one)));
  }

  /** @param {number} pages */
  pager(pages) {
    const turn = (/** @type {number} */ by) => () => {
      this.page = Math.min(Math.max(0, this.page + by), pages - 1);
      this.show({});
      this.element.scrollTop = 0;
    };
    const tabindex = this.shown.isSeen ? null : -1;
    return h("p", { class: "pager" },
      button({ onclick: turn(-1), disabled: this.page === 0, tabindex }, "Previous"),
      h("span", {}, `page ${this.page + 1} of ${pages}`),
      button({ onclick: turn(1), disabled: this.page === pages - 1, tabindex }, "Next"));
  }
}
