/** DOM nodes made without HTML: a rank's text always becomes a text node. */
import { MARKS } from "../grid/marks.js";
import { duration } from "./ranks.js";

/** @typedef {Node | string | null | undefined | false} Child */
/** @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Attributes */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Make an element; a function becomes a listener, as in `onclick`, and null or false is left out.
 *
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/**
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag @param {Attributes} [attributes] @param {...Child} children
 * @returns {SVGElementTagNameMap[T]}
 */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Make a button that does not submit a form. @param {Attributes} attributes @param {...Child} children */
export function button(attributes, ...children) {
  return h("button", { type: "button", ...attributes }, ...children);
}

/** @template {Element} E @param {E} element @param {Attributes} attributes @param {Child[]} children @returns {E} */
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** @template {HTMLElement} E @param {string} id @param {{new (): E}} kind @returns {E} the element of index.html */
export function byId(id, kind) {
  const element = document.getElementById(id);
  if (!(element instanceof kind)) throw new Error(`index.html has no ${kind.name} with the id ${id}`);
  return element;
}

const STOPS = "button, summary, input, select, [tabindex]";

/**
 * Replace an element's children. If a child had the focus, the new child with the same `data-key`, or else at the same
 * position, gets the focus, so that an update does not disrupt keyboard navigation.
 *
 * @param {Element} element @param {...(Node | string)} nodes
 */
export function refill(element, ...nodes) {
  const focused = document.activeElement;
  const at = focused === element ? -1 : [...element.querySelectorAll(STOPS)].findIndex((one) => one === focused);
  const key = focused?.getAttribute("data-key");
  element.replaceChildren(...nodes);
  if (at < 0) return;
  const stops = /** @type {HTMLElement[]} */ ([...element.querySelectorAll(STOPS)]);
  const same = key ? stops.find((one) => one.getAttribute("data-key") === key) : undefined;
  (same ?? stops[Math.min(at, stops.length - 1)])?.focus({ preventScroll: true });
}

/** Draw a look as a small square. @param {import("../grid/marks.js").Look} look */
export function swatch(look) {
  const square = svg("rect", { x: 0.5, y: 0.5, width: 11, height: 11, rx: 2, class: "cell" });
  square.style.fill = `var(--${look.colour})`;
  const image = svg("svg", { viewBox: "0 0 12 12", class: "swatch", "aria-hidden": "true" }, square);
  if (MARKS[look.mark]) image.append(svg("path", { d: MARKS[look.mark], class: "mark" }));
  return image;
}

/** Return the local time of day. @param {number} at seconds since 1970 */
export function timeOfDay(at) {
  return new Date(at * 1000).toLocaleTimeString([], { hour12: false });
}

/** Return the time since a point, which the page keeps up to date; screen readers do not announce each second.
 * @param {number} since seconds since 1970 @param {number} now */
export function ageOf(since, now) {
  return h("time", { role: "timer", "data-since": since }, duration(now - since));
}

/** Return a function that calls `draw` at most once per frame. @param {() => void} draw */
export function oncePerFrame(draw) {
  let wanted = false;
  return () => {
    if (wanted) return;
    wanted = true;
    requestAnimationFrame(() => {
      wanted = false;
      draw();
    });
  };
}
