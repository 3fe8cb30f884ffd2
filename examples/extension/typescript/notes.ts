// A tool, a command, a guard and a status line, with one state: copy this directory's files to .knack/tools.
// Node 22.18 and later run it as it is.
import { createInterface } from "node:readline";

type Event = { hook_event_name: string; tool_input?: { command?: string }; answers?: string[] };
type Request = { id: number; method: string; input: any; arguments: string; answers?: string[]; details?: any };

const notes: string[] = [];
const risky = ["push --force", "reset --hard"];

function tool(given: { text: string }): object {
  notes.push(given.text);
  return { text: `Noted as number ${notes.length}.`, details: { notes } };
}

function command(args: string, answers: string[]): object {
  if (notes.length === 0) return { notice: "There are no notes yet." };
  if (args !== "clear") {
    return { table: { columns: ["#", "note"], rows: notes.map((n, i) => [String(i + 1), n]) } };
  }
  if (answers.length === 0) {
    return { choose: { title: `Remove ${notes.length} notes?`, options: ["yes", "no"] } };
  }
  if (answers.at(-1) === "yes") notes.length = 0;
  return { notice: `${notes.length} notes are left.` };
}

function hook(event: Event): object {
  if (event.hook_event_name !== "PreToolUse") {
    return { status: notes.length > 0 ? `${notes.length} notes` : "" };
  }
  const line = event.tool_input?.command ?? "";
  if (!risky.some((words) => line.includes(words))) return {};
  if (!event.answers) {
    return { ask: { title: "This may lose work. Run it?", text: line, options: ["run", "refuse"] } };
  }
  if (event.answers.at(-1) === "run") return {}; // the rules still decide
  return { hookSpecificOutput: { permissionDecision: "deny", permissionDecisionReason: "the user refused it" } };
}

function answer(r: Request): object {
  switch (r.method) {
    case "tool":
      return tool(r.input);
    case "command":
      return command(r.arguments, r.answers ?? []);
    default:
      return hook(r.input);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const request: Request = JSON.parse(line);
  notes.push(...(request.details?.notes ?? [])); // of a session that is resumed
  try {
    console.log(JSON.stringify({ id: request.id, result: answer(request) }));
  } catch (problem) {
    console.log(JSON.stringify({ id: request.id, error: String(problem) }));
  }
}
