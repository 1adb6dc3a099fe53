/**
 * One seat at one rank: PuDB or pdb in the page, to watch or to drive (`messages.py`, `/terminal`).
 *
 * @typedef {"watch" | "drive" | "take"} Mode
 * @typedef {{close: (pane: Pane) => void, next: (pane: Pane, by: number) => void, leave: (to: "grid" | "ask") => void,
 *   again: (pane: Pane, mode: Mode) => void, help: () => void, canDrive: () => boolean}} On
 */
import { button, h } from "../job/dom.js";
import { COMMAND_ENDED, Dialled } from "../job/link.js";
import { openTerminal } from "./emulator.js";
import { LinePrompt } from "./lines.js";

/** Close codes after which reconnecting would not help: ended, refused, no such rank, no server. */
const FINAL = new Set([4000, 4001, 4004, COMMAND_ENDED]);
const PASTE = 60_000;

export class Pane {
  /** @param {string} key @param {string} address @param {Mode} mode @param {On} on */
  constructor(key, address, mode, on) {
    this.key = key;
    this.address = address;
    this.mode = mode;
    this.on = on;
    this.isOver = false;
    this.isPrefixed = false;
    this.hint = "";
    /** Whether the terminal shows a text instead of a debugger. */
    this.isBlank = false;
    /** @type {any} the last state of this seat from the server */
    this.state = { kind: "", driving: false };
    this.line = new Dialled(() => `/terminal?${new URLSearchParams({ key: this.key, mode: this.mode })}`, {
      opened: () => this.opened(), receive: (message) => this.read(message), bytes: (bytes) => this.write(bytes),
      closed: (code, reason) => this.closed(code, reason),
    });
    this.encoder = new TextEncoder();
    this.lines = new LinePrompt({
      send: (message) => this.say(message), echo: (prompt, line) => this.echo(prompt, line),
      isPrefixed: (event) => this.prefixed(event),
    });
    this.standing = h("span", { class: "standing" });
    this.driver = h("span", { class: "driver" });
    this.notice = h("p", { class: "notice", role: "status" });
    this.keyboard = button({ class: "keyboard", onclick: () => this.toggleKeyboard() });
    const again = (/** @type {Mode} */ wanted, /** @type {string} */ text) =>
      button({ onclick: () => this.on.again(this, wanted) }, text);
    this.again = h("span", { hidden: true }, again("watch", "Watch"), on.canDrive() ? again("take", "Take") : "");
    this.screen = h("div", { class: "screen" });
    this.element = this.build();
    const { terminal, fit } = openTerminal(this.screen, true);
    this.terminal = terminal;
    this.fit = fit;
    /** @type {{rows: number, cols: number} | null} size of the pane in cells, as last sent to the server */
    this.room = null;
    this.observer = new ResizeObserver(() => this.arrange());
    this.observer.observe(this.screen);
    terminal.onData((text) => this.typed(this.encoder.encode(text)));
    terminal.onBinary((text) => this.typed(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
    terminal.attachCustomKeyEventHandler((event) => this.pressed(event));
  }

  build() {
    return h("section", { class: "pane", "aria-label": `Terminal of ${this.address}` },
      h("header", {}, h("b", {}, this.address), this.standing, this.driver, this.again, this.keyboard,
        button({ class: "quiet", "aria-label": `Detach from ${this.address}`,
          title: "Detach (Ctrl-] d); the rank stays as it is", onclick: () => this.on.close(this) }, "×")),
      h("div", { class: "screens" }, this.screen), this.lines.element, this.notice);
  }

  // --------------------------------------------------------------------------------------------------- the socket

  opened() {
    this.tell("");
    this.terminal.reset();
    this.room = null;
    this.arrange();
    if (!this.room) this.saySize(this.terminal);
  }

  /** Fit the terminal to the pane, or to the driver's size if another user drives. */
  arrange() {
    const { kind, driving, size } = this.state;
    const room = this.fit(kind === "screen" && !driving ? size : null);
    if (!room || (room.rows === this.room?.rows && room.cols === this.room.cols)) return;
    this.room = room;
    this.saySize(room);
  }

  /** @param {Uint8Array} bytes */
  write(bytes) {
    if (this.isBlank) this.terminal.reset();
    this.isBlank = false;
    this.terminal.write(bytes);
  }

  /** @param {number} code @param {string} reason @returns {boolean} true if it will not reconnect */
  closed(code, reason) {
    if (this.isOver) return true;
    if (FINAL.has(code)) {
      this.end(reason || "The session has ended.");
      return true;
    }
    // Request the keyboard again after reconnecting, but do not take it from another user who has it now.
    if (this.mode === "take") this.mode = "drive";
    this.state = { ...this.state, driving: false, link: "", notice: "" };
    this.tell("The connection to the server has closed; reconnecting.");
    this.draw();
    return false;
  }

  /** @param {string} sentence */
  end(sentence) {
    this.isOver = true;
    this.state = { ...this.state, driving: false, link: "", notice: "" };
    this.tell(sentence);
    this.element.classList.add("over");
    this.draw();
  }

  /** @param {any} message */
  read(message) {
    if (message.type === "state") {
      const hadFocus = this.screen.contains(document.activeElement);
      // Keep the page's own hint until the keyboard changes hands.
      if (message.driving !== this.state.driving) this.hint = "";
      this.state = message;
      this.arrange();
      this.draw();
      // A line debugger has its own input field.
      if (hadFocus) this.focus();
    } else if (message.type === "clear") {
      this.terminal.reset();
      this.isBlank = Boolean(message.text);
      if (message.text) this.terminal.write(message.text.replace(/\r?\n/g, "\r\n"));
    } else if (message.type === "bell") {
      this.element.classList.remove("rang");
      requestAnimationFrame(() => this.element.classList.add("rang"));
    } else if (message.type === "note") {
      this.terminal.write(`\x1b[2m${message.text.replace(/\r?\n/g, "\r\n")}\x1b[m\r\n`);
    } else if (message.type === "prompt") {
      this.lines.show(message);
    } else if (message.type === "ended") {
      this.end(message.sentence);
    }
  }

  /** @param {object} message */
  say(message) {
    this.line.send(JSON.stringify(message));
  }

  /** Show typed text after its prompt; replace control characters, because they could move the cursor.
   * @param {string} prompt @param {string} line */
  echo(prompt, line) {
    this.terminal.write(`\x1b[1m${prompt}\x1b[m${line.replace(/[^\x20-\x7e\u00a0-\uffff]/g, " ")}\r\n`);
  }

  /** @param {{rows: number, cols: number}} room */
  saySize({ rows, cols }) {
    this.say({ type: "size", rows, columns: cols });
  }

  /** @param {Uint8Array<ArrayBuffer>} bytes */
  typed(bytes) {
    if (this.state.kind !== "screen") return;
    if (!this.state.driving) {
      this.tell(this.on.canDrive() ? "To type, take the keyboard (Ctrl-] w)." : "This page is read-only.");
      return;
    }
    for (let from = 0; from < bytes.length; from += PASTE) this.line.send(bytes.slice(from, from + PASTE));
  }

  // ------------------------------------------------------------------------------------------------------ drawing

  /** Show a hint of the page itself, after the server's notices. @param {string} sentence */
  tell(sentence) {
    this.hint = sentence;
    const said = [this.state.link, this.state.notice, sentence].filter(Boolean).join("; ");
    if (this.notice.textContent !== said) this.notice.textContent = said;
  }

  draw() {
    this.tell(this.hint);
    const { state, engine, place, driving, comes, driver, watchers, kind } = this.state;
    this.standing.textContent = this.isOver ? "over" : [engine, state, place].filter(Boolean).join(" · ");
    const who = driving ? "you drive" : driver ? `${driver} drives` : "";
    this.driver.textContent = [who, watchers ? `${watchers} watching` : ""].filter(Boolean).join(", ");
    this.element.classList.toggle("driving", Boolean(driving));
    this.keyboard.hidden = !this.on.canDrive() || this.isOver;
    this.keyboard.textContent = driving ? "Release" : comes ? "Asked…" : driver ? "Take" : "Drive";
    this.again.hidden = !this.isOver;
    this.lines.element.hidden = kind !== "lines" || this.isOver;
    this.lines.allow(Boolean(driving));
    this.terminal.options.disableStdin = kind !== "screen";
  }

  toggleKeyboard() {
    this.mode = this.state.driving ? "watch" : "drive";
    this.say({ type: this.state.driving ? "release" : "take" });
    this.focus();
  }

  focus() {
    if (this.state.kind === "lines" && !this.lines.input.disabled) this.lines.input.focus();
    else this.terminal.focus();
  }

  // -------------------------------------------------------------------------------------------------------- keys

  /** Handle the page's keys, the same as in a terminal after Ctrl-]; return true if the debugger gets this key.
   * @param {KeyboardEvent} event */
  pressed(event) {
    if (event.type !== "keydown") return true;
    if (this.prefixed(event)) return false;
    const isControl = event.ctrlKey && !event.altKey && !event.metaKey;
    if (isControl && event.key.toLowerCase() === "c" && this.terminal.hasSelection()) {
      void navigator.clipboard?.writeText(this.terminal.getSelection());
      this.terminal.clearSelection();
      event.preventDefault();
      return false;
    }
    // The browser pastes, and xterm handles the paste event.
    return !(isControl && event.key.toLowerCase() === "v");
  }

  /** Handle the prefix and the key after it; return true if this was one of them. @param {KeyboardEvent} event */
  prefixed(event) {
    if (this.isPrefixed && !["Control", "Shift", "Alt", "Meta"].includes(event.key)) {
      this.isPrefixed = false;
      event.preventDefault();
      this.command(event.key);
      return true;
    }
    // Ignore Alt: keyboards with AltGr for the bracket report it as pressed.
    if (event.ctrlKey && !event.metaKey && event.key === "]") {
      this.isPrefixed = true;
      this.tell("Ctrl-]: d detach · w keyboard · n p next stopped · r ranks · : ask · ] itself");
      event.preventDefault();
      return true;
    }
    return false;
  }

  /** @param {string} key */
  command(key) {
    this.tell("");
    if (key === "d" || key === ".") this.on.close(this);
    else if (key === "w") this.toggleKeyboard();
    else if (key === "n" || key === "p") this.on.next(this, key === "n" ? 1 : -1);
    else if (key === "r" || key === "Escape") this.on.leave("grid");
    else if (key === ":") this.on.leave("ask");
    else if (key === "?") this.on.help();
    else if (key === "]") this.typed(Uint8Array.of(0x1d));
    else this.tell(`Ctrl-] ${key} has no meaning.`);
  }

  dispose() {
    this.isOver = true;
    this.line.stop();
    this.observer.disconnect();
    this.terminal.dispose();
    this.element.remove();
  }
}
