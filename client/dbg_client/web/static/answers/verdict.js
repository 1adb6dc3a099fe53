/**
 * Drawing of a verdict on a job: which ranks wait, which are missing, for how long, and what to do next.
 *
 * @typedef {{kind: string, sentence: string, certainty: string | null, ranks: string, others?: string,
 *   group: string | null, collective: string | null, sequence?: number | null, age?: number | null,
 *   evidence: string[], next: string | null, line: string}} Verdict
 */
import { button, h, refill, swatch } from "../job/dom.js";

/** Draw one verdict of an answer. @param {Verdict} verdict */
export function verdictView(verdict) {
  return h("article", { class: `verdict ${verdict.kind}` },
    h("p", { class: "sentence" }, verdict.sentence),
    drawn(verdict),
    verdict.evidence.length ? h("pre", { class: "evidence" }, verdict.evidence.join("\n")) : "",
    verdict.next ? h("p", { class: "next" }, "next: ", h("code", {}, verdict.next)) : "");
}

/** Draw the waiting ranks, what they wait in, and the ranks they wait for. @param {Verdict} verdict */
function drawn(verdict) {
  if (!verdict.others) return "";
  const number = verdict.sequence ? `#${verdict.sequence}` : "";
  const where = [verdict.collective, number, verdict.group ? `of ${verdict.group}` : ""].filter(Boolean).join(" ");
  const absent = verdict.kind === "missing" ? "not there" : verdict.kind;
  return h("div", { class: "waits", role: "img", "aria-label": `${verdict.others} wait for ${verdict.ranks}` },
    h("span", { class: "side" }, swatch({ colour: "held", mark: "dash", name: "" }),
      h("b", {}, verdict.others), h("small", {}, "wait")),
    h("span", { class: "arrow" }, h("span", {}, where || "wait for")),
    h("span", { class: "side odd" }, swatch({ colour: "crashed", mark: "cross", name: "" }),
      h("b", {}, verdict.ranks), h("small", {}, absent)));
}

/** The verdict at the top of the page, shown while ranks of the job wait. */
export class Why {
  /** @param {HTMLElement} element
   * @param {{choose: (keys: string[]) => void, canDrive: () => boolean,
   *   ask: (line: string, job: string) => void}} on */
  constructor(element, on) {
    this.element = element;
    this.on = on;
    /** @type {Map<string, any>} the last verdict on each job */
    this.told = new Map();
    this.isOpen = true;
  }

  /** @param {any} message */
  take(message) {
    if (message.verdicts.length) this.told.set(message.job, message);
    else this.told.delete(message.job);
    this.draw();
  }

  /** @returns {Set<string>} the keys of the ranks that others wait for */
  get missing() {
    return new Set([...this.told.values()].flatMap((message) => message.missing ?? []));
  }

  /** Collapse to the sentence, to make room for the terminals. */
  fold() {
    this.isOpen = false;
    this.draw();
  }

  draw() {
    const messages = [...this.told.values()];
    this.element.hidden = !messages.length;
    refill(this.element, ...messages.map((message) => this.job(message)));
  }

  /** @param {Verdict} verdict @param {string} job @returns {Node | string} what to do next */
  next({ next, line }, job) {
    if (!this.on.canDrive() || !line) return next ? h("code", {}, next) : "";
    return button({ class: "primary", onclick: () => this.on.ask(line, job) }, line);
  }

  /** @param {any} message */
  job(message) {
    const [first, ...others] = message.verdicts;
    const choose = () => this.on.choose(message.missing);
    const told = h("div", { class: "told" }, drawn(first),
      first.evidence.length ? h("pre", { class: "evidence" }, first.evidence.join("\n")) : "",
      h("p", { class: "next" }, message.missing?.length ? button({ onclick: choose }, `Select ${first.ranks}`) : "",
        this.next(first, message.job)),
      ...others.map(verdictView));
    const details = h("details", { open: this.isOpen, ontoggle: () => { this.isOpen = details.open; } },
      h("summary", {}, h("span", { class: "alarm", "aria-hidden": "true" }),
        h("span", { class: "sentence" }, first.sentence)),
      h("div", { class: "body" }, told));
    return details;
  }
}
