"""Messages with columns on v1: many sessions in one message, each answered as if it had been alone."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import Serve
from tests.support.environments.common import PLACES, Add, CounterEnvironment, Total
from tests.support.servers import RunningServer, V1Wire

from openenv.core.env_server import create_fastapi_app

COLUMNS = {"X-OpenEnv-Features": "columns"}


def column(kind: str, ids: Any, sessions: Any, data: Any) -> dict[str, Any]:
    return {"type": kind, "ids": ids, "sessions": sessions, "data": data}


def entries(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Take an answer with columns apart."""
    if "sessions" not in message:
        return [message]
    rows = zip(message["ids"], message["sessions"], message["data"], strict=True)
    return [{"type": message["type"], "id": number, "session": name, "data": each} for number, name, each in rows]


def received(wire: V1Wire, count: int) -> list[dict[str, Any]]:
    """Return so many answers, in order."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        found += entries(wire.receive())
    assert len(found) == count
    return found


def answers(wire: V1Wire, count: int) -> dict[str, dict[str, Any]]:
    """Return so many answers, each by its session."""
    return {answer["session"]: answer for answer in received(wire, count)}


def totals(found: dict[str, dict[str, Any]], sessions: Sequence[str]) -> list[int]:
    return [found[session]["data"]["observation"]["total"] for session in sessions]


@pytest.fixture(scope="module")
def counters() -> Iterator[RunningServer]:
    with RunningServer(create_fastapi_app(CounterEnvironment, Add, Total, max_concurrent_envs=1000)) as server:
        yield server


@pytest.fixture
def wire(counters: RunningServer) -> Iterator[V1Wire]:
    with counters.v1(COLUMNS) as wire:
        yield wire


def started(wire: V1Wire, count: int) -> list[str]:
    """Open and reset sessions, with one message for all resets."""
    sessions = wire.open_many(count)
    wire.send(column("reset", [1] * count, sessions, [{}] * count))
    assert totals(answers(wire, count), sessions) == [0] * count
    return sessions


class TestAnswers:
    @pytest.mark.parametrize("environment", list(PLACES.values()), ids=list(PLACES))
    def test_each_session_is_answered_under_its_id(self, serve: Serve, environment: Any) -> None:
        with serve(environment, max_concurrent_envs=8).v1(COLUMNS) as wire:
            sessions = started(wire, 5)
            wire.send(column("step", [2] * 5, sessions, [{"amount": each} for each in range(1, 6)]))
            found = answers(wire, 5)
            assert totals(found, sessions) == list(range(1, 6))
            assert {answer["id"] for answer in found.values()} == {2}

    def test_answers_that_are_ready_together_are_one_message(self, wire: V1Wire) -> None:
        sessions = started(wire, 20)
        wire.send(column("step", [2] * 20, sessions, [{"amount": 1}] * 20))
        assert wire.receive()["sessions"] == sessions

    def test_a_client_that_did_not_offer_columns_gets_messages_of_their_own(self, counters: RunningServer) -> None:
        with counters.v1() as wire:
            sessions = wire.open_many(2)
            wire.send(column("reset", [1, 1], sessions, [{}, {}]))
            assert [wire.receive()["session"] for _ in sessions] == sessions

    def test_the_handshake_names_the_feature(self, counters: RunningServer) -> None:
        with counters.v1() as wire:
            assert wire.socket.response is not None
            assert wire.socket.response.headers["X-OpenEnv-Features"].split(", ")[0] == "columns"

    def test_many_long_answers_are_spread_over_messages(self, wire: V1Wire) -> None:
        sessions = started(wire, 600)
        wire.send(column("step", [2] * 600, sessions, [{"amount": 1}] * 600))
        assert totals(answers(wire, 600), sessions) == [1] * 600


class TestOnce:
    def test_a_repeated_message_is_answered_again_and_not_carried_out_again(self, wire: V1Wire) -> None:
        sessions = started(wire, 3)
        message = column("step", [2] * 3, sessions, [{"amount": 5}] * 3)
        for _ in range(2):
            wire.send(message)
            assert totals(answers(wire, 3), sessions) == [5] * 3

    def test_a_session_goes_on_on_another_socket_with_a_message_of_its_own(self, counters: RunningServer) -> None:
        with counters.v1(COLUMNS) as first:
            session, token = first.open_with_token()
            other, _ = first.open_with_token()
            first.send(column("reset", [1, 1], [session, other], [{}, {}]))
            answers(first, 2)
            first.send(column("step", [2, 2], [session, other], [{"amount": 4}] * 2))
            answers(first, 2)
            first.cut()
        with counters.v1() as second:
            assert second.attach(session, token)["data"]["last_id"] == 2
            again = second.ask({"type": "step", "id": 2, "session": session, "data": {"amount": 4}})
            assert again["data"]["observation"]["total"] == 4


class TestBadInput:
    def test_a_wrong_action_is_the_error_of_its_slot(self, wire: V1Wire) -> None:
        sessions = started(wire, 3)
        wire.send(column("step", [2] * 3, sessions, [{"amount": 1}, {"amount": "x"}, {"amount": 2}]))
        found = answers(wire, 3)
        wrong = found.pop(sessions[1])
        assert (wrong["type"], wrong["id"], wrong["data"]["code"]) == ("error", 2, "VALIDATION_ERROR")
        assert wrong["data"]["errors"][0]["loc"] == ["amount"]
        assert totals(found, [sessions[0], sessions[2]]) == [1, 2]
        wire.send(column("step", [3] * 3, sessions, [{"amount": 1}] * 3))  # the refused request has used up its id
        assert totals(answers(wire, 3), sessions) == [2, 1, 3]

    def test_a_session_twice_is_an_error_of_the_second(self, wire: V1Wire) -> None:
        (session, other) = started(wire, 2)
        wire.send(column("step", [2, 2, 3], [session, other, session], [{"amount": 1}] * 3))
        (error,) = [answer for answer in received(wire, 3) if answer["type"] == "error"]
        assert (error["session"], error["id"]) == (session, 3)
        assert "once" in error["data"]["message"]

    def test_a_session_of_another_socket_is_unknown_here(self, wire: V1Wire, counters: RunningServer) -> None:
        with counters.v1(COLUMNS) as elsewhere:
            (strange,) = started(elsewhere, 1)
            (own,) = started(wire, 1)
            wire.send(column("step", [2, 2], [strange, own], [{"amount": 1}] * 2))
            found = answers(wire, 2)
            assert found[strange]["data"]["code"] == "SESSION_ERROR"
            assert totals(found, [own]) == [1]
            elsewhere.send(column("step", [2], [strange], [{"amount": 7}]))
            assert totals(answers(elsewhere, 1), [strange]) == [7]

    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ({"ids": [2]}, "of one length"),
            ({"data": []}, "of one length"),
            ({"ids": [], "sessions": [], "data": []}, "of one length"),
            ({"ids": 2}, "to be arrays"),
            ({"sessions": {"a": 1}}, "to be arrays"),
            ({"type": "state"}, "'step' or 'reset'"),
            ({"type": ["step"]}, "'step' or 'reset'"),
            ({"more": 1}, "to have"),
        ],
    )
    def test_a_message_that_stands_for_no_requests_is_one_error(
        self, wire: V1Wire, changes: dict[str, Any], expected: str
    ) -> None:
        sessions = started(wire, 2)
        answer = wire.ask({**column("step", [2, 2], sessions, [{"amount": 1}] * 2), **changes})
        assert "id" not in answer
        assert answer["data"]["code"] == "VALIDATION_ERROR"
        assert expected in answer["data"]["message"]
        wire.send(column("step", [2, 2], sessions, [{"amount": 1}] * 2))
        assert totals(answers(wire, 2), sessions) == [1, 1], "nothing was carried out before, and no id used up"

    @settings(max_examples=40, deadline=None)
    @given(
        st.lists(st.integers(-1, 3) | st.none() | st.text(max_size=2), max_size=4),
        st.lists(st.sampled_from(["one", "other", 5, None, ["x"], "strange"]), max_size=4),
        st.lists(st.sampled_from([{"amount": 1}, {"amount": None}, 3, None, [], {}]), max_size=4),
    )
    def test_whatever_comes_the_socket_and_its_other_sessions_go_on(
        self, counters: RunningServer, ids: list[Any], names: list[Any], data: list[Any]
    ) -> None:
        with counters.v1(COLUMNS) as wire:
            sessions = dict(zip(["one", "other", "idle"], wire.open_many(3), strict=True))
            named = [sessions.get(name, name) if isinstance(name, str) else name for name in names]
            wire.send(column("reset", ids, named, data))
            expected = len(ids) if len(ids) == len(names) == len(data) > 0 else 1
            wire.send(wire.message("reset", sessions["idle"]))
            found = received(wire, expected + 1)
            assert found[-1]["session"] == sessions["idle"]
            assert all(answer["type"] in ("observation", "error") for answer in found), json.dumps(found)
