"""Answers of a model's server that are none, and some that are unusual, as `ModelServer` sends them."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from fastapi import Response


def completion(message: Any) -> Response:
    """A completion of OpenAI's interface with a message, whatever that is."""
    answer = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
    return as_json({**answer, "choices": [{"message": message}]})


def as_json(value: Any) -> Response:
    """A JSON text in an answer with the status 200."""
    return Response(json.dumps(value), media_type="application/json")


def _call(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [{"type": "function", **fields}]}


MALFORMED: Mapping[str, Response] = {
    "no choices": as_json({"choices": []}),
    "null choices": as_json({"choices": None}),
    "choices of another type": as_json({"choices": {"message": {"content": "up"}}}),
    "a choice that is null": as_json({"choices": [None]}),
    "no message": as_json({"choices": [{"index": 0}]}),
    "a message that is a text": completion("up"),
    "an error in a 200": as_json({"error": {"message": "overloaded", "code": 529}}),
    "an error that is a text": as_json({"error": "overloaded"}),
    "a list": as_json([]),
    "null": as_json(None),
    "an object without fields": as_json({}),
    "HTML": Response("<html><body>Bad gateway</body></html>", media_type="text/html"),
    "HTML that is called JSON": Response("<html></html>", media_type="application/json"),
    "nothing": Response(b"", media_type="application/json"),
    "nothing of no type": Response(b""),
    "half of a JSON text": Response(b'{"choices": [{"mess', media_type="application/json"),
    "a stream of events": Response(b'data: {"choices": []}\n\n', media_type="text/event-stream"),
    "bytes that are no UTF-8": Response(b'{"choices": "\xf0\x9f"}', media_type="application/json"),
    "lists in lists": Response(b"[" * 100_000, media_type="application/json"),
    "content that is a number": completion({"role": "assistant", "content": 5}),
    "a part without a text": completion({"role": "assistant", "content": [{"type": "text"}]}),
    "calls of another type": completion({"role": "assistant", "content": None, "tool_calls": "climb"}),
    "a call that is null": completion({"role": "assistant", "content": None, "tool_calls": [None]}),
    "a call without a function": completion(_call(id="a")),
    "a call without a name": completion(_call(id="a", function={"arguments": "{}"})),
    "a call of a tool without letters": completion(_call(id="a", function={"name": "", "arguments": "{}"})),
}
"""Answers with the status 200 that are none, by what they are."""

BROKEN_OFF: Mapping[str, bytes] = {
    "nothing": b"",
    "half of a head": b"HTTP/1.1 200 OK\r\nContent-",
    "half of a body": b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"choices": [',
}
"""What a server sends that ends the connection then, by what it is."""


@contextmanager
def breaking_server(sent: bytes) -> Iterator[str]:
    """A server that answers every request so, and ends the connection; its address."""
    handler = type("Handler", (_BreakingHandler,), {"sent": sent})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
        thread.join()


class _BreakingHandler(BaseHTTPRequestHandler):
    sent: bytes

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.wfile.write(self.sent)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass
