/** The lower part of the page with its height, dialogs, and keys that work everywhere. */
import { byId, h } from "./dom.js";

const KEPT = "dbg-dock";

/** Keys of the page, as help shows them. */
const KEYS = [
  ["/", "search ranks"], [":", "ask a question"], ["g", "grid or list"], ["l", "switch between grid and list"],
  ["arrows", "move between ranks; with Shift select, with Ctrl move by eight"], ["Space", "select or deselect a rank"],
  ["Enter", "open a rank's terminal"], ["w", "watch the rank's terminal without the keyboard"],
  ["a", "select all, or the search results"], ["Esc", "clear selection and search"],
  ["[  ]", "earlier and later answer"], ["c", "colour by state or by answer"], ["v", "why the job waits"],
  ["Ctrl-] …", "in a terminal: d detach, w keyboard, n p next stopped rank, r ranks, : ask"],
];

export class Dock {
  /** @param {() => void} opened */
  constructor(opened) {
    this.opened = opened;
    this.element = byId("dock", HTMLElement);
    this.fold = byId("fold", HTMLButtonElement);
    this.grip = byId("grip", HTMLElement);
    this.fold.addEventListener("click", () => {
      if (this.element.classList.contains("folded")) this.open();
      else this.setFolded(true);
    });
    this.grip.addEventListener("pointerdown", (event) => this.grip.setPointerCapture(event.pointerId));
    this.grip.addEventListener("pointermove", (event) => {
      if (this.grip.hasPointerCapture(event.pointerId)) this.setHeight((1 - event.clientY / innerHeight) * 100);
    });
    this.grip.addEventListener("keydown", (event) => {
      const by = event.key === "ArrowUp" ? 4 : event.key === "ArrowDown" ? -4 : 0;
      if (by) this.setHeight(this.height + by);
      if (by) event.preventDefault();
    });
    this.height = 0;
    const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "{}");
    this.setHeight(kept.height ?? 46);
    this.setFolded(kept.folded ?? true);
  }

  /** @param {number} height in percent of the window */
  setHeight(height) {
    this.height = Math.min(80, Math.max(12, Math.round(height)));
    this.element.style.setProperty("--dock", `${this.height}dvh`);
    this.grip.setAttribute("aria-valuenow", String(this.height));
    this.keep();
  }

  /** @param {boolean} folded */
  setFolded(folded) {
    this.element.classList.toggle("folded", folded);
    this.fold.setAttribute("aria-expanded", String(!folded));
    this.fold.textContent = folded ? "Unfold" : "Fold";
    this.keep();
  }

  keep() {
    const folded = this.element.classList.contains("folded");
    sessionStorage.setItem(KEPT, JSON.stringify({ height: this.height, folded }));
  }

  open() {
    this.setFolded(false);
    this.opened();
  }
}

export function showHelp() {
  const dialog = byId("dialog", HTMLDialogElement);
  dialog.replaceChildren(
    h("h2", { id: "dialog-title" }, "Keys"),
    h("dl", { class: "keys" }, ...KEYS.flatMap(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)])),
    h("form", { method: "dialog" }, h("button", { class: "primary" }, "Close")));
  dialog.showModal();
}

/**
 * Run the action of a key, unless an input field or a terminal handles the key.
 *
 * @param {Record<string, () => void>} keys
 */
export function listenToKeys(keys) {
  document.addEventListener("keydown", (event) => {
    const target = /** @type {Element | null} */ (event.target);
    if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
    const isTaken = target?.closest("input, select, textarea, dialog, .pane");
    if (isTaken && !(event.key === "Escape" && target?.closest("main"))) return;
    // Lower case as a fallback: buttons show letters in upper case, as typed with Shift.
    const act = keys[event.key] ?? keys[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    act();
  });
}
