/** The terminal emulator (xterm.js), made so that it works under the page's content security policy. */
import { FitAddon } from "../vendor/addon-fit.mjs";
import { Terminal } from "../vendor/xterm.mjs";

const THEME = {
  background: "#15181c", foreground: "#d7dce2", cursor: "#e6b450", selectionBackground: "#3a5a7a",
  black: "#15181c", red: "#e06c60", green: "#7fb974", yellow: "#e0b050", blue: "#6aa5dc", magenta: "#c58ac9",
  cyan: "#59b6b9", white: "#d7dce2", brightBlack: "#6b7480", brightRed: "#f08b80", brightGreen: "#9ed293",
  brightYellow: "#f2cb74", brightBlue: "#8fc0ee", brightMagenta: "#dca8df", brightCyan: "#7fd0d2",
  brightWhite: "#ffffff",
};

/** Give xterm's `<style>` elements the nonce that the policy asks for: it has no option for that. */
function stampStyles() {
  const nonce = document.querySelector('meta[name="style-nonce"]')?.getAttribute("content") ?? "";
  const make = document.createElement.bind(document);
  document.createElement = (/** @type {string} */ tag, /** @type {any} */ options) => {
    const element = make(tag, options);
    if (tag === "style") element.setAttribute("nonce", nonce);
    return element;
  };
}

stampStyles();

/**
 * @param {HTMLElement} place
 * @param {{columns?: number, rows?: number}} [size] fixed; by default the terminal fills its place
 * @returns {{terminal: InstanceType<typeof Terminal>, fit: () => void}}
 */
export function openTerminal(place, { columns, rows } = {}) {
  const terminal = new Terminal({
    theme: THEME, fontSize: 13, fontFamily: "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace",
    scrollback: 5000, disableStdin: columns !== undefined, ...(columns && rows ? { cols: columns, rows } : {}),
  });
  const fitting = new FitAddon();
  terminal.loadAddon(fitting);
  terminal.open(place);
  // A terminal in a folded or hidden pane has no size to fit.
  return { terminal, fit: () => { if (place.clientWidth > 40 && place.clientHeight > 30) fitting.fit(); } };
}
