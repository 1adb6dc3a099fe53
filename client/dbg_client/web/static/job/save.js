/**
 * The page as one HTML file for a bug report: what it shows now, without a server, scripts or secrets.
 *
 * Only what was drawn from ranks and answers is in it: no address of the server, no token, no cookie.
 */
import { cellsOf, tableOf } from "../grid/list.js";
import { h, swatch } from "./dom.js";
import { conditionOf } from "./ranks.js";
import { lookOfCondition } from "../grid/marks.js";

/** Ranks in the table, which has all but those that run. */
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
 * @property {ReadonlySet<string>} awaited the keys of ranks for which others wait
 * @property {number} now
 */

/** Return the file's text. @param {Shown} shown */
export function savedPage(shown) {
  const at = new Date(shown.now * 1000);
  const picture = h("img", { src: shown.cells.toDataURL("image/png"), alt: "A cell for each rank" });
  picture.style.width = shown.cells.style.width;
  const body = h("body", { class: "saved" },
    h("header", {}, h("h1", {}, shown.title), h("p", { class: "muted" },
      `${at.toLocaleString()} (${at.toISOString()}), dbg-broker ${shown.release}`)),
    h("main", {},
      part("Why", still(shown.why)),
      h("section", {}, h("h2", {}, "Ranks"), picture, still(shown.legend), tableOfRanks(shown)),
      ...shown.answers.map(({ title, view }) => part(title, ...view.map((node) => still(node)))),
      part("What happened", still(shown.happened))));
  for (const element of body.querySelectorAll("details")) element.open = true;
  const text = (/** @type {Node} */ node) => new XMLSerializer().serializeToString(node);
  return `<!doctype html>\n<html lang="en"><head><meta charset="utf-8">${text(h("title", {}, `${shown.title}, saved`))}
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width"><style>${styleOfPage()}</style></head>${text(body)}</html>`;
}

/** Return the text of page.css as the browser has it: the server may be gone by now. */
function styleOfPage() {
  const sheet = [...document.styleSheets].find((one) => one.href?.endsWith("/page.css"));
  return [...(sheet?.cssRules ?? [])].map((rule) => rule.cssText).join("\n");
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
    const text = h("span", { class: button.className, title: button.title });
    text.style.cssText = button.style.cssText;
    text.append(...button.childNodes);
    button.replaceWith(text);
  }
  return copy;
}

/** @param {Shown} shown */
function tableOfRanks({ ranks, awaited, now }) {
  const counts = [...ranks.counts()].map(([condition, count]) => `${count} ${condition}`).join(", ");
  const rows = ranks.urgentFirst(awaited).filter((row) => awaited.has(row.key) || conditionOf(row) !== "running");
  const rest = rows.length - MAX_ROWS;
  return h("div", {}, h("p", {}, counts), rows.length ? tableOf(rows.slice(0, MAX_ROWS), (row, header) => {
    header.append(swatch(lookOfCondition(conditionOf(row))), ranks.nameOf(row));
    return cellsOf(row, now);
  }) : "", rest > 0 ? h("p", { class: "muted" }, `and ${rest} more`) : "");
}

/** Hand a text to the browser as a file. @param {string} name @param {string} text */
export function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/html" }));
  h("a", { href: url, download: name }).click();
  // The download reads the address after this turn of the loop.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
