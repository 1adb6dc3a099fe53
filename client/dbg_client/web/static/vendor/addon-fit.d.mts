export * from "@xterm/addon-fit";
