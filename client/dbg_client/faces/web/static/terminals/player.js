/** Recordings: their list, and one of them played. */
import { button, h } from "../job/dom.js";
import { duration } from "../job/ranks.js";
import { Playback, readCast, readSize } from "./cast.js";
import { openTerminal } from "./emulator.js";

/** @typedef {{name: string, job: string, title: string, at: number, size: number}} Recording */

export class Recordings {
  /** @param {HTMLElement} element */
  constructor(element) {
    this.element = element;
    /** @type {Recording[]} */
    this.recordings = [];
    /** @type {Player | null} */
    this.player = null;
  }

  /** @param {Recording[]} recordings */
  show(recordings) {
    this.recordings = recordings;
    if (!this.player) this.draw();
  }

  draw() {
    const rows = this.recordings.map((one) => h("li", {},
      button({ class: "name", onclick: () => this.play(one) }, one.title || one.name),
      h("span", { class: "muted" }, one.job), h("span", { class: "muted" }, new Date(one.at * 1000).toLocaleString()),
      h("span", { class: "muted" }, sizeText(one.size))));
    this.element.replaceChildren(rows.length ? h("ol", { class: "events" }, ...rows)
      : h("p", { class: "empty" }, 
        "No stop was recorded. The broker records with ", h("code", {}, "dbg-broker serve --record DIR"), "."));
  }

  /** @param {Recording} recording */
  async play(recording) {
    this.element.replaceChildren(h("p", { class: "empty" }, "Loading…"));
    const back = () => {
      this.player?.dispose();
      this.player = null;
      this.draw();
    };
    try {
      const response = await fetch(`/recording/${encodeURIComponent(recording.name)}`);
      if (!response.ok) throw new Error(`The server has no such recording (${response.status}).`);
      this.player = new Player(this.element, readCast(await response.text()), recording.title || recording.name, back);
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      this.element.replaceChildren(h("p", { class: "empty" }, text), button({ onclick: back }, "Back"));
    }
  }
}

class Player {
  /** @param {HTMLElement} element @param {import("./cast.js").Cast} cast @param {string} title @param {() => void} back */
  constructor(element, cast, title, back) {
    this.playback = new Playback(cast);
    this.screen = h("div", { class: "screen" });
    this.button = button({ class: "primary", onclick: () => this.toggle() }, "Play");
    this.slider = h("input", { type: "range", min: 0, max: Math.max(0.001, cast.seconds), step: "any", value: 0,
      "aria-label": "Place in the recording", oninput: () => this.go(Number(this.slider.value)) });
    this.time = h("span", { class: "muted" });
    const speeds = [1, 2, 4, 8].map((by) => h("option", { value: by }, `${by}×`));
    this.speed = h("select", { "aria-label": "Speed" }, ...speeds);
    element.replaceChildren(h("div", { class: "bar" },
      button({ onclick: back }, "Back"), h("b", {}, title), this.button, this.slider, this.time,
      this.speed,
    ), this.screen);
    const { terminal, fit } = openTerminal(this.screen, false);
    this.terminal = terminal;
    this.fit = fit;
    this.fit([cast.rows, cast.columns]);
    this.before = 0;
    this.frame = 0;
    this.go(0);
    this.button.focus();
  }

  /** @param {number} at */
  go(at) {
    const { clear, moments } = this.playback.go(at);
    if (clear) {
      this.terminal.reset();
      this.fit([this.playback.cast.rows, this.playback.cast.columns]);
    }
    for (const { kind, data } of moments) {
      const size = kind === "r" ? readSize(data) : null;
      if (size) this.fit([size[1], size[0]]);
      else if (kind === "o") this.terminal.write(data);
    }
    this.slider.value = String(this.playback.at);
    this.time.textContent = `${duration(this.playback.at)} of ${duration(this.playback.cast.seconds)}`;
  }

  toggle() {
    if (this.frame) this.pause();
    else {
      if (this.playback.isOver) this.go(0);
      this.before = performance.now();
      this.button.textContent = "Pause";
      this.frame = requestAnimationFrame((now) => this.step(now));
    }
  }

  pause() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.button.textContent = "Play";
  }

  /** @param {number} now */
  step(now) {
    this.go(this.playback.at + ((now - this.before) / 1000) * Number(this.speed.value));
    this.before = now;
    if (this.playback.isOver) this.pause();
    else this.frame = requestAnimationFrame((next) => this.step(next));
  }

  dispose() {
    this.pause();
    this.terminal.dispose();
  }
}

/** @param {number} bytes */
function sizeText(bytes) {
  return bytes < 1_000_000 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
