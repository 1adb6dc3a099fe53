import js from "@eslint/js";
import globals from "globals";

const HOSTILE = "Text from a rank may be hostile: create nodes, and set their textContent.";

export default [
  { ignores: ["**/vendor/**", "**/node_modules/**"] },
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2022, sourceType: "module" },
    rules: {
      "eqeqeq": "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "no-restricted-globals": ["error", "event", "name", "status"],
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: HOSTILE },
        { property: "outerHTML", message: HOSTILE },
        { property: "insertAdjacentHTML", message: HOSTILE },
        { object: "document", property: "write", message: HOSTILE },
      ],
      "no-shadow": "error",
      "no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
      "no-use-before-define": ["error", { functions: false, classes: false }],
      "no-var": "error",
      "prefer-const": "error",
      "max-len": ["error", { code: 120, ignorePattern: "import\\(?" }],
      "max-lines": ["error", 400],
      "max-lines-per-function": ["error", { max: 40, skipComments: true, skipBlankLines: true }],
    },
  },
  { files: ["**/static/**"], languageOptions: { globals: globals.browser } },
  { files: ["**/tests/**"], languageOptions: { globals: globals.node }, rules: { "max-lines-per-function": "off" } },
];
