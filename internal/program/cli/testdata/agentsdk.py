"""Drives a program as the Agent SDK for Python does: agentsdk.py PROGRAM"""
import json
import subprocess
import sys

process = subprocess.Popen(
    [sys.argv[1], "--output-format", "stream-json", "--verbose", "--system-prompt", "", "--allowedTools", "Read",
     "--permission-prompt-tool", "stdio", "--setting-sources", "", "--task-budget", "1000", "--sandbox", "off",
     "--input-format", "stream-json"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
asked = []


def send(message):
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()


def answer(request, response):
    send({"type": "control_response",
          "response": {"subtype": "success", "request_id": request["request_id"], "response": response}})


def read(until):
    """Reads messages, answers requests, and returns the first message that until accepts."""
    for line in process.stdout:
        message = json.loads(line)
        if message["type"] == "control_request":
            request = message["request"]
            asked.append(request["subtype"])
            if request["subtype"] == "can_use_tool":
                assert request["tool_name"] == "Bash", request
                answer(message, {"behavior": "allow", "updatedInput": request["input"]})
            elif request["subtype"] == "hook_callback":
                assert request["callback_id"] == "hook_0" and request["input"]["tool_name"] == "Bash", request
                answer(message, {"continue": True})
        elif until(message):
            return message
    raise SystemExit("the program ended")


def request(number, body):
    id = f"req_{number}_0a1b2c3d"
    send({"type": "control_request", "request_id": id, "request": body})
    response = read(lambda m: m["type"] == "control_response" and m["response"]["request_id"] == id)["response"]
    assert response["subtype"] == "success", response
    return response.get("response") or {}


def query(text):
    send({"type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": None, "session_id": "default"})


info = request(1, {"subtype": "initialize",
                   "hooks": {"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["hook_0"], "timeout": 30}]}})
assert info["commands"], info
query("touch")
result = read(lambda m: m["type"] == "result")
assert result["subtype"] == "success" and result["result"] == "touched", result
assert asked == ["hook_callback", "can_use_tool"], asked
request(2, {"subtype": "set_permission_mode", "mode": "acceptEdits"})
request(3, {"subtype": "set_model", "model": None})
request(4, {"subtype": "interrupt"})
query("again")
assert read(lambda m: m["type"] == "result")["result"] == "the second"
process.stdin.close()
assert process.wait() == 0
print("passed")
