#!/usr/bin/env python3
"""A tool, a command, a guard and a status line, with one state: copy this directory's files to .knack/tools."""
import json
import sys

notes: list[str] = []
PROTECTED = ("push --force", "reset --hard")


def status() -> str:
    return f"{len(notes)} notes" if notes else ""


def tool(name: str, given: dict) -> dict:
    notes.append(given["text"])
    return {"text": f"Noted as number {len(notes)}.", "details": {"notes": notes}}


def command(name: str, arguments: str, answers: list[str]) -> dict:
    if not notes:
        return {"notice": "There are no notes yet."}
    if arguments != "clear":
        return {"table": {"columns": ["#", "note"], "rows": [[str(i + 1), n] for i, n in enumerate(notes)]}}
    if not answers:
        return {"choose": {"title": f"Remove {len(notes)} notes?", "options": ["yes", "no"]}}
    if answers[-1] == "yes":
        notes.clear()
    return {"notice": f"{len(notes)} notes are left."}


def hook(event: dict) -> dict:
    if event["hook_event_name"] != "PreToolUse":
        return {"status": status()}
    line = event["tool_input"].get("command", "")
    if not any(p in line for p in PROTECTED):
        return {}
    answers = event.get("answers")
    if not answers:
        return {"ask": {"title": "This may lose work. Run it?", "text": line, "options": ["run", "refuse"]}}
    if answers[-1] == "run":
        return {}  # the rules still decide
    return {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "the user refused it"}}


for line in sys.stdin:
    request = json.loads(line)
    answer = {"id": request["id"]}
    notes += request.get("details", {}).get("notes", [])  # of a session that is resumed
    try:
        if request["method"] == "tool":
            answer["result"] = tool(request["name"], request["input"])
        elif request["method"] == "command":
            answer["result"] = command(request["name"], request["arguments"], request.get("answers", []))
        else:
            answer["result"] = hook(request["input"])
    except Exception as problem:  # is told, and the next request is answered
        answer["error"] = repr(problem)
    print(json.dumps(answer), flush=True)
