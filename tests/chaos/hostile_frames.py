"""Malformed, oversized, out-of-order and hostile frames, on both wires and over HTTP, beside a client that plays on."""

import asyncio
import json
import math
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import httpx
from tests.chaos.effort import Effort
from tests.chaos.hostility import HANDSHAKE, MAX_MESSAGE_MB, Hostility, Message, broken_frames, broken_handshake
from tests.chaos.players import Match, assert_same, play_single
from tests.chaos.server import PATIENCE_S, Server
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from openenv.core.env_server.types import WSErrorCode

_FRAMES_ON_A_SOCKET = 100
_SOCKETS_AT_ONCE = 4
# Of a hundred, how many are bytes that are no frame, and how many are requests over HTTP; the rest is shared by the
# two wires.
_BROKEN_PERCENT = 2
_HTTP_PERCENT = 4
_MEMORY_BOUND_BYTES = 48 * 1024 * 1024
_KINDS = {"observation", "state", "mcp", "opened", "attached", "forked", "closed", "error"}
_CODES = frozenset(WSErrorCode)
# What only an environment could have caused, and this one never does.
_NOT_THESE = {"FACTORY_ERROR", "TIMEOUT"}
_METHODS = ["GET", "POST", "DELETE", "PUT", "PATCH", "OPTIONS", "HEAD", "TRACE"]
_PATHS = ["/reset", "/step", "/state", "/session", "/health", "/metadata", "/schema", "/ws", "/mcp", "/%00", "/../x"]
_CONTENT_TYPES = ["application/json", "text/plain", "application/xml", "multipart/form-data", "x", ""]


class _Tally:
    """What was sent, and which errors came."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()

    def check(self, answer: Any) -> None:
        """Note an answer, which must be one of those that the wire has."""
        assert isinstance(answer, dict), answer
        assert answer.get("type") in _KINDS, answer
        data = answer["data"]
        kind = answer["type"]
        if kind == "error":
            kind = data["code"]
            assert kind in _CODES, answer
            assert kind not in _NOT_THESE, answer
            assert isinstance(data["message"], str), answer
            assert "Traceback" not in data["message"], answer
        self.answers[kind] += 1


def run(effort: Effort, folder: Path) -> str:
    """Send what no client should, while another client plays episodes.

    Args:
        effort: How many frames.
        folder: Where logs go.

    Returns:
        The counts.
    """
    settings: dict[str, Any] = {
        "max_concurrent_envs": 64,
        "max_message_size_mb": MAX_MESSAGE_MB,
        "resume_window_s": 0.2,
    }
    with Server.of("ChainEnvironment", folder, **settings) as server:
        asyncio.run(_send_all(server, effort.seed, effort.hostile_frames // 10, _Tally()))
        before = server.memory_bytes()
        tally = _Tally()
        played = asyncio.run(_send_beside_a_player(server, effort, tally))
        grown = server.memory_bytes() - before
        server.assert_nothing_unhandled()
    assert grown < _MEMORY_BOUND_BYTES, f"{grown} more bytes"
    codes = ", ".join(f"{count:,} {kind}" for kind, count in tally.answers.most_common())
    return (
        f"{sum(tally.sent.values()):,} ({', '.join(f'{count:,} {kind}' for kind, count in tally.sent.items())}); "
        f"answers: {codes}; nothing unhandled in the log, memory {grown / 2**20:+.0f} MiB; "
        f"{played} episodes beside them with equal rewards"
    )


async def _send_beside_a_player(server: Server, effort: Effort, tally: _Tally) -> int:
    """Send everything, while a client plays one episode after another; return how many."""
    match = Match(server.url, effort.seed, "player")
    episodes = 0
    async with match.client() as client:
        expected = await play_single(match, client, range(10))
        sending = asyncio.create_task(_send_all(server, effort.seed + 1, effort.hostile_frames, tally))
        try:
            while not sending.done():
                assert_same(await play_single(match, client, range(10)), expected)
                episodes += 10
        finally:
            await sending
    return episodes


async def _send_all(server: Server, seed: int, frames: int, tally: _Tally) -> None:
    broken, over_http = frames * _BROKEN_PERCENT // 100, frames * _HTTP_PERCENT // 100
    sockets = math.ceil((frames - broken - over_http) / _FRAMES_ON_A_SOCKET)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_send_broken(server.port, Random(seed), broken, tally))
        tasks.create_task(_request(server.url, Hostility(Random(seed + 1)), over_http, tally))
        for number in range(_SOCKETS_AT_ONCE):
            mine = len(range(number, sockets, _SOCKETS_AT_ONCE))
            tasks.create_task(_send_frames(server.port, Hostility(Random(seed + 2 + number)), mine, tally))


async def _send_frames(port: int, hostility: Hostility, sockets: int, tally: _Tally) -> None:
    """Fill some sockets with hostile frames, of either wire."""
    for _ in range(sockets):
        if hostility.dice.random() < 0.5:
            await _send_legacy(port, hostility, tally)
        else:
            await _send_v1(port, hostility, tally)


async def _send_legacy(port: int, hostility: Hostility, tally: _Tally) -> None:
    """Send frames on the legacy wire; each of them has one answer."""
    valid: list[Message] = [
        {"type": "reset", "data": {"seed": 1}},
        {"type": "step", "data": {"amount": 1}},
        {"type": "state"},
        {"type": "mcp", "data": {"jsonrpc": "2.0", "method": "tools/list", "id": 1}},
    ]
    async with _connected(port, None) as wire:
        for _ in range(_FRAMES_ON_A_SOCKET):
            await wire.send(hostility.frame(hostility.dice.choice(valid)))
        for _ in range(_FRAMES_ON_A_SOCKET):
            tally.check(json.loads(await asyncio.wait_for(wire.recv(), PATIENCE_S)))
    tally.sent["frames on the legacy wire"] += _FRAMES_ON_A_SOCKET


async def _send_v1(port: int, hostility: Hostility, tally: _Tally) -> None:
    """Send frames on v1, and read all that comes until the answer to a last one."""
    async with _connected(port, "openenv.v1") as wire:
        await wire.send('{"type": "open", "id": 1}')
        opened = json.loads(await wire.recv())
        tally.check(opened)
        session = opened.get("session", "none")
        reader = asyncio.create_task(_read_until_last(wire, tally))
        for number in range(_FRAMES_ON_A_SOCKET):
            await wire.send(_v1_frame(hostility, session, number))
        await wire.send('{"type": "state", "id": 7, "session": "the last one"}')
        await asyncio.wait_for(reader, PATIENCE_S)
    tally.sent["frames on v1"] += _FRAMES_ON_A_SOCKET


def _v1_frame(hostility: Hostility, session: str, number: int) -> str | bytes:
    valid: list[Message] = [
        {"type": "reset", "id": number, "session": session, "data": {"seed": 1}},
        {"type": "step", "id": number, "session": session, "data": {"amount": 1}},
        {"type": "state", "id": number, "session": session},
        {"type": "open", "id": number, "data": {"max_message_bytes": 1000}},
        {"type": "attach", "id": number, "session": session, "data": {"token": "guessed", "answered": 0}},
        {"type": "fork", "id": number, "session": session, "data": {"count": 2}},
    ]
    choice = hostility.dice.random()
    if choice < 0.1:
        return hostility.array(valid)
    if choice < 0.4:
        return json.dumps(hostility.message(session, number))
    return hostility.frame(hostility.dice.choice(valid))


async def _read_until_last(wire: ClientConnection, tally: _Tally) -> None:
    while True:
        frame = json.loads(await wire.recv())
        for answer in frame if isinstance(frame, list) else [frame]:
            tally.check(answer)
            if answer.get("session") == "the last one":
                return


def _connected(port: int, subprotocol: str | None) -> connect:
    return connect(
        f"ws://127.0.0.1:{port}/ws",
        compression=None,
        ping_interval=None,
        proxy=None,
        max_size=None,
        subprotocols=None if subprotocol is None else [Subprotocol(subprotocol)],
    )


async def _send_broken(port: int, dice: Random, count: int, tally: _Tally) -> None:
    """Send bytes that are no handshake or no frame; the server closes the connection, and nothing else happens."""
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        if dice.random() < 0.4:
            writer.write(broken_handshake(dice))
            writer.write_eof()  # a server may well wait for the rest
        else:
            writer.write(HANDSHAKE)
            accepted = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
            assert accepted.startswith(b"HTTP/1.1 101"), accepted
            writer.write(broken_frames(dice))
        with suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), PATIENCE_S)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        tally.sent["connections of no frames"] += 1


async def _request(url: str, hostility: Hostility, count: int, tally: _Tally) -> None:
    """Send requests over HTTP that make little sense."""
    dice = hostility.dice
    valid: Message = {"action": {"amount": 1}, "timeout_s": 1}
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE_S) as http:
        for _ in range(count):
            http.cookies.clear()
            headers = {"content-type": dice.choice(_CONTENT_TYPES)}
            if dice.random() < 0.3:
                headers["X-OpenEnv-Session"] = dice.choice(["none", "0.none", "-1", "x" * 2000])
            answer = await http.request(
                dice.choice(_METHODS), dice.choice(_PATHS), content=hostility.frame(valid), headers=headers
            )
            _check_http(answer, tally)
            tally.sent["HTTP requests"] += 1


def _check_http(answer: httpx.Response, tally: _Tally) -> None:
    assert answer.status_code < 500 or answer.status_code == 503, (answer.request, answer.text)
    if answer.status_code >= 400 and answer.request.method != "HEAD":
        expected = {"detail", "error"} if answer.request.url.path == "/mcp" else {"detail"}  # MCP's own are JSON-RPC's
        assert expected & answer.json().keys(), (answer.request, answer.text)
    tally.answers[f"HTTP {answer.status_code}"] += 1
