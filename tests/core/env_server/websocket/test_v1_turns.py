"""v1 of the wire on the server, turn by turn of its event loop."""

import asyncio
import gc
import json
from functools import partial
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.environments.common import (
    PLACES,
    Add,
    AsyncCounterEnvironment,
    Gate,
    GatedEnvironment,
    LaterEnvironment,
    Total,
)
from tests.support.fake_socket import FakeSocket
from tests.support.servers import by_session

from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.types import State
from openenv.core.environment_types import EnvironmentTypes
from openenv.core.exceptions import InvalidRequestError
from openenv.core.wire.legacy import decode
from openenv.core.wire.names import V1

IN_EACH_PLACE = pytest.mark.parametrize("environment", list(PLACES.values()), ids=list(PLACES))


def sessions_of(environment: Any) -> SessionManager:
    limits = ServerConfig(max_sessions=64, resume_window_s=0)
    return SessionManager(EnvironmentFactory(environment), EnvironmentTypes(Add, Total, State), limits)


def is_empty(sessions: SessionManager) -> bool:
    return len(sessions) == 0


class TestAnyScript:
    """Whatever several sessions do, and in whatever frames, each gets what it would get on the legacy wire."""

    MESSAGES: tuple[dict[str, Any], ...] = (
        {"type": "reset"},
        {"type": "reset", "data": {"seed": 3}},
        {"type": "reset", "data": []},
        {"type": "step", "data": {"amount": 1}},
        {"type": "step", "data": {"amount": 4}},
        {"type": "step", "data": {"amount": -1}},
        {"type": "step", "data": {"amount": 0}},
        {"type": "step", "data": {"amount": "one", "\U0001f600": None}},
        {"type": "step", "data": {"amount": 1}, "x": 1},
        {"type": "step"},
        {"type": "state"},
        {"type": "state", "data": {}},
        {"type": "mcp", "data": {"id": 5}},
        {"type": "close"},
        {"type": "bogus"},
        {"type": ["step"]},
        {},
    )
    SCRIPTS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(MESSAGES)), max_size=40)
    CUTS = st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=40, max_size=40)

    @settings(max_examples=25)
    @given(SCRIPTS, CUTS)
    @pytest.mark.filterwarnings("error")
    @IN_EACH_PLACE
    def test_the_answers_are_those_of_the_legacy_wire(
        self, environment: type, script: list[tuple[int, dict[str, Any]]], cuts: list[tuple[int, bool]]
    ) -> None:
        asyncio.run(self.compare(environment, script, cuts))

    async def compare(
        self, environment: type, script: list[tuple[int, dict[str, Any]]], cuts: list[tuple[int, bool]]
    ) -> None:
        sessions = sessions_of(environment)
        answers = await self.on_v1(sessions, script, cuts)
        for number, given_answers in enumerate(answers):
            messages = [message for owner, message in script if owner == number]
            assert given_answers == await self.on_legacy(sessions, messages)
        await sessions.close_all()
        assert len(sessions) == 0

    async def on_v1(
        self, sessions: SessionManager, script: list[tuple[int, dict[str, Any]]], cuts: list[tuple[int, bool]]
    ) -> list[list[Any]]:
        async with FakeSocket(sessions, V1) as socket:
            socket.put([{"type": "open", "id": number} for number in range(3)])
            opened = await socket.answers(3)
            names = [answer["session"] for answer in sorted(opened, key=lambda answer: int(answer["id"]))]
            ids = [count(1) for _ in names]
            left = [{**message, "id": next(ids[owner]), "session": names[owner]} for owner, message in script]
            for size, in_turn in cuts:
                frame, left = left[:size], left[size:]
                if frame:
                    socket.put(frame if len(frame) > 1 else frame[0])
                if in_turn:
                    await asyncio.sleep(0)
            answers = (await socket.answers(3 + len(script)))[3:]
        assert len(answers) == len(script)
        sorted_out = by_session(answers)
        for number, name in enumerate(names):
            asked = sum(owner == number for owner, _ in script)
            assert [answer["id"] for answer in sorted_out[name]] == list(range(1, asked + 1)), "in order, each once"
        return [[(answer["type"], said(answer)) for answer in sorted_out[name]] for name in names]

    async def on_legacy(self, sessions: SessionManager, messages: list[dict[str, Any]]) -> list[Any]:
        expected: list[Any] = []
        closed = False
        async with FakeSocket(sessions) as socket:
            for message in messages:
                if closed:
                    expected.append(("error", after_the_end(message)))
                elif message == {"type": "close"}:
                    closed = True
                    expected.append(("closed", {}))
                else:
                    socket.put(message)
                    answer = (await socket.answers(len(expected) + 1))[-1]
                    expected.append((answer["type"], said(answer)))
        return expected


def said(answer: dict[str, Any]) -> Any:
    """What an answer tells; of one that comes after the end of its session, only the code."""
    data = answer["data"]
    return data["code"] if "session has ended" in str(data) or "no such session" in str(data) else data


def after_the_end(message: dict[str, Any]) -> Any:
    try:
        decode(json.dumps(message))
    except InvalidRequestError as error:
        errors = {"errors": error.errors} if error.errors else {}
        return {"message": error.message, "code": error.code, **errors}
    return "SESSION_ERROR"


class TestBackpressure:
    """A client that asks and does not read makes the server wait, not grow."""

    @pytest.mark.parametrize("kind", ["step", "state", "bogus", "open"])
    @IN_EACH_PLACE
    async def test_no_more_is_read_until_the_client_reads(self, environment: type, kind: str) -> None:
        sessions = sessions_of(environment)
        async with FakeSocket(sessions, V1) as socket:
            socket.put({"type": "open", "id": 1})
            (opened,) = await socket.answers(1)
            ids, session = count(1), opened["session"]
            socket.put({"type": "reset", "id": next(ids), "session": session})
            await socket.answers(2)
            socket.reads.clear()
            socket.put({"type": "state", "id": next(ids), "session": session})
            await socket.until(lambda: socket.is_stuck)
            asked: Any = {"type": kind, "session": session} | ({"data": {"amount": 1}} if kind == "step" else {})
            for _ in range(40):
                socket.put([{**asked, "id": next(ids)} for _ in range(5)])
            await socket.settle()
            assert socket.unread > 35
            socket.reads.set()
            assert len(await socket.answers(203)) == 203


class TestBetweenTwoTurns:
    """Things that must happen at just the wrong time, without a socket."""

    GONE = (OSError("gone"), RuntimeError("Unexpected ASGI message 'websocket.send', after sending 'websocket.close'."))

    @pytest.mark.level("files")
    @pytest.mark.parametrize("error", GONE, ids=lambda error: type(error).__name__)
    @IN_EACH_PLACE
    async def test_the_client_goes_at_any_turn(self, environment: type, error: Exception) -> None:
        for turns in range(30):
            sessions = sessions_of(environment)
            socket = FakeSocket(sessions, V1)
            async with socket:
                socket.put([{"type": "open", "id": number} for number in range(3)])
                names = [answer["session"] for answer in await socket.answers(3)]
                for number, kind in enumerate(("reset", "state", "reset"), 1):
                    socket.put([{"type": kind, "id": number, "session": name} for name in names])
                    socket.put({"type": "open", "id": 9})
                for _ in range(turns):
                    await asyncio.sleep(0)
                socket.go(error)
                await socket.ended()
            await socket.until(partial(is_empty, sessions))
            await sessions.close_all()
        gc.collect()  # whatever was never awaited warns now

    async def test_a_request_and_the_end_in_one_turn(self) -> None:
        for script in (["reset"], ["reset", "reset"], ["state"], ["close"]):
            sessions = sessions_of(LaterEnvironment)
            async with FakeSocket(sessions, V1) as socket:
                socket.put({"type": "open", "id": 1})
                (opened,) = await socket.answers(1)
                session = opened["session"]
                socket.put([{"type": kind, "id": number, "session": session} for number, kind in enumerate(script, 1)])
                socket.go()
                await socket.ended()
            gc.collect()
            await socket.until(partial(is_empty, sessions))
            await sessions.close_all()

    @pytest.mark.level("files")
    async def test_the_end_is_seen_while_as_much_is_under_way_as_may_be(self) -> None:
        gate = Gate()
        gate.note("made")
        sessions = sessions_of(partial(GatedEnvironment, gate))
        with gate.open_afterwards():
            async with FakeSocket(sessions, V1, max_message_bytes=10_000_000) as socket:
                socket.put({"type": "open", "id": 1})
                (opened,) = await socket.answers(1)
                socket.put({"type": "reset", "id": 1, "session": opened["session"], "data": {"episode_id": "held"}})
                asked = {"type": "state", "session": opened["session"]}
                socket.put([{**asked, "id": number} for number in range(2, 20_002)])
                await socket.until(lambda: socket.unread == 0)
                socket.go()
                await socket.ended()
            await socket.until(partial(is_empty, sessions))
        await sessions.close_all()

    async def test_the_server_s_task_is_cancelled(self) -> None:
        sessions = sessions_of(AsyncCounterEnvironment)
        socket = FakeSocket(sessions, V1)
        await socket.__aenter__()
        socket.put([{"type": "open", "id": 1}])
        await socket.answers(1)
        assert isinstance(socket._served, asyncio.Task)
        socket._served.cancel()
        with pytest.raises(asyncio.CancelledError):
            await socket.ended()
        await socket.until(partial(is_empty, sessions))
        await sessions.close_all()
