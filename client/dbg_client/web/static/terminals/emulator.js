/** The terminal emulator (xterm.js), made so that it works under the page's content security policy. */
import { FitAddon } from "../vendor/addon-fit.mjs";
import { Terminal } from "../vendor/xterm.mjs";

/** Dark in both schemes, as the themes of PuDB are made for; its blue and cyan are wide backgrounds. */
const THEME = {
  background: "#15181c", foreground: "#d7dce2", cursor: "#e6b450", selectionBackground: "#3a5a7a",
  black: "#15181c", red: "#c9463d", green: "#3f9c58", yellow: "#cfa52c", blue: "#1d4a82", magenta: "#97489c",
  cyan: "#14676f", white: "#ccd2d9", brightBlack: "#a1abb6", brightRed: "#f2776c", brightGreen: "#74d08d",
  brightYellow: "#f6da73", brightBlue: "#68a7f2", brightMagenta: "#d68ddc", brightCyan: "#5fcbd3",
  brightWhite: "#ffffff",
};

/** Set an attribute; the policy refuses `style` in this way, in which xterm colours what is selected, and lets CSSOM.
 * @this {HTMLElement} @param {string} name @param {string} value */
function setAttribute(name, value) {
  if (name === "style") this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
}

/** Give xterm's `<style>` elements the nonce that the policy asks for, and its spans their styles: it has no option. */
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

/** Pixels of letters, and of the smallest ones that a screen of another size may have. */
const LETTERS = 13;
const SMALLEST = 5;

/**
 * @param {HTMLElement} place @param {boolean} typed whether it takes keys
 * @returns {{terminal: InstanceType<typeof Terminal>,
 *   fit: (fixed?: [number, number] | null) => {rows: number, cols: number} | null}} `fit` gives the terminal the size
 *   of its place, or a fixed one, rows and columns, in letters that fit; it returns the former
 */
export function openTerminal(place, typed) {
  const terminal = new Terminal({
    theme: THEME, fontSize: LETTERS, fontFamily: "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace",
    // Nothing that a rank draws is a link: a click would lead away from the page.
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
