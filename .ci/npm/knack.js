#!/usr/bin/env node
// Starts the program that npm installed for this machine, with the same arguments and streams.
"use strict";
const { spawn } = require("node:child_process");
const target = `${process.platform}-${process.arch}`;
const file = process.platform === "win32" ? "knack.exe" : "knack";
let program;
try {
  program = require.resolve(`@knack-agent/${target}/bin/${file}`);
} catch {
  console.error(`knack: error: the package @knack-agent/${target} is not installed`);
  console.error("knack: hint: npm install -g knack-agent, without --omit=optional");
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// A terminal sends Ctrl-C to both; a signal for this process alone is passed on. The program decides when to end.
process.on("SIGINT", () => {});
for (const name of ["SIGTERM", "SIGHUP"]) process.on(name, () => child.kill(name));
child.on("error", (err) => {
  console.error(`knack: error: ${err.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  process.exit(code ?? 128 + (require("node:os").constants.signals[signal] ?? 0));
});
