export * from "@xterm/xterm";
