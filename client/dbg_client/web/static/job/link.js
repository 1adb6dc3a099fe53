/**
 * The page's connections to its server, reconnected with full jitter. `messages.py` defines the messages.
 *
 * @typedef {import("./ranks.js").Row} Row
 * @typedef {{type: string} & Record<string, any>} Message
 * @typedef {{line: string, keys?: string[], ranks?: string, yes?: string, shown?: number | null,
 *   job?: string}} Question `shown`: the id of the answer on the screen, for names of its groups
 */

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;
/** Milliseconds without a message after which the server is considered gone: it sends a beat every 5 s. */
const SILENT = 15_000;
/** Close code at the command's end: its cookie is not valid for another command. */
export const COMMAND_ENDED = 1001;

/** Return the milliseconds before the next attempt: random, up to a limit that doubles. @param {number} failures */
export function backOff(failures, random = Math.random) {
  return random() * Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** Math.min(failures, 10));
}

/** A WebSocket that reconnects whenever it has closed or received nothing for too long. */
export class Dialled {
  /**
   * @param {() => string} path
   * @param {{opened: () => void, receive: (message: any) => void, bytes?: (bytes: Uint8Array) => void,
   *   closed: (code: number, reason: string) => boolean | void}} on `closed` returns whether that was the last attempt
   */
  constructor(path, on) {
    this.path = path;
    this.on = on;
    this.failures = 0;
    /** @type {WebSocket | null} */
    this.socket = null;
    this.isOver = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} timer of the next attempt, or of the current one's timeout */
    this.timer = undefined;
    // Reconnect at once when a laptop wakes up or the network is back.
    this.redial = () => document.hidden || this.socket || this.isOver || this.dial();
    window.addEventListener("online", this.redial);
    document.addEventListener("visibilitychange", this.redial);
  }

  get isUp() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  dial() {
    const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}${this.path()}`);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    socket.onopen = () => {
      this.failures = 0;
      this.on.opened();
    };
    socket.onmessage = ({ data }) => {
      this.wait();
      if (typeof data !== "string") this.on.bytes?.(new Uint8Array(data));
      else if (data !== '{"type":"beat"}') this.on.receive(JSON.parse(data));
    };
    socket.onclose = ({ code, reason }) => this.ended(code, reason);
    this.wait();
  }

  /** Restart the timeout for the next message of the server. */
  wait() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.drop();
      this.ended(0, "");
    }, SILENT);
  }

  /** Drop the socket without waiting for the peer, which may be gone. */
  drop() {
    clearTimeout(this.timer);
    if (this.socket) this.socket.onopen = this.socket.onmessage = this.socket.onclose = null;
    this.socket?.close();
    this.socket = null;
  }

  /** @param {number} code @param {string} reason */
  ended(code, reason) {
    clearTimeout(this.timer);
    this.socket = null;
    if (this.on.closed(code, reason)) this.stop();
    else this.timer = setTimeout(() => this.dial(), backOff(this.failures++));
  }

  /** @param {string | Uint8Array<ArrayBuffer>} data @returns {boolean} whether it was sent */
  send(data) {
    if (this.isUp) this.socket?.send(data);
    return this.isUp;
  }

  /** Stop reconnecting. */
  stop() {
    this.isOver = true;
    this.drop();
    window.removeEventListener("online", this.redial);
    document.removeEventListener("visibilitychange", this.redial);
  }
}

/** The connection of the whole page: `/live`. */
export class Live {
  /** @param {(message: Message) => void} receive @param {(up: boolean, hasEnded: boolean) => void} changed */
  constructor(receive, changed) {
    this.receive = receive;
    this.changed = changed;
    this.id = 0;
    /** @type {Map<number, {resolve: (answer: Message) => void, reject: (error: Error) => void}>} */
    this.waiting = new Map();
    this.line = new Dialled(() => "/live", {
      opened: () => this.changed(true, false),
      receive: (message) => this.read(message),
      closed: (code) => {
        for (const { reject } of this.waiting.values()) reject(new Error("The connection to the server has closed."));
        this.waiting.clear();
        this.changed(false, code === COMMAND_ENDED);
        return code === COMMAND_ENDED;
      },
    });
  }

  /** @param {Message} message */
  read(message) {
    const waiting = this.waiting.get(message.id);
    if (!waiting) {
      this.receive(message);
      return;
    }
    this.waiting.delete(message.id);
    if (message.type === "failed") waiting.reject(new Error(message.sentence));
    else waiting.resolve(message);
  }

  /** Ask ranks; return the id of the answer, or null if there is no connection. @param {Question} question */
  ask(question) {
    return this.send({ type: "ask", ...question });
  }

  /** @param {number} id */
  withdraw(id) {
    this.line.send(JSON.stringify({ type: "withdraw", id }));
  }

  /** Return the ranks in a set; rejects if it is not a set. @param {string} text @param {number | null} shown */
  find(text, shown) {
    return this.request({ type: "find", text, shown });
  }

  /** @param {Message} message @returns {Promise<Message>} its answer */
  request(message) {
    const id = this.send(message);
    if (id === null) return Promise.reject(new Error("There is no connection to the server."));
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }

  /** @param {Message} message @returns {number | null} */
  send(message) {
    return this.line.send(JSON.stringify({ ...message, id: ++this.id })) ? this.id : null;
  }
}
