"""A client of ORS that sends exactly what it is given."""

import json
from typing import Any, NamedTuple

import httpx
from tests.support.servers import RunningServer


class Sent(NamedTuple):
    """One server-sent event."""

    event: str
    data: str


def events_of(text: str) -> list[Sent]:
    """Read a stream of events as the OpenReward SDK does, which takes white space off the beginning of each line."""
    events = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        lines = [line.partition(":") for line in block.split("\n") if line and not line.startswith(":")]
        fields = [(name, value.lstrip()) for name, _, value in lines]
        names = [value for name, value in fields if name == "event"]
        if names:
            events.append(Sent(names[-1], "\n".join(value for name, value in fields if name == "data")))
    return events


class OrsWire:
    """One session on a server, under a name of the server's making."""

    def __init__(self, server: RunningServer, headers: dict[str, str] | None = None) -> None:
        self.http: httpx.Client = server.http(headers=headers, follow_redirects=True)
        self.sid = events_of(self.http.post("/create_session").text)[0].data
        self.http.headers["X-Session-ID"] = self.sid

    def post(self, path: str, body: Any = None) -> httpx.Response:
        return self.http.post(path, json=body)

    def get(self, path: str) -> httpx.Response:
        return self.http.get(path)

    def create(self, **body: Any) -> httpx.Response:
        return self.post("/create", body)

    def begin(self, **task: Any) -> str:
        """Begin an episode that is bound to begin, and return its prompt."""
        created = self.create(**(task or {"task_spec": {}}))
        assert (created.status_code, created.json()) == (200, {"sid": self.sid}), created.text
        (block,) = self.get("/prompt").json()
        assert block["type"] == "text"
        text: str = block["text"]
        return text

    def stream(self, name: str, task_id: str | None = None, **arguments: Any) -> list[Sent]:
        """Call a tool, and return every event that comes."""
        response = self.post("/call", {"name": name, "input": arguments, "task_id": task_id})
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        return events_of(response.text)

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool, and return what came of it."""
        first, *chunks = self.stream(name, **arguments)
        assert first.event == "task_id"
        assert [chunk.event for chunk in chunks] == ["chunk"] * (len(chunks) - 1) + ["end"], chunks
        result: dict[str, Any] = json.loads("".join(chunk.data for chunk in chunks))
        return result

    def failed(self, name: str, **arguments: Any) -> str:
        """Call a tool that fails on the server, and return why."""
        _, last = self.stream(name, **arguments)
        assert last.event == "error"
        return last.data

    def close(self) -> None:
        self.http.close()

    def __enter__(self) -> "OrsWire":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
