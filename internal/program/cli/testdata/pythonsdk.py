"""Drives knack with the Agent SDK for Python: pythonsdk.py PROGRAM"""
import asyncio
import os
import sys

from claude_agent_sdk import (AssistantMessage, ClaudeAgentOptions, ClaudeSDKClient, HookMatcher, PermissionResultAllow,
                              PermissionResultDeny, ResultMessage, SystemMessage, query)


def options(**more):
    return ClaudeAgentOptions(cli_path=sys.argv[1], max_turns=10, extra_args={"sandbox": "off"}, **more)


async def results(client):
    return [m async for m in client.receive_response()]


async def main():
    asked, hooked = [], []

    async def can_use_tool(name, input, context):
        asked.append(f"{name} {input['command']}")
        if input["command"] == "touch denied":
            return PermissionResultDeny(message="not this one")
        if input["command"] == "touch one":
            return PermissionResultAllow(updated_input={"command": "touch two"})
        return PermissionResultAllow(updated_permissions=context.suggestions)

    async def hook(input, id, context):
        hooked.append(input["tool_input"]["command"])
        return {}

    async with ClaudeSDKClient(options(can_use_tool=can_use_tool, system_prompt="SYSTEM WORDS",
                                       hooks={"PreToolUse": [HookMatcher(matcher="Bash", hooks=[hook])]})) as client:
        info = await client.get_server_info()
        assert info["commands"], info
        await client.query("go")
        messages = await results(client)
        assert messages[-1].result == "all done", messages[-1]
        assert asked == ["Bash touch denied", "Bash touch one", "Bash touch three"], asked
        assert hooked == ["touch denied", "touch one", "touch three", "touch three"], hooked
        assert not os.path.exists("denied") and not os.path.exists("one")
        assert os.path.exists("two") and os.path.exists("three")
        session = messages[-1].session_id
        init = [m for m in messages if isinstance(m, SystemMessage) and m.subtype == "init"]
        assert "Bash" in init[0].data["tools"], init
        await client.set_permission_mode("acceptEdits")
        await client.set_model(None)
        assert (await client.get_context_usage())["totalTokens"] > 0
        assert (await client.get_mcp_status())["mcpServers"] == []

    async with ClaudeSDKClient(options(allowed_tools=["Bash(sleep:*)"])) as client:
        await client.query("wait")
        async for message in client.receive_response():
            if isinstance(message, AssistantMessage):
                await client.interrupt()
        assert isinstance(message, ResultMessage) and message.subtype == "error_during_execution", message
        await client.query("go on")
        assert (await results(client))[-1].result == "on it"

    for more in [{"resume": session}, {"resume": session, "fork_session": True}]:
        last = [m async for m in query(prompt="which?", options=options(**more))][-1]
        assert last.result == "remembered", last
        assert (last.session_id == session) == ("fork_session" not in more)

    schema = {"type": "object", "properties": {"count": {"type": "number"}}, "required": ["count"]}
    last = [m async for m in query(prompt="count", options=options(
        output_format={"type": "json_schema", "schema": schema}, setting_sources=[], include_partial_messages=True))][-1]
    assert last.structured_output == {"count": 3}, last
    print("passed")


asyncio.run(main())
