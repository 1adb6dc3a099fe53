/** Terminals side by side; the open ones are restored after a reload of the page. */
import { h } from "../job/dom.js";
import { Pane } from "./pane.js";

const MAX_PANES = 12;
const KEPT = "dbg-terminals";

/** @typedef {import("../job/ranks.js").Row} Row */

export class Panes {
  /**
   * @param {HTMLElement} element
   * @param {{rows: () => Row[], name: (row: Row) => string, canDrive: () => boolean,
   *   leave: (to: "grid" | "ask") => void, help: () => void}} on
   */
  constructor(element, on) {
    this.element = element;
    this.on = on;
    /** @type {Pane[]} */
    this.panes = [];
    this.empty = h("p", { class: "empty" }, "To open a rank's debugger, press Enter on it or double-click it.");
    element.append(this.empty);
  }

  /** Open a rank's terminal, or focus the open one. @param {{key: string, address: string}} rank
   * @param {import("./pane.js").Mode} mode @param {boolean} [focus] */
  open(rank, mode, focus = true) {
    let pane = this.panes.find((one) => one.key === rank.key && !one.isOver);
    if (!pane) {
      this.panes.filter((one) => one.key === rank.key).forEach((one) => this.close(one));
      if (this.panes.length >= MAX_PANES) this.close(this.panes[0]);
      pane = new Pane(rank.key, rank.address, this.on.canDrive() ? mode : "watch", {
        canDrive: this.on.canDrive, leave: this.on.leave, help: this.on.help,
        again: (one, wanted) => this.open(one, wanted), close: (one) => this.close(one),
        next: (one, by) => this.next(one, by),
      });
      this.panes.push(pane);
      this.element.append(pane.element);
      pane.line.dial();
      this.keep();
    }
    if (focus) {
      pane.element.scrollIntoView({ block: "nearest", inline: "nearest" });
      pane.focus();
    }
  }

  /** @param {Pane} pane */
  close(pane) {
    const hadFocus = pane.element.contains(document.activeElement);
    this.panes = this.panes.filter((one) => one !== pane);
    pane.dispose();
    this.keep();
    if (hadFocus) this.panes.length ? this.panes.at(-1)?.focus() : this.on.leave("grid");
  }

  /** Replace one rank's terminal by that of the next stopped rank. @param {Pane} pane @param {number} by */
  next(pane, by) {
    const stopped = this.on.rows().filter((row) => ["stopped", "crashed"].includes(row.state) || row.key === pane.key);
    if (stopped.length < 2) {
      pane.tell("No other rank is stopped.");
      return;
    }
    const at = stopped.findIndex((row) => row.key === pane.key);
    const { mode } = pane;
    const row = stopped[(at + by + stopped.length) % stopped.length];
    this.close(pane);
    this.open({ key: row.key, address: this.on.name(row) }, mode === "take" ? "drive" : mode);
  }

  keep() {
    this.empty.hidden = this.panes.length > 0;
    const kept = this.panes.map(({ key, address, mode }) => ({ key, address, mode: mode === "take" ? "drive" : mode }));
    sessionStorage.setItem(KEPT, JSON.stringify(kept));
  }

  /** Reopen the terminals that were open before a reload. */
  restore() {
    /** @type {{key: string, address: string, mode: import("./pane.js").Mode}[]} */
    const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
    for (const one of kept) this.open(one, one.mode, false);
  }
}
