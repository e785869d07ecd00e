"""Clients of language models, against a scripted server of both vendors' APIs."""

import asyncio
import json
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from unittest.mock import patch

import openai
import pytest
from opentelemetry.trace import SpanKind
from tests.support.spans import named, span_exporter

from openenv.core import AnthropicClient, LLMResponse, OpenAIClient, ToolCall, create_llm_client
from openenv.core.background_loop import background_loop
from openenv.core.llm_client import TokenUsage

TOOLS = [{"name": "add", "description": "Add", "inputSchema": {"type": "object", "properties": {"a": {}}}}]
ARGUMENTS = '{"a": 1}'


class _Handler(BaseHTTPRequestHandler):
    requests: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append(body)
        answer = _openai(body) if self.path.endswith("/chat/completions") else _anthropic(body)
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


def _openai(body: dict[str, Any]) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": ARGUMENTS}}
    message = {"role": "assistant", "content": "four", "tool_calls": [call] if "tools" in body else None}
    return {
        "id": "1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
    }  # fmt: skip


def _anthropic(body: dict[str, Any]) -> dict[str, Any]:
    call = {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}
    return {
        "id": "1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "four"}, *([call] if "tools" in body else [])],
        "usage": {"input_tokens": 7, "output_tokens": 2},
    }  # fmt: skip


@pytest.fixture
def service() -> Iterator[tuple[int, list[dict[str, Any]]]]:
    requests: list[dict[str, Any]] = []
    handler = type("Handler", (_Handler,), {"requests": requests})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1], requests
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:{}", "http://127.0.0.1:{}/", "http://127.0.0.1:{}/v1"])
async def test_an_endpoint_with_its_port(endpoint: str, service: tuple[int, list[dict[str, Any]]]) -> None:
    client = OpenAIClient(endpoint.format(service[0]), None, "m")
    try:
        assert await client.complete("2+2?") == "four"
        assert client._client.base_url.path == "/v1/"
    finally:
        await client._client.close()


@pytest.mark.parametrize(
    ("endpoint", "port", "base_url"),
    [
        ("http://h", 8000, "http://h:8000"),
        ("http://h:8000/", 8000, "http://h:8000"),
        ("https://h", None, "https://h"),
        ("http://h/models/", 4000, "http://h:4000/models"),
        ("http://[::1]", 8000, "http://[::1]:8000"),
    ],
)
def test_the_address_of_a_service(endpoint: str, port: int | None, base_url: str) -> None:
    assert AnthropicClient(endpoint, port, "m").base_url == base_url


@pytest.mark.parametrize(
    ("endpoint", "shown"),
    [
        ("h:8000", ""),
        ("http://h:1:2", " http://h"),
        ("http://h:", " http://h"),
        ("http://[::1", ""),
        ("http://", ""),
        ("https://h/v1?key=hunter2", " https://h"),
        ("https://h/hunter2#hunter2", " https://h"),
    ],
)
def test_what_is_no_address_of_a_service(endpoint: str, shown: str) -> None:
    with pytest.raises(ValueError, match=f"Invalid endpoint URL{re.escape(shown)}: ") as refused:
        OpenAIClient(endpoint, 8000, "m")
    assert "hunter2" not in str(refused.value)


def test_an_address_with_a_login_is_refused_without_showing_it() -> None:
    with pytest.raises(ValueError, match="Invalid endpoint URL: expected neither a login") as refused:
        OpenAIClient("http://me:hunter2@h", 8000, "m")
    assert "hunter2" not in str(refused.value)


def test_a_mock_in_place_of_the_vendors_client_is_left_behind_without_an_error() -> None:
    with patch("openenv.core.llm_client.AsyncOpenAI") as vendor:
        client = OpenAIClient("http://h", 8000, "m")
    del client  # its finalizer runs here; an error in it would be a warning, which is an error
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), background_loop().loop).result()
    vendor.return_value.close.assert_called_once_with()


def test_two_ports() -> None:
    with pytest.raises(ValueError, match=r"The port of http://h:1 conflicts with port=2"):
        OpenAIClient("http://h:1", 2, "m")


@pytest.mark.parametrize("client_class", [OpenAIClient, AnthropicClient])
async def test_answers_and_tools(
    client_class: type[OpenAIClient] | type[AnthropicClient], service: tuple[int, list[dict[str, Any]]]
) -> None:
    port, requests = service
    client = client_class("http://127.0.0.1", port, "m", system_prompt="Count.", max_tokens=9)
    try:
        assert await client.complete("2+2?", temperature=0.5) == "four"
        assert (await client.respond("2+2?")).usage == TokenUsage(7, 2)
        response = await client.complete_with_tools([{"role": "user", "content": "2+2?"}], TOOLS)
    finally:
        await client._client.close()
    assert (requests[0]["temperature"], requests[0]["max_tokens"], requests[1]["temperature"]) == (0.5, 9, 0.0)
    assert response.tool_calls == [ToolCall("c1", "add", {"a": 1})]
    assert response.to_message_dict()["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a": 1}'}
    assert "Count." in json.dumps(requests[0])


@pytest.mark.parametrize(
    ("client_class", "provider"),
    [(OpenAIClient, "openai"), (AnthropicClient, "anthropic")],
    ids=["openai", "anthropic"],
)
@pytest.mark.parametrize("content", ["", "true"])
async def test_spans_of_requests(
    client_class: type[OpenAIClient] | type[AnthropicClient],
    provider: str,
    content: str,
    service: tuple[int, list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_API_KEY", "hunter2hunter2")
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", content)
    exporter = span_exporter()
    exporter.clear()
    client = client_class("http://127.0.0.1", service[0], "m", max_tokens=9, api_key="hunter3hunter3")
    try:
        await client.complete("not traced")
        monkeypatch.setenv("OPENENV_TELEMETRY", "1")
        await client.complete_with_tools([{"role": "user", "content": "2+2? hunter2hunter2"}], TOOLS, temperature=0.5)
    finally:
        await client._client.close()
    (span,) = named(exporter, "chat m")
    found = dict(span.attributes or {})
    said, answered = found.pop("gen_ai.input.messages", None), found.pop("gen_ai.output.messages", None)
    finish_reason = "stop" if provider == "openai" else "end_turn"
    assert (span.name, span.kind) == ("chat m", SpanKind.CLIENT)
    assert found == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": "m",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.response.id": "1",
        "gen_ai.response.model": "m",
        "gen_ai.response.finish_reasons": (finish_reason,),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 2,
        "server.address": "127.0.0.1",
        "server.port": service[0],
    }
    if not content:
        assert said is answered is None
        assert "2+2" not in span.to_json()
        return
    assert json.loads(str(said)) == [{"role": "user", "parts": [{"type": "text", "content": "2+2? [redacted]"}]}]
    (message,) = json.loads(str(answered))
    assert message["finish_reason"] == finish_reason
    assert message["parts"][0] == {"type": "text", "content": "four"}
    assert [part["name"] for part in message["parts"][1:]] == ["add"]


@pytest.mark.parametrize("client_class", [OpenAIClient, AnthropicClient])
async def test_pictures_that_a_tool_gave_are_in_no_span(
    client_class: type[OpenAIClient | AnthropicClient],
    service: tuple[int, list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENENV_TELEMETRY", "1")
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    exporter = span_exporter()
    exporter.clear()
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJDREVG"}}
    content = [{"type": "text", "text": "a cat"}, picture]
    messages: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": "1", "content": content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "2", "content": content}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "3"}]},
    ]
    client = client_class("http://127.0.0.1", service[0], "m")
    try:
        await client.complete_with_tools(messages, TOOLS)
    finally:
        await client._client.close()
    (span,) = named(exporter, "chat m")
    assert "QUJDREVG" not in span.to_json()
    said = json.loads(str(dict(span.attributes or {})["gen_ai.input.messages"]))
    shown = [{"type": "text", "content": "a cat"}, {"type": "image"}]
    assert [part["response"] for message in said for part in message["parts"]] == [shown, shown, []]


async def test_the_span_of_a_request_that_fails_has_the_kind_of_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_TELEMETRY", "1")
    exporter = span_exporter()
    exporter.clear()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    client = OpenAIClient("http://127.0.0.1", port, "m", max_retries=0)
    with pytest.raises(openai.APIConnectionError):
        await client.complete("2+2?")
    await client._client.close()
    (span,) = named(exporter, "chat m")
    assert (span.attributes or {})["error.type"] == span.status.description == "APIConnectionError"
    assert not span.events


@pytest.mark.parametrize(
    ("written", "arguments"),
    [('{"a": 1}', {"a": 1}), ({"a": 1}, {"a": 1}), ("", {}), (" ", {}), (None, {}), ("{}", {})],
)
def test_arguments_of_a_call(written: Any, arguments: dict[str, Any]) -> None:
    assert ToolCall.of("1", "add", written) == ToolCall("1", "add", arguments)


@pytest.mark.parametrize(
    "written", ['{"a": 1', "a=1", "[1]", '"a"', "1", "{'a': 1}", '{"a": 1} {}', "[" * 100_000, [1]]
)
def test_arguments_that_are_no_object_are_a_problem_for_the_model_and_no_error(written: Any) -> None:
    call = ToolCall.of("1", "add", written)
    assert call.args == {}
    assert str(call.problem).startswith("Expected the arguments as an object of JSON, got ")
    (sent,) = LLMResponse("", [call]).to_message_dict()["tool_calls"]
    assert sent["function"]["arguments"] == "{}"


async def test_a_model_that_writes_no_json_goes_on(
    service: tuple[int, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.core.test_llm_client.ARGUMENTS", '{"a": ')
    port, requests = service
    client = OpenAIClient("http://127.0.0.1", port, "m")
    other = AnthropicClient("http://127.0.0.1", port, "m")
    try:
        response = await client.complete_with_tools([{"role": "user", "content": "2+2?"}], TOOLS)
        assert [call.problem is None for call in response.tool_calls] == [False]
        call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": '}}
        said: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [call]}
        told = {"role": "tool", "tool_call_id": "c1", "content": "?"}
        await other.complete_with_tools([{"role": "user", "content": "2+2?"}, said, told], TOOLS)
    finally:
        await client._client.close()
        await other._client.close()
    assert requests[1]["messages"][1]["content"] == [{"type": "tool_use", "id": "c1", "name": "add", "input": {}}]


@pytest.mark.parametrize(
    ("model", "reasons"),
    [
        *((model, True) for model in ("gpt-5.1", "gpt-5-nano", "gpt-10", "o3-pro", "o5")),
        *((model, False) for model in ("gpt-4o", "gpt-4.1", "omni-moderation-latest", "my-gpt-5")),
    ],
)
async def test_a_model_that_reasons_has_no_temperature(
    service: tuple[int, list[dict[str, Any]]], model: str, reasons: bool
) -> None:
    port, requests = service
    client = create_llm_client("openai", model, "key", max_tokens=9)
    assert isinstance(client, OpenAIClient)
    client._client.base_url = f"http://127.0.0.1:{port}"
    try:
        await client.complete("2+2?")
    finally:
        await client._client.close()
    limits = {"max_completion_tokens": 9} if reasons else {"max_tokens": 9, "temperature": 0.0}
    assert {name: requests[0][name] for name in requests[0].keys() - {"model", "messages"}} == limits


def test_vendors() -> None:
    assert isinstance(create_llm_client("OpenAI", "gpt-4", "key"), OpenAIClient)
    with pytest.raises(ValueError, match="Unsupported provider: 'other'"):
        create_llm_client("other", "m", "key")
    assert LLMResponse("hello").to_message_dict() == {"role": "assistant", "content": "hello"}


class _CountingServer:
    """Counts connections and requests under way, and answers nothing before as many are under way as expected."""

    def __init__(self, expected: int) -> None:
        self.connections = 0
        self.under_way = 0
        self.most = 0
        self._expected = expected
        self._full = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError):  # the client has no further request
            while True:
                await self._answer(reader, writer)
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        if self.under_way == self._expected:
            self._full.set()
        await self._full.wait()
        self.under_way -= 1
        text = json.dumps(_openai({}) if b"/chat/completions" in head else _anthropic({})).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(text) + text
        )
        await writer.drain()


@pytest.mark.parametrize("client_class", [OpenAIClient, AnthropicClient])
async def test_no_more_requests_are_under_way_than_the_limit(
    client_class: type[OpenAIClient] | type[AnthropicClient],
) -> None:
    counting = _CountingServer(4)
    async with await asyncio.start_server(counting, "127.0.0.1", 0) as server:
        client = client_class("http://127.0.0.1", server.sockets[0].getsockname()[1], "m", at_once=4)
        answers = await asyncio.gather(*[client.complete(f"{number}") for number in range(24)])
        closing = asyncio.run_coroutine_threadsafe(client._client.close(), background_loop().loop)
        await asyncio.wrap_future(closing)
    assert answers == ["four"] * 24
    assert (counting.most, counting.connections) == (4, 4)


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at_once to be at least 1, got 0"):
        OpenAIClient("http://127.0.0.1", 9, "m", at_once=0)
