/**
 * The input line for questions, the answer that is shown, and the history of answers.
 *
 * @typedef {import("../job/link.js").Live} Live
 * @typedef {import("./groups.js").On} On
 */
import { button, byId, h, oncePerFrame, refill, timeOfDay } from "../job/dom.js";
import { Entry, History } from "../job/history.js";
import { answerView } from "./groups.js";

const LOOKS = ["where", "why", "collectives", "slow 5"];
const DEEDS = ["command n", "continue", "interrupt"];

export class Panel {
  /**
   * @param {Live} live
   * @param {On & {whom: () => {keys: string[], ranks: string, text: string}, shown: () => void}} on
   *   `whom`: the selected ranks, by keys or as a target; `shown` is called when another answer is shown
   */
  constructor(live, on) {
    this.live = live;
    this.on = on;
    this.history = new History();
    this.line = byId("line", HTMLInputElement);
    this.said = byId("asking", HTMLElement);
    this.answer = byId("answer", HTMLElement);
    this.chosen = byId("history", HTMLSelectElement);
    /** Position of the line in the history of questions, for ArrowUp. */
    this.past = 0;
    this.draw = oncePerFrame(() => this.paint());
    this.listen();
    this.allow(false);
    this.draw();
  }

  listen() {
    byId("ask", HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask(this.line.value);
    });
    this.line.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
      const { entries } = this.history;
      this.past = Math.min(Math.max(0, this.past + (event.key === "ArrowUp" ? 1 : -1)), entries.length);
      this.line.value = entries.at(-this.past)?.title ?? "";
      if (!this.past) this.line.value = "";
      event.preventDefault();
    });
    this.chosen.addEventListener("change", () => this.show(this.history.entries[Number(this.chosen.value)]));
    byId("earlier", HTMLButtonElement).addEventListener("click", () => this.move(-1));
    byId("later", HTMLButtonElement).addEventListener("click", () => this.move(1));
  }

  /** Offer verbs that change ranks only if the page may use them. @param {boolean} drive */
  allow(drive) {
    const verbs = [...LOOKS, ...(drive ? DEEDS : [])];
    byId("verbs", HTMLElement).replaceChildren(...verbs.map((line) =>
      button({ onclick: () => this.ask(line) }, line.replace(/ \d+$/, ""))));
  }

  /** Ask the selected ranks; if none are selected, the server uses the verb's usual ranks. @param {string} line */
  ask(line) {
    if (!line.trim()) return;
    const { keys, ranks, text } = this.on.whom();
    if (!this.put({ line: line.trim(), keys, ranks }, text)) return;
    this.line.value = "";
    this.past = 0;
  }

  /** @param {import("../job/link.js").Question} question @param {string} whom @returns {boolean} whether it was sent */
  put(question, whom) {
    const asked = { shown: this.history.shown?.id ?? null, ...question };
    const id = this.live.ask(asked);
    if (id === null) {
      this.said.textContent = "Not asked: there is no connection to the server.";
      return false;
    }
    this.history.add(new Entry(id, asked, whom));
    this.on.shown();
    this.draw();
    return true;
  }

  /** @param {import("../job/link.js").Message} message */
  take(message) {
    const entry = this.history.find(message.id);
    if (!entry) return;
    if (message.type === "answer") {
      entry.take(/** @type {any} */ (message), JSON.stringify(message).length);
      this.history.trim();
      if (entry === this.history.shown) this.on.shown();
    } else if (message.type === "progress") {
      entry.progress = message.text;
    } else if (message.type === "failed") {
      entry.failure = message.sentence;
      entry.progress = entry.confirm = "";
      entry.done = true;
    } else if (message.type === "confirm") {
      entry.confirm = message.question;
    }
    this.draw();
  }

  disconnected() {
    this.history.disconnected();
    this.draw();
  }

  /** @param {Entry | undefined} entry */
  show(entry) {
    if (!entry) return;
    this.history.shown = entry;
    this.on.shown();
    this.draw();
  }

  /** @param {number} by */
  move(by) {
    this.history.move(by);
    this.show(this.history.shown ?? undefined);
  }

  paint() {
    const entry = this.history.shown;
    this.paintHistory(entry);
    refill(this.said, ...(entry ? this.standing(entry) : []));
    if (!entry) {
      this.answer.replaceChildren(h("p", { class: "empty" },
        "Type an expression such as ", h("code", {}, "loss"), " or a verb such as ", h("code", {}, "where"),
        ". It goes to the selected ranks, or to all."));
      return;
    }
    const { scrollTop } = this.answer;
    refill(this.answer, ...answerView(entry, this.on));
    this.answer.scrollTop = scrollTop;
  }

  /** @param {Entry | null} shown */
  paintHistory(shown) {
    const options = this.history.entries.map((entry, number) => {
      const at = entry.answer ? ` · ${timeOfDay(entry.answer.at)}` : "";
      return h("option", { value: number, selected: entry === shown }, `${entry.title} · ${entry.whom}${at}`);
    });
    this.chosen.replaceChildren(...options.toReversed());
    this.chosen.disabled = !options.length;
  }

  /** @param {Entry} entry @returns {(Node | string)[]} */
  standing(entry) {
    const withdraw = () => this.live.withdraw(entry.id);
    if (entry.failure) return [h("span", { class: "failure" }, entry.failure)];
    if (entry.confirm) {
      return [`${entry.confirm} `,
        button({ class: "primary", onclick: () => this.agree(entry) }, "Yes"),
        button({ onclick: () => this.refuse(entry) }, "No")];
    }
    if (entry.done) return [];
    return [entry.progress || `asking ${entry.whom}…`, " ", button({ onclick: withdraw }, "Cancel")];
  }

  /** @param {Entry} entry */
  agree(entry) {
    this.history.entries = this.history.entries.filter((one) => one !== entry);
    this.put({ ...entry.question, yes: entry.confirm }, entry.whom);
  }

  /** @param {Entry} entry */
  refuse(entry) {
    entry.confirm = "";
    entry.failure = "Cancelled.";
    entry.done = true;
    this.draw();
  }
}
