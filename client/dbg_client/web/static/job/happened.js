/**
 * The time line: what has happened, the newest first, with a strip of marks over time.
 *
 * @typedef {{number: number, at: number, kind: string, job: string, key: string, rank: string, ranks: string,
 *   count: number, text: string, who: string}} Event
 */
import { button, h, refill, svg, timeOfDay } from "./dom.js";

const MAX_EVENTS = 1000;
const SHOWN = 300;

/** The lane and colour of each kind of event in the strip. */
const LANES = /** @type {Record<string, [number, string]>} */ ({
  crash: [0, "crashed"], hang: [0, "unresponsive"], exit: [0, "lost"], gone: [0, "lost"], silent: [0, "unresponsive"],
  stop: [1, "stopped"], held: [1, "held"], goes_on: [1, "running"], back: [1, "running"], came: [1, "running"],
  driver: [2, "group-1"], watcher: [2, "group-1"], asked: [2, "group-1"], broker: [2, "lost"],
});
const LANE_NAMES = ["trouble", "stops", "people"];

export class Happened {
  /** @param {HTMLElement} element @param {(event: Event) => void} choose
   * @param {(rank: {job: string, address: string}) => string} nameOf */
  constructor(element, choose, nameOf) {
    this.element = element;
    this.choose = choose;
    this.nameOf = nameOf;
    /** @type {Event[]} the oldest first */
    this.events = [];
  }

  /** @param {Event} event */
  add(event) {
    // After a new connection the server tells the last ones again.
    if (this.events.some((known) => known.number === event.number && known.at === event.at)) return;
    // What the broker's log tells comes later than what was seen.
    const later = this.events.findLastIndex((known) => known.at <= event.at);
    this.events.splice(later + 1, 0, event);
    if (this.events.length > MAX_EVENTS) this.events.shift();
  }

  draw() {
    const newest = this.events.slice(-SHOWN).reverse();
    refill(this.element, ...(newest.length
      ? [stripOf(this.events), h("ol", { class: "events" }, ...newest.map((event) => this.row(event)))]
      : [h("p", { class: "empty" }, "Nothing has happened since this page's server began.")]));
  }

  /** @param {Event} event */
  row(event) {
    const whom = event.count > 1 ? `${event.count} ranks (${event.ranks})`
      : event.rank && this.nameOf({ job: event.job, address: event.rank });
    const name = event.key
      ? button({ class: "name", "data-key": event.number, onclick: () => this.choose(event) }, whom)
      : h("span", { class: "name" }, whom);
    const dot = h("span", { class: "dot", "aria-hidden": "true" });
    dot.style.background = `var(--${LANES[event.kind]?.[1] ?? "lost"})`;
    const kind = h("span", { class: "kind" }, event.kind.replace("_", " "));
    return h("li", {}, h("time", {}, timeOfDay(event.at)), dot, kind, name,
      h("span", { class: "text" }, event.text), h("span", { class: "who" }, event.who));
  }
}

/** @param {Event[]} events */
function stripOf(events) {
  const first = events[0].at;
  const span = Math.max(1, (events.at(-1)?.at ?? first) - first);
  const marks = events.map((event) => {
    const [lane, colour] = LANES[event.kind] ?? [2, "lost"];
    const mark = svg("rect", { x: ((event.at - first) / span) * 996, y: 3 + lane * 14, width: 4, height: 9 });
    mark.style.fill = `var(--${colour})`;
    return mark;
  });
  return h("div", { class: "strip", "aria-hidden": "true" },
    h("p", {}, ...LANE_NAMES.map((text) => h("span", {}, text))),
    svg("svg", { viewBox: "0 0 1000 42", preserveAspectRatio: "none" }, ...marks));
}
