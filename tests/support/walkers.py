"""Clients of v1 that hold on to their sessions, on a bare socket."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from tests.support.programs.journaled_server import Place, Stride
from tests.support.servers import RunningServer, ServerProcess, V1Wire

from openenv.core.env_server.app import create_fastapi_app

ServeWalks = Callable[..., RunningServer]

_opens = count(1000)


def walk_server(environment: Any, **settings: Any) -> RunningServer:
    settings.setdefault("max_concurrent_envs", None if "concurrency_config" in settings else 16)
    return RunningServer(create_fastapi_app(environment, Stride, Place, **settings))


def connect(server: ServerProcess | RunningServer, **headers: str) -> V1Wire:
    return V1Wire(f"ws{server.url.removeprefix('http')}/ws", headers or None)


@dataclass
class Walker:
    """A session, as its client knows it."""

    wire: V1Wire
    session: str
    token: str
    last_id: int = 0

    @classmethod
    def open(cls, wire: V1Wire) -> "Walker":
        answer = wire.ask({"type": "open", "id": next(_opens)})
        assert answer["type"] == "opened", answer
        return cls(wire, answer["session"], answer["data"]["token"])

    def message(self, kind: str, data: dict[str, Any] | None = None) -> dict[str, Any]:
        self.last_id += 1
        named = {"type": kind, "id": self.last_id, "session": self.session}
        return named if data is None else {**named, "data": data}

    def ask(self, kind: str, data: dict[str, Any] | None = None) -> dict[str, Any]:
        message = self.message(kind, data)
        answer = self.wire.ask(message)
        assert (answer["id"], answer["session"]) == (message["id"], self.session), answer
        return answer

    def reset(self, **arguments: Any) -> Any:
        return data_of(self.ask("reset", arguments))

    def step(self, length: int = 1, **more: Any) -> Any:
        return data_of(self.ask("step", {"length": length, **more}))

    def fork(self, number: int) -> "list[Walker]":
        answer = self.ask("fork", {"count": number})
        assert answer["type"] == "forked", answer
        return [Walker(self.wire, child["session"], child["token"]) for child in answer["data"]["sessions"]]

    def attach_message(self, answered: int | None = None) -> dict[str, Any]:
        data = {"token": self.token, "answered": self.last_id if answered is None else answered}
        return {"type": "attach", "id": next(_opens), "session": self.session, "data": data}

    def try_to_attach(self, wire: V1Wire, answered: int | None = None) -> dict[str, Any]:
        self.wire = wire
        return wire.ask(self.attach_message(answered))

    def attach(self, wire: V1Wire, answered: int | None = None) -> int:
        """Go on over another socket. Returns the last request that the server knows of."""
        answer = self.try_to_attach(wire, answered)
        assert answer["type"] == "attached", answer
        last_id: int = answer["data"]["last_id"]
        return last_id

    def lost(self, wire: V1Wire, answered: int | None = None) -> str:
        """Fail to go on, and return the reason."""
        data = error_of(self.try_to_attach(wire, answered))
        assert data["code"] == "SESSION_LOST", data
        reason: str = data["message"]
        return reason


def data_of(answer: dict[str, Any]) -> Any:
    assert answer["type"] != "error", answer
    return answer["data"]


def error_of(answer: dict[str, Any]) -> dict[str, Any]:
    assert answer["type"] == "error", answer
    data: dict[str, Any] = answer["data"]
    return data


def crash_image(journal: Path) -> Path:
    """Copy a journal as the server's process would leave it, were it killed now."""
    copy = journal.with_name(f"{journal.name}-{next(_opens)}")
    for suffix in ("", "-wal"):
        shutil.copy(f"{journal}{suffix}", f"{copy}{suffix}")
    return copy
