/**
 * The page as one HTML file for a bug report: what it shows now, without a server, scripts or secrets.
 *
 * Only what was drawn from ranks and answers is in it: no address of the server, no token, no cookie.
 */
import { cellsOf, tableOf } from "../grid/list.js";
import { h, swatch } from "./dom.js";
import { conditionOf } from "./ranks.js";
import { lookOfCondition } from "../grid/marks.js";

/** Ranks in the table, those that need a look first. */
const MAX_ROWS = 2000;

/**
 * @typedef {object} Shown
 * @property {string} title
 * @property {string} release
 * @property {import("./ranks.js").Ranks} ranks
 * @property {HTMLCanvasElement} cells
 * @property {HTMLElement} legend
 * @property {HTMLElement} why
 * @property {{title: string, view: Node[]}[]} answers
 * @property {HTMLElement} happened
 * @property {number} now
 */

/** Return the file's text. @param {Shown} shown @param {string} style the text of page.css */
export function savedPage(shown, style) {
  const file = document.implementation.createHTMLDocument(`${shown.title}, saved`);
  const policy = h("meta", { "http-equiv": "Content-Security-Policy", content: "default-src 'none'; style-src 'unsafe-inline'; img-src data:" });
  file.head.append(policy, h("meta", { name: "color-scheme", content: "light dark" }), h("style", {}, style));
  file.documentElement.lang = "en";
  file.body.className = "saved";
  const at = new Date(shown.now * 1000);
  const picture = h("img", { src: shown.cells.toDataURL("image/png"), alt: "A cell for each rank" });
  picture.style.width = shown.cells.style.width;
  file.body.append(
    h("header", {}, h("h1", {}, shown.title),
      h("p", { class: "muted" }, `${shown.ranks.rows.length} ranks at ${at.toLocaleString()} (${at.toISOString()}), dbg-broker ${shown.release}`)),
    h("main", {},
      part("Why", still(shown.why)),
      h("section", {}, h("h2", {}, "Ranks"), picture, still(shown.legend), tableOfRanks(shown)),
      ...shown.answers.map(({ title, view }) => part(title, ...view.map((node) => still(node)))),
      part("What happened", still(shown.happened))));
  for (const element of file.querySelectorAll("details")) element.open = true;
  return `<!doctype html>\n${new XMLSerializer().serializeToString(file.documentElement)}`;
}

/** @param {string} title @param {...Node} nodes */
function part(title, ...nodes) {
  return nodes.every((node) => !node.textContent?.trim()) ? "" : h("section", {}, h("h2", {}, title), ...nodes);
}

/** Return a copy in which nothing can be pressed. @param {Node} node */
function still(node) {
  const copy = node.cloneNode(true);
  if (!(copy instanceof Element)) return copy;
  copy.removeAttribute("hidden");
  copy.removeAttribute("id");
  for (const button of copy.querySelectorAll("button")) {
    const text = h("span", { class: button.className, title: button.title, style: button.getAttribute("style") });
    text.append(...button.childNodes);
    button.replaceWith(text);
  }
  return copy;
}

/** @param {Shown} shown */
function tableOfRanks({ ranks, now }) {
  const rows = ranks.urgentFirst();
  const table = tableOf(rows.slice(0, MAX_ROWS), (row, header) => {
    header.append(swatch(lookOfCondition(conditionOf(row))), row.address);
    return cellsOf(row, now);
  });
  const rest = rows.length - MAX_ROWS;
  return h("div", {}, table, rest > 0 ? h("p", { class: "muted" }, `and ${rest} more, most of them running`) : "");
}

/** Hand a text to the browser as a file. @param {string} name @param {string} text */
export function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/html" }));
  h("a", { href: url, download: name }).click();
  // The download reads the address after this turn of the loop.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
