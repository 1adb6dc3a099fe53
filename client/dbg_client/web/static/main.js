/** The page: connects the server's messages, the views and the user's actions. */
import { Panel } from "./answers/panel.js";
import { Why } from "./answers/verdict.js";
import { Grid } from "./grid/grid.js";
import { countsView, factsOf, legendOf } from "./grid/legend.js";
import { List } from "./grid/list.js";
import { lookOfCondition, looksOfGroups, MISSING } from "./grid/marks.js";
import { Dock, listenToKeys, showHelp } from "./job/dock.js";
import { button, byId, h, oncePerFrame, refill } from "./job/dom.js";
import { Live } from "./job/link.js";
import { duration, Ranks } from "./job/ranks.js";
import { addressed, formatRows, hasText } from "./job/sets.js";
import { Panes } from "./terminals/panes.js";

/** @typedef {import("./job/ranks.js").Row} Row */
/** @typedef {import("./grid/marks.js").Look} Look */

const UNKNOWN = { colour: "exited", mark: "none", name: "not asked" };
/** Milliseconds after the last typed letter before a search starts. */
const TYPED = 150;
const NARROW = matchMedia("(max-width: 760px)");

class Page {
  constructor() {
    this.ranks = new Ranks();
    /** @type {ReadonlySet<string>} */
    this.selected = new Set();
    /** @type {ReadonlySet<string> | null} */
    this.found = null;
    /** @type {any} the server's first message */
    this.hello = { drive: false, target: "", nobody: "", release: "", now: 0 };
    /** Seconds by which the server's clock is ahead of this one. */
    this.ahead = 0;
    /** @type {{name: string, size: number}[]} */
    this.meshAxes = [];
    /** @type {string[]} lines about missing ranks */
    this.missing = [];
    this.draw = oncePerFrame(() => this.paint());
    this.live = new Live((message) => this.take(message), (up, hasEnded) => this.connected(up, hasEnded));
    this.dock = new Dock(() => {
      this.why.fold();
      this.draw();
    });
    this.grid = new Grid({
      hover: (row, x, y) => this.hover(row, x, y), select: (keys, add) => this.select(keys, add),
      point: (row) => this.inspect(row), open: (row) => this.open(row),
    });
    this.list = new List({ open: (row) => this.open(row), select: (keys, add) => this.select(keys, add) });
    this.panel = new Panel(this.live, {
      whom: () => this.whom(), shown: () => this.answered(), choose: (keys) => this.select(keys, false),
    });
    this.why = new Why(byId("why", HTMLElement), {
      choose: (keys) => this.select(keys, false),
      canDrive: () => this.hello.drive, ask: (line, job) => this.panel.put({ line, job }, line),
    });
    this.panes = new Panes(byId("terminals", HTMLElement), {
      rows: () => this.ranks.rows, name: (row) => this.ranks.nameOf(row), canDrive: () => this.hello.drive,
      help: showHelp,
      leave: (to) => (to === "ask" ? this.panel.line : this.grid.element).focus(),
    });
    this.wasUp = false;
  }

  start() {
    const { search, colours, axes } = this.fields();
    search.addEventListener("input", () => void this.search(search.value));
    search.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      void this.search(search.value).then(() => this.found && this.select([...this.found], false));
    });
    colours.addEventListener("change", () => this.draw());
    axes.addEventListener("change", () => this.draw());
    byId("view", HTMLButtonElement).addEventListener("click", () => this.setList(!this.isListed));
    byId("help", HTMLButtonElement).addEventListener("click", showHelp);
    listenToKeys(this.keys());
    NARROW.addEventListener("change", () => this.setList(NARROW.matches));
    this.setList(NARROW.matches);
    setInterval(() => this.tick(), 1000);
    this.live.line.dial();
  }

  fields() {
    return {
      search: byId("search", HTMLInputElement), colours: byId("colours", HTMLSelectElement),
      axes: byId("axes", HTMLSelectElement),
    };
  }

  /** @returns {Record<string, () => void>} */
  keys() {
    const { search, colours } = this.fields();
    return {
      "/": () => search.focus(), ":": () => this.panel.line.focus(), "?": showHelp,
      g: () => this.focusRanks(), l: () => this.setList(!this.isListed),
      a: () => this.select([...(this.found ?? this.ranks.byKey.keys())], false),
      Escape: () => this.clear(), "[": () => this.panel.move(-1), "]": () => this.panel.move(1),
      c: () => {
        colours.value = colours.value === "state" ? "answer" : "state";
        this.draw();
      },
      v: () => this.why.element.querySelector("summary")?.focus(),
      w: () => {
        const row = this.inspected ?? this.ranks.rows[this.grid.cursor];
        if (row) this.open(row, "watch");
      },
    };
  }

  get now() {
    return Date.now() / 1000 + this.ahead;
  }

  // ----------------------------------------------------------------------------------------------- server messages

  /** @param {boolean} up @param {boolean} hasEnded */
  connected(up, hasEnded) {
    if (!up) this.panel.disconnected();
    const isLong = hasEnded || this.live.line.failures > 4;
    const gone = hasEnded ? "the command has ended; start it again, and open its new link"
      : isLong ? "no server; if the command has ended, open a new link" : "no connection to the server";
    this.tellLink(up ? "" : this.wasUp || isLong ? gone : "connecting…");
    this.wasUp ||= up;
  }

  /** @param {string} text */
  tellLink(text) {
    const link = byId("link", HTMLElement);
    link.textContent = text;
    document.body.classList.toggle("stale", Boolean(text));
  }

  /** @param {import("./job/link.js").Message} message */
  take(message) {
    const { type } = message;
    if (type === "hello") this.greet(message);
    else if (type === "job") this.setJob(message.axes, message.missing);
    else if (type === "ranks") this.ranks.snapshot(message.rows, message.last);
    else if (type === "change") this.ranks.change(message.rows, message.gone);
    else if (type === "link") this.tellLink(message.up ? "" : message.reason || "no connection to the broker");
    else if (type === "verdict") this.why.take(message);
    else {
      this.panel.take(message);
      return;
    }
    this.draw();
  }

  /** @param {any} hello */
  greet(hello) {
    const isFirst = !this.hello.release;
    this.ranks.coming.clear();
    this.hello = hello;
    this.ahead = hello.now - Date.now() / 1000;
    byId("target", HTMLElement).textContent = hello.target;
    const role = byId("role", HTMLElement);
    role.textContent = hello.drive ? "drive" : "read-only";
    role.title = hello.drive ? "This page may type and change ranks." : hello.why_not;
    role.className = hello.drive ? "chip drives" : "chip";
    this.panel.allow(hello.drive);
    if (isFirst) this.panes.restore();
    if (isFirst && this.panes.panes.length) this.dock.open();
  }

  /** @param {{name: string, size: number}[]} axes @param {string[]} missing */
  setJob(axes, missing) {
    this.missing = missing;
    this.meshAxes = axes.filter((axis) => axis.size > 1);
    const { axes: select } = this.fields();
    const kept = select.value;
    const names = this.meshAxes.map((axis) => axis.name);
    const pairs = names.flatMap((down) => names.filter((one) => one !== down).map((across) => ({ down, across })));
    select.replaceChildren(h("option", { value: "" }, "host × local rank"), ...pairs.map((pair) =>
      h("option", { value: JSON.stringify(pair) }, `${pair.down} × ${pair.across}`)));
    select.value = kept;
    if (select.selectedIndex < 0) select.value = "";
  }

  // ------------------------------------------------------------------------------------------------------ drawing

  /** @returns {(row: Row) => Look} */
  look() {
    const { shown } = this.panel.history;
    const byState = this.fields().colours.value === "state" || !shown?.groups.length;
    if (byState) {
      const awaited = this.why.missing;
      return (row) => (awaited.has(row.key) ? MISSING : lookOfCondition(row.state));
    }
    const looks = looksOfGroups(shown.groups);
    // Groups are sorted largest first, so a rank in several groups, as with threads, gets the look of the rarest.
    const byKey = new Map(shown.groups.flatMap((group) =>
      group.keys.map((key) => /** @type {const} */ ([key, looks.get(group.id)]))));
    // A rank that has stopped or exited since the answer is marked in this colouring, too.
    const at = shown.answer?.at ?? 0;
    return (row) => (row.since > at && row.state !== "running" ? lookOfCondition(row.state)
      : byKey.get(row.key) ?? UNKNOWN);
  }

  paint() {
    const { rows } = this.ranks;
    const look = this.look();
    const { axes } = this.fields();
    const shownAxes = axes.value ? JSON.parse(axes.value) : null;
    const sameAxes = JSON.stringify(shownAxes) === JSON.stringify(this.grid.shown.axes);
    const { selected, found } = this;
    const awaited = this.why.missing;
    this.grid.show({ rows, looks: rows.map(look), selected, found, awaited, ...(sameAxes ? {} : { axes: shownAxes }) });
    if (this.isListed) this.paintList(look);
    else this.isListOld = true;
    this.paintInspected();
    this.paintCounts();
    this.paintLegend();
    byId("whom", HTMLElement).textContent = this.whom().text;
  }

  /** Whether the list is out of date. Screen readers use it instead of the grid, so it is redrawn once a second. */
  isListOld = false;

  /** @param {(row: Row) => Look} look */
  paintList(look) {
    this.isListOld = false;
    const rows = this.ranks.urgentFirst(this.why.missing).filter((row) => !this.found || this.found.has(row.key));
    const name = (/** @type {Row} */ row) => this.ranks.nameOf(row);
    this.list.show({ rows, look, name, selected: this.selected, now: this.now, isSeen: this.isListed });
  }

  paintCounts() {
    const { job } = this.ranks;
    document.title = `${job || this.hello.target || "ranks"} · dbg-attach`;
    byId("job", HTMLElement).textContent = job || "dbg-attach";
    byId("nobody", HTMLElement).textContent = this.ranks.rows.length ? "" : this.hello.nobody;
    refill(byId("counts", HTMLElement),
      ...countsView(this.ranks, this.why.missing, this.missing, (keys) => this.select(keys, false)));
  }

  paintLegend() {
    const { shown } = this.panel.history;
    const byAnswer = this.fields().colours.value === "answer" && shown?.groups.length;
    // The counts at the top are the legend of states.
    document.body.classList.toggle("by-answer", Boolean(byAnswer));
    byId("legend", HTMLElement).replaceChildren(...(byAnswer ? legendOf(shown.groups) : []));
    const counts = [...this.ranks.counts()].map(([one, count]) => `${count} ${one}`).join(", ");
    this.grid.element.setAttribute("aria-label", `${counts}. The list has the ranks as a table.`);
  }

  tick() {
    if (this.isListOld) this.paintList(this.look());
    for (const one of document.querySelectorAll("[data-since]")) {
      one.textContent = duration(this.now - Number(one.getAttribute("data-since")));
    }
  }

  // ------------------------------------------------------------------------------------------------- user actions

  whom() {
    const chosen = this.ranks.rows.filter((row) => this.selected.has(row.key));
    if (!chosen.length) return { keys: [], ranks: "", text: this.hello.target || "all ranks" };
    return addressed(chosen, this.ranks.rows);
  }

  /** @param {string[]} keys */
  name(keys) {
    const set = new Set(keys);
    const text = formatRows(this.ranks.rows.filter((row) => set.has(row.key)), this.ranks.rows);
    return text.length > 60 ? `${set.size} ranks` : text || `${set.size} ranks that are gone`;
  }

  /** Select ranks; with `add` keep the selection, and deselect a single rank that is already selected.
   * @param {string[]} keys @param {boolean} add */
  select(keys, add) {
    const selected = new Set(add ? this.selected : []);
    const isOff = add && keys.length === 1 && selected.has(keys[0]);
    for (const key of keys) if (this.ranks.byKey.has(key)) isOff ? selected.delete(key) : selected.add(key);
    this.selected = selected;
    const row = keys.length === 1 ? this.ranks.byKey.get(keys[0]) : undefined;
    const sum = selected.size ? `${selected.size} selected: ${this.name([...selected])}` : "";
    if (row && selected.size === 1) this.inspect(row);
    else this.tellSelected(sum);
    this.draw();
  }

  /** @param {string} text */
  tellSelected(text) {
    this.inspected = null;
    byId("inspector", HTMLElement).replaceChildren(...(text ? [h("span", {}, text)] : []));
  }

  clear() {
    const { search } = this.fields();
    search.value = "";
    void this.search("");
    this.select([], false);
    this.focusRanks();
  }

  focusRanks() {
    if (this.isListed) this.list.element.querySelector("button")?.focus();
    else this.grid.element.focus();
  }

  /** Find ranks by a set, which the server reads as in a question, or by part of the text in the list.
   * @param {string} text */
  async search(text) {
    // With very many ranks a search keeps the server busy for a tenth of a second, so wait for a pause in typing.
    await new Promise((resolve) => setTimeout(resolve, text.trim() ? TYPED : 0));
    if (text !== this.fields().search.value) return;
    const withText = () => this.ranks.rows.filter(hasText(text)).map((row) => row.key);
    const shown = this.panel.history.shown?.id ?? null;
    const keys = text.trim() ? await this.live.find(text, shown).then((found) => found.keys, withText) : null;
    // Newer text has its own search.
    if (text !== this.fields().search.value) return;
    this.found = keys && new Set(keys);
    if (this.found) this.tellSelected(`${this.found.size} found; Enter selects them`);
    this.draw();
  }

  /** @type {Row | null} the rank that is shown below the grid */
  inspected = null;

  /** Update the shown facts of the inspected rank. */
  paintInspected() {
    const row = this.inspected && this.ranks.byKey.get(this.inspected.key);
    if (row && row !== this.inspected) this.inspect(row);
  }

  /** @param {Row} row */
  inspect(row) {
    this.inspected = row;
    const actions = [button({ onclick: () => this.open(row) }, this.hello.drive ? "Open" : "Watch")];
    if (this.hello.drive) actions.push(button({ onclick: () => this.open(row, "watch") }, "Watch"));
    refill(byId("inspector", HTMLElement), ...factsOf(row, this.ranks.nameOf(row), this.now), ...actions);
  }

  /** @param {Row | null} row @param {number} x @param {number} y */
  hover(row, x, y) {
    const tip = byId("tip", HTMLElement);
    tip.hidden = !row;
    if (!row) return;
    const { shown } = this.panel.history;
    const group = shown?.groups.find((one) => one.keys.includes(row.key));
    const answered = group?.text ? h("code", {}, `${group.id}  ${group.text.slice(0, 200)}`) : "";
    tip.replaceChildren(...factsOf(row, this.ranks.nameOf(row), this.now), answered);
    tip.style.left = `${Math.min(x + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(y + 16, innerHeight - tip.offsetHeight - 8)}px`;
  }

  /** @param {Row} row @param {import("./terminals/pane.js").Mode} [mode] */
  open(row, mode = "drive") {
    this.dock.open();
    this.panes.open({ key: row.key, address: this.ranks.nameOf(row) }, mode);
  }

  /** Colour the grid by an answer when it arrives. */
  answered() {
    const { colours } = this.fields();
    if (this.panel.history.shown?.groups.length) colours.value = "answer";
    this.draw();
  }

  get isListed() {
    return document.body.classList.contains("listed");
  }

  /** @param {boolean} listed */
  setList(listed) {
    document.body.classList.toggle("listed", listed);
    byId("view", HTMLButtonElement).setAttribute("aria-pressed", String(listed));
    this.draw();
  }
}

new Page().start();
