/**
 * The line below a pdb session: typed in the page with history and completion, sent when it is done.
 *
 * @typedef {{number: number, text: string, state: string, held: number}} Prompt
 */
import { h } from "../job/dom.js";

const MAX_HISTORY = 500;
const WORD = /[A-Za-z0-9_.]*$/;

/** Return how the part before the cursor is completed: the common beginning of all matches.
 * @param {string[]} matches */
export function commonBeginning(matches) {
  let common = matches[0] ?? "";
  for (const match of matches) while (!match.startsWith(common)) common = common.slice(0, -1);
  return common;
}

export class LinePrompt {
  /**
   * @param {{send: (message: object) => void, echo: (prompt: string, line: string) => void,
   *   isPrefixed: (event: KeyboardEvent) => boolean}} on `isPrefixed` handles keys that are the page's own
   */
  constructor({ send, echo, isPrefixed }) {
    this.send = send;
    this.echo = echo;
    this.isPrefixed = isPrefixed;
    /** @type {Prompt} */
    this.prompt = { number: -1, text: "", state: "command", held: 0 };
    /** @type {string[]} */
    this.past = [];
    this.at = 0;
    this.completion = { id: 0, line: "", begin: 0, end: 0 };
    this.label = h("span", { class: "pdb-prompt" });
    this.input = h("input", { type: "text", spellcheck: "false", autocomplete: "off", autocapitalize: "off",
      "aria-label": "Line for pdb", onkeydown: (/** @type {KeyboardEvent} */ event) => this.pressed(event),
      onpaste: (/** @type {ClipboardEvent} */ event) => this.pasted(event) });
    this.matches = h("div", { class: "matches", role: "status" });
    this.element = h("div", { class: "pdb-line", hidden: true }, this.matches, h("div", {}, this.label, this.input));
  }

  /** @param {Prompt} prompt */
  show(prompt) {
    this.prompt = prompt;
    const waits = prompt.number < 0 ? (prompt.held ? `${prompt.held} lines wait` : "it runs") : "";
    this.label.textContent = waits || prompt.text;
    this.label.classList.toggle("muted", Boolean(waits));
  }

  /** @param {boolean} driving */
  allow(driving) {
    this.input.disabled = !driving;
    this.input.placeholder = driving ? "" : "looks only";
  }

  /** @param {string} text */
  reply(text) {
    this.echo(this.prompt.number < 0 ? "" : this.prompt.text, text);
    this.send({ type: "reply", prompt: this.prompt.number, text });
    this.show({ ...this.prompt, number: -1 });
    if (text.trim() && this.past.at(-1) !== text && this.prompt.state !== "input") this.past.push(text);
    if (this.past.length > MAX_HISTORY) this.past.shift();
    this.at = this.past.length;
  }

  /** @param {ClipboardEvent} event */
  pasted(event) {
    const lines = (event.clipboardData?.getData("text") ?? "").split(/\r\n?|\n/);
    if (lines.length < 2) return;
    event.preventDefault();
    const last = lines.pop() ?? "";
    this.reply(this.input.value + lines.shift());
    for (const line of lines) this.reply(line);
    this.input.value = last;
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const { input } = this;
    if (this.isPrefixed(event)) return;
    const isControl = event.ctrlKey && !event.altKey && !event.metaKey && !event.shiftKey;
    if (event.key === "Enter") {
      this.matches.replaceChildren();
      this.reply(input.value);
      input.value = "";
    } else if (event.key === "Tab" && !event.shiftKey && input.value.slice(0, input.selectionStart ?? 0).trim()) {
      this.complete();
    } else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      this.at = Math.min(Math.max(0, this.at + (event.key === "ArrowUp" ? -1 : 1)), this.past.length);
      input.value = this.past[this.at] ?? "";
    } else if (isControl && event.key === "c" && input.selectionStart === input.selectionEnd) {
      this.send({ type: "stop" });
      input.value = "";
    } else if (isControl && event.key === "d" && !input.value) {
      this.send({ type: "endofinput" });
    } else {
      return;
    }
    event.preventDefault();
  }

  complete() {
    const end = this.input.selectionStart ?? this.input.value.length;
    const line = this.input.value;
    const begin = end - (WORD.exec(line.slice(0, end))?.[0].length ?? 0);
    this.completion = { id: this.completion.id + 1, line, begin, end };
    this.send({ type: "complete", ...this.completion });
  }

  /** @param {{id: number, matches: string[]}} completed */
  completed({ id, matches }) {
    const { line, begin, end } = this.completion;
    // What was typed meanwhile counts more than the answer.
    if (id !== this.completion.id || this.input.value !== line || !matches.length) return;
    const text = commonBeginning(matches);
    if (text.length > end - begin || matches.length === 1) {
      this.input.value = line.slice(0, begin) + text + line.slice(end);
      this.input.setSelectionRange(begin + text.length, begin + text.length);
    }
    this.matches.replaceChildren(...(matches.length > 1 ? matches.slice(0, 60).map((one) => h("span", {}, one)) : []));
  }
}
