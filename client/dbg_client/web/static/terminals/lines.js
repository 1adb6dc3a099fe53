/**
 * Input line of a pdb session: edited in the page with history, sent on Enter.
 *
 * @typedef {{number: number, text: string, state: string, held: number}} Prompt
 */
import { h } from "../job/dom.js";

const MAX_HISTORY = 500;

export class LinePrompt {
  /**
   * @param {{send: (message: object) => void, echo: (prompt: string, line: string) => void,
   *   isPrefixed: (event: KeyboardEvent) => boolean}} on `isPrefixed` handles the page's own keys
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
    this.label = h("span", { class: "pdb-prompt" });
    this.input = h("input", { type: "text", spellcheck: "false", autocomplete: "off", autocapitalize: "off",
      "aria-label": "Line for pdb", onkeydown: (/** @type {KeyboardEvent} */ event) => this.pressed(event),
      onpaste: (/** @type {ClipboardEvent} */ event) => this.pasted(event) });
    this.element = h("div", { class: "pdb-line", hidden: true }, h("div", {}, this.label, this.input));
  }

  /** @param {Prompt} prompt */
  show(prompt) {
    this.prompt = prompt;
    const waits = prompt.number < 0 ? (prompt.held ? `${prompt.held} lines queued` : "running") : "";
    this.label.textContent = waits || prompt.text;
    this.label.classList.toggle("muted", Boolean(waits));
  }

  /** @param {boolean} driving */
  allow(driving) {
    this.input.disabled = !driving;
    this.input.placeholder = driving ? "" : "read-only";
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
      this.reply(input.value);
      input.value = "";
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
}
