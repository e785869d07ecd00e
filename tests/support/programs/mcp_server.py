"""An MCP server written by hand, without any library, which starts in milliseconds and misbehaves when it is asked to.

Its tools are the functions below; ``--manner`` says how it misbehaves from the start.
"""

import argparse
import json
import os
import signal
import sys
import time
from typing import Any

NOTES: list[str] = []
MANNERS = ("good", "silent", "ends", "old", "stays", "endless_list", "no_list", "bad_list", "taken_names", "odd_names")


def write(text: str) -> Any:
    NOTES.append(text)
    return {"count": len(NOTES)}


def echo(text: str) -> Any:
    return text


def pid() -> Any:
    return os.getpid()


def variable(name: str) -> Any:
    return os.environ.get(name, "(none)")


def fail() -> Any:
    raise ValueError("it's slippery")


def die() -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> Any:
    time.sleep(3600)


def chatter() -> Any:
    """Print what is no message, and then a notification of nothing."""
    sys.stdout.write("Hello, I am a log line.\n\n{}\n[1]\n")
    send(method="notifications/strange", params={"x": 1})
    return "said"


def work() -> Any:
    """Say how far it is."""
    token = PARAMS["_meta"]["progressToken"]
    for done in (1, 2, 4):
        send(method="notifications/progress", params={"progressToken": token, "progress": done, "total": 4})
    return "worked"


def deafen() -> Any:
    """Close the standard output, and live on."""
    os.close(1)
    time.sleep(3600)


def lie() -> Any:
    """Answer with what is no result."""
    send(id=REQUEST, result={"content": "no list"})


def refuse() -> Any:
    send(id=REQUEST, error={"code": -32602, "message": "these arguments are wrong"})


def picture() -> Any:
    send(id=REQUEST, result={"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]})


def structured() -> Any:
    value = {"celsius": 21}
    send(id=REQUEST, result={"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value})


def wrapped() -> Any:
    send(id=REQUEST, result={"content": [{"type": "text", "text": "5"}], "structuredContent": {"result": 5}})


TOOLS = (write, echo, pid, variable, fail, die, hang, chatter, work, deafen, lie, refuse, picture, structured, wrapped)


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def described(name: str) -> dict[str, Any]:
    return {"name": name, "description": f"It can {name}.", "inputSchema": {"type": "object", "properties": {}}}


def listed(manner: str, cursor: str | None) -> dict[str, Any]:
    names = [tool.__name__ for tool in TOOLS]
    if manner == "endless_list":
        return {"tools": [], "nextCursor": "again"}
    if manner == "bad_list":
        return {"tools": [{"description": "nameless"}]}
    if manner == "odd_names":
        names = ["reset", "step", "state", "close", "no spaces", "", "ÿ", "'; DROP", "x" * 129, "echo"]
    if manner == "taken_names":
        names = ["echo", "submit"]
    if cursor is None:  # two pages
        return {"tools": [described(name) for name in names[:2]], "nextCursor": "more"}
    return {"tools": [described(name) for name in names[2:]]}


def called(name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    try:
        value = {tool.__name__: tool for tool in TOOLS}[name](**arguments)
    except (ValueError, TypeError) as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    if value is None:
        return None
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


def greeting(manner: str) -> dict[str, Any]:
    version = "1999-01-01" if manner == "old" else "2025-06-18"
    return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "notes", "version": "1"}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--manner", choices=MANNERS, default="good")
    manner = parser.parse_args().manner
    if manner == "silent":
        time.sleep(3600)
    if manner == "ends":
        sys.exit("no reason")
    if manner == "stays":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        message = json.loads(line)
        REQUEST, PARAMS = message.get("id"), message.get("params", {})
        if message["method"] == "initialize":
            send(id=REQUEST, result=greeting(manner))
        elif message["method"] == "tools/list" and manner == "no_list":
            send(id=REQUEST, error={"code": -32603, "message": "I have lost it"})
        elif message["method"] == "tools/list":
            send(id=REQUEST, result=listed(manner, PARAMS.get("cursor")))
        elif message["method"] == "tools/call":
            result = called(PARAMS["name"], PARAMS.get("arguments", {}))
            if result is not None:
                send(id=REQUEST, result=result)
    if manner == "stays":
        time.sleep(3600)
