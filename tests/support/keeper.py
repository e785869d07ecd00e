"""A server of v1 for the tests of clients, which keeps sessions, and does to connections what a test says."""

import json
from contextlib import suppress
from typing import Any

from websockets.sync.server import ServerConnection


class Keeper:
    """Plays a server of v1 that keeps sessions, but for what ``instead`` says of some types of message.

    Args:
        **instead: By the type of a message, what to do in place of an answer: a function of this, the connection and
            the message.

    Attributes:
        connections: How many have come.
        open_connections: Those that have come and that ``cut`` has not ended.
        messages: All that has come.
        headers: The session that each connection named.
        last_ids: Number of the request that each session sent last.
    """

    def __init__(self, window_s: Any = 5, **instead: Any) -> None:
        self.window_s = window_s
        self.instead = instead
        self.connections = 0
        self.open_connections: list[ServerConnection] = []
        self.messages: list[dict[str, Any]] = []
        self.headers: list[str | None] = []
        self.last_ids: dict[str, int] = {}

    def play(self, connection: ServerConnection) -> None:
        self.connections += 1
        self.open_connections.append(connection)
        assert connection.request is not None
        self.headers.append(connection.request.headers.get("X-OpenEnv-Session"))
        for frame in connection:
            document = json.loads(frame)
            for message in document if isinstance(document, list) else [document]:
                self.messages.append(message)
                if "session" in message and message["type"] != "attach":
                    self.last_ids[message["session"]] = message["id"]
                answer = self.instead.get(message["type"], self.answer)(connection, message)
                if answer is not None:
                    connection.send(json.dumps(answer))

    def answer(self, _connection: ServerConnection, message: dict[str, Any]) -> dict[str, Any]:
        kinds = {"open": "opened", "attach": "attached", "close": "closed"}
        session = message.get("session", f"s{message['id']}")
        data: dict[str, Any] = {"observation": {"total": message["id"]}, "reward": None, "done": False}
        if message["type"] in ("open", "attach"):
            data = {"token": f"token of {session}", "resume_window_s": self.window_s}
            data["last_id"] = self.last_ids.get(session, 0)
        return {
            "type": kinds.get(message["type"], "observation"),
            "id": message["id"],
            "session": session,
            "data": data,
        }

    def cut(self) -> None:
        """End every connection without a word."""
        while self.open_connections:
            with suppress(OSError):  # it has ended already
                self.open_connections.pop().socket.shutdown(2)

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["type"] == kind]


def close_with(code: int) -> Any:
    def close(connection: ServerConnection, _message: dict[str, Any]) -> None:
        connection.close(code, "enough")

    return close


def cut_off(connection: ServerConnection, _message: dict[str, Any]) -> None:
    connection.socket.shutdown(2)


def refuse(code: str, message: str, **details: Any) -> Any:
    """Make what answers an ``attach`` with an error."""

    def answer(_connection: ServerConnection, asked: dict[str, Any]) -> dict[str, Any]:
        return {"type": "error", "id": asked["id"], "data": {"code": code, "message": message, **details}}

    return answer


class Once:
    """Does something the first time, and has the keeper answer from then on."""

    def __init__(self, keeper: Keeper, act: Any) -> None:
        self.keeper = keeper
        self.act = act
        self.done = False

    def __call__(self, connection: ServerConnection, message: dict[str, Any]) -> Any:
        if self.done:
            return self.keeper.answer(connection, message)
        self.done = True
        return self.act(connection, message)
