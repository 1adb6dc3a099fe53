/** The terminal emulator (xterm.js), adapted to the page's content security policy. */
import { FitAddon } from "../vendor/addon-fit.mjs";
import { Terminal } from "../vendor/xterm.mjs";

/** Dark in both colour schemes, because PuDB's themes expect that; its blue and cyan are wide backgrounds. */
const THEME = {
  background: "#15181c", foreground: "#d7dce2", cursor: "#e6b450", selectionBackground: "#3a5a7a",
  black: "#15181c", red: "#c9463d", green: "#3f9c58", yellow: "#cfa52c", blue: "#1d4a82", magenta: "#97489c",
  cyan: "#14676f", white: "#ccd2d9", brightBlack: "#a1abb6", brightRed: "#f2776c", brightGreen: "#74d08d",
  brightYellow: "#f6da73", brightBlue: "#68a7f2", brightMagenta: "#d68ddc", brightCyan: "#5fcbd3",
  brightWhite: "#ffffff",
};

/** Set an attribute. xterm colours the selection with the attribute `style`; the policy blocks that, but not CSSOM.
 * @this {HTMLElement} @param {string} name @param {string} value */
function setAttribute(name, value) {
  if (name === "style") this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
}

/** Patch xterm, which has no option for a nonce: set it at its `<style>` elements, and make its spans use CSSOM. */
function stampStyles() {
  const nonce = document.querySelector('meta[name="style-nonce"]')?.getAttribute("content") ?? "";
  const make = document.createElement.bind(document);
  document.createElement = (/** @type {string} */ tag, /** @type {any} */ options) => {
    const element = make(tag, options);
    if (tag === "style") element.setAttribute("nonce", nonce);
    if (tag === "span") element.setAttribute = setAttribute;
    return element;
  };
}

stampStyles();

/** Font size in pixels, and the smallest one used to fit a screen of another size. */
const LETTERS = 13;
const SMALLEST = 5;

/**
 * @param {HTMLElement} place @param {boolean} typed whether it accepts keys
 * @returns {{terminal: InstanceType<typeof Terminal>,
 *   fit: (fixed?: [number, number] | null) => {rows: number, cols: number} | null}} `fit` resizes the terminal to its
 *   place, or to fixed rows and columns with smaller letters; it returns the size that the place has room for
 */
export function openTerminal(place, typed) {
  const terminal = new Terminal({
    theme: THEME, fontSize: LETTERS, fontFamily: "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace",
    // Links in a rank's output do nothing: a click would leave the page.
    linkHandler: { activate: () => {} },
    scrollback: 5000, disableStdin: !typed, minimumContrastRatio: 4.5,
  });
  const fitting = new FitAddon();
  terminal.loadAddon(fitting);
  terminal.open(place);
  return {
    terminal,
    fit: (fixed = null) => {
      // A terminal in a folded or hidden pane has no size to fit.
      if (place.clientWidth <= 40 || place.clientHeight <= 30) return null;
      terminal.options.fontSize = LETTERS;
      const room = fitting.proposeDimensions();
      if (!room) return null;
      const [rows, cols] = fixed ?? [room.rows, room.cols];
      const scale = Math.min(1, room.rows / rows, room.cols / cols);
      terminal.options.fontSize = Math.max(SMALLEST, Math.floor(LETTERS * scale * 4) / 4);
      terminal.resize(cols, rows);
      return room;
    },
  };
}
