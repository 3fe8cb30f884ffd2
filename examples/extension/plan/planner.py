#!/usr/bin/env python3
"""/planner turns a mode on and off in which the model may read, and nothing else."""
import json
import sys

READS = {"Read", "Grep", "Glob", "LS", "TodoWrite", "AskUserQuestion", "WebFetch"}
on = False


def command(request: dict) -> dict:
    global on
    on = not on
    if on:
        return {"notice": "Planning: nothing is changed."}
    return {"notice": "Working.", "prompt": "Carry out the plan, one step after the other."}


def hook(event: dict) -> dict:
    if event["hook_event_name"] == "UserPromptSubmit":
        told = "Only plan: read what you need, then list numbered steps. Change nothing." if on else ""
        return {"status": "planning" if on else "", "hookSpecificOutput": {"additionalContext": told}}
    if not on or event["tool_name"] in READS:
        return {}
    reason = "only planning: the user types /planner to begin the work"
    return {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": reason}}


for line in sys.stdin:
    request = json.loads(line)
    result = command(request) if request["method"] == "command" else hook(request["input"])
    print(json.dumps({"id": request["id"], "result": result}), flush=True)
