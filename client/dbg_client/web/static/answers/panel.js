/**
 * The line for questions, and the answer that is shown, with those before it to go back to.
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
   *   `whom`: the selected ranks, by keys or as a target; `shown` is told when another answer is shown
   */
  constructor(live, on) {
    this.live = live;
    this.on = on;
    this.history = new History();
    /** @type {"tree" | "flame" | "groups"} */
    this.as = "tree";
    this.line = byId("line", HTMLInputElement);
    this.every = byId("every", HTMLSelectElement);
    this.said = byId("asking", HTMLElement);
    this.answer = byId("answer", HTMLElement);
    this.chosen = byId("history", HTMLSelectElement);
    this.compared = byId("compare", HTMLSelectElement);
    /** Where the line is in what was typed before, as ArrowUp goes back. */
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
    this.compared.addEventListener("change", this.draw);
    byId("earlier", HTMLButtonElement).addEventListener("click", () => this.move(-1));
    byId("later", HTMLButtonElement).addEventListener("click", () => this.move(1));
  }

  /** Offer what changes ranks only to whom may do so. @param {boolean} drive */
  allow(drive) {
    const verbs = [...LOOKS, ...(drive ? DEEDS : [])];
    byId("verbs", HTMLElement).replaceChildren(...verbs.map((line) =>
      button({ onclick: () => this.ask(line) }, line.replace(/ \d+$/, ""))));
  }

  /** Put a question to the selected ranks; the server knows whom a verb means where none are. @param {string} line */
  ask(line) {
    if (!line.trim()) return;
    const { keys, ranks, text } = this.on.whom();
    const every = this.every.value ? Number(this.every.value) : null;
    if (!this.put({ line: line.trim(), keys, every, ranks }, text)) return;
    this.line.value = "";
    this.past = 0;
  }

  /** @param {import("../job/link.js").Question} question @param {string} whom @returns {boolean} whether it was sent */
  put(question, whom) {
    for (const entry of this.history.entries) if (!entry.done && entry.question.every) this.live.withdraw(entry.id);
    const asked = { shown: this.history.shown?.id ?? null, ...question };
    const id = this.live.ask(asked);
    if (id === null) {
      this.said.textContent = "There is no connection to the server: nothing was asked.";
      return false;
    }
    this.history.add(new Entry(id, asked, whom));
    this.compared.value = "";
    this.on.shown();
    this.draw();
    return true;
  }

  /** @param {import("../job/link.js").Message} message */
  take(message) {
    const entry = this.history.find(message.id);
    if (!entry) return;
    if (message.type === "answer") {
      entry.take(/** @type {any} */ (message));
      this.history.trim();
      if (entry === this.history.shown) this.on.shown();
    } else if (message.type === "progress") {
      entry.progress = message.text;
    } else if (message.type === "failed") {
      entry.failure = entry.answer && entry.question.every ? "" : message.sentence;
      entry.progress = entry.confirm = "";
      entry.done = true;
    } else if (message.type === "confirm") {
      entry.confirm = message.question;
    }
    this.draw();
  }

  /** Ask on what was asked again and again when the connection ended. */
  connected() {
    for (const entry of this.history.entries.filter((one) => one.isBroken)) {
      entry.id = this.live.ask(entry.question) ?? entry.id;
      entry.isBroken = false;
      entry.done = false;
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
    this.compared.value = "";
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
        ". It goes to the ranks that are selected, or to all."));
      return;
    }
    const earlier = this.history.entries[Number(this.compared.value || NaN)] ?? null;
    const { scrollTop } = this.answer;
    refill(this.answer,
      ...(entry.groups.some((group) => group.frames) && !earlier ? [this.switches()] : []),
      ...answerView(entry, earlier, this.as, this.on));
    this.answer.scrollTop = scrollTop;
  }

  /** @param {Entry | null} shown */
  paintHistory(shown) {
    const options = this.history.entries.map((entry, number) => {
      const at = entry.answer ? ` · ${timeOfDay(entry.answer.at)}` : "";
      return h("option", { value: number, selected: entry === shown }, `${entry.title} · ${entry.whom}${at}`);
    });
    const kept = this.compared.value;
    this.chosen.replaceChildren(...options.toReversed());
    this.chosen.disabled = !options.length;
    const others = this.history.entries.flatMap((entry, number) => entry !== shown && entry.groups.length
      ? [h("option", { value: number }, `${entry.title} · ${timeOfDay(entry.answer?.at ?? 0)}`)] : []);
    this.compared.replaceChildren(h("option", { value: "" }, "none"), ...others.toReversed());
    this.compared.value = kept;
    if (this.compared.selectedIndex < 0) this.compared.value = "";
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
    if (entry.answer) return [`asks every ${entry.question.every} s `, button({ onclick: withdraw }, "Stop")];
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
    entry.failure = "Nothing was done.";
    entry.done = true;
    this.draw();
  }

  switches() {
    return h("p", { class: "switches", role: "group", "aria-label": "Stacks as" },
      ...(/** @type {const} */ (["tree", "flame", "groups"])).map((as) => button({
        "aria-pressed": String(this.as === as),
        onclick: () => {
          this.as = as;
          this.draw();
        },
      }, as === "flame" ? "flame graph" : as)));
  }
}
