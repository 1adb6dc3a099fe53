/**
 * The page's connection to its server, dialled again with full jitter until it is there (`messages.py`, `/live`).
 *
 * @typedef {import("./ranks.js").Row} Row
 * @typedef {{type: string} & Record<string, any>} Message
 * @typedef {{line: string, keys?: string[], ranks?: string, every?: number | null, yes?: boolean}} Question
 */

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;

/** Return the milliseconds before the next attempt: any up to a limit that doubles. @param {number} failures */
export function backOff(failures, random = Math.random) {
  return random() * Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** Math.min(failures, 10));
}

export class Live {
  /** @param {(message: Message) => void} receive @param {(up: boolean) => void} changed */
  constructor(receive, changed) {
    this.receive = receive;
    this.changed = changed;
    this.id = 0;
    this.failures = 0;
    /** @type {WebSocket | null} */
    this.socket = null;
    /** @type {Map<number, {resolve: (lines: Message) => void, reject: (error: Error) => void}>} */
    this.waiting = new Map();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    // A laptop that wakes up, or a network that is back, is no reason to wait on.
    window.addEventListener("online", () => this.dialNow());
    document.addEventListener("visibilitychange", () => document.hidden || this.dialNow());
  }

  get isUp() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  dialNow() {
    if (this.socket) return;
    clearTimeout(this.timer);
    this.dial();
  }

  dial() {
    const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/live`);
    this.socket = socket;
    socket.onopen = () => {
      this.failures = 0;
      this.changed(true);
    };
    socket.onmessage = ({ data }) => this.read(JSON.parse(data));
    socket.onclose = () => {
      this.socket = null;
      for (const { reject } of this.waiting.values()) reject(new Error("The connection to the server has ended."));
      this.waiting.clear();
      this.timer = setTimeout(() => this.dial(), backOff(this.failures++));
      this.changed(false);
    };
  }

  /** @param {Message} message */
  read(message) {
    const waiting = this.waiting.get(message.id);
    if (!waiting || (message.type !== "lines" && message.type !== "failed")) {
      this.receive(message);
      return;
    }
    this.waiting.delete(message.id);
    if (message.type === "lines") waiting.resolve(message);
    else waiting.reject(new Error(message.sentence));
  }

  /** Ask ranks; return the id of the answers, or null while there is no connection. @param {Question} question */
  ask(question) {
    return this.send({ type: "ask", ...question });
  }

  /** @param {number} id */
  withdraw(id) {
    if (this.isUp) this.socket?.send(JSON.stringify({ type: "withdraw", id }));
  }

  /** Return the lines around a place, or around where the rank stands.
   * @param {string} key @param {string} [file] @param {number} [line] @param {number} [around]
   * @returns {Promise<Message>} */
  source(key, file = "", line = 0, around = 5) {
    const id = this.send({ type: "source", key, file, line, around });
    if (id === null) return Promise.reject(new Error("There is no connection to the server."));
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }

  /** @param {Message} message @returns {number | null} */
  send(message) {
    if (!this.isUp) return null;
    const id = ++this.id;
    this.socket?.send(JSON.stringify({ ...message, id }));
    return id;
  }
}
