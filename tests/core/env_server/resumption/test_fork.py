"""Sessions that continue from the state of another one."""

import copy
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.programs.journaled_server import (
    LockedMoodyWalk,
    LockedWalk,
    MappedWalk,
    MoodyWalk,
    Place,
    Stride,
    StumblingWalk,
    ThreadedMappedWalk,
    ThreadedWalk,
    Walk,
)
from tests.support.servers import V1Wire
from tests.support.walkers import ServeWalks, Walker, error_of, walk_server

WAYS = {
    "snapshot": MappedWalk,
    "snapshot in a thread": ThreadedMappedWalk,
    "deepcopy": Walk,
    "deepcopy of a random one": MoodyWalk,
    "deepcopy in a thread": ThreadedWalk,
    "replay": LockedWalk,
}


@pytest.fixture(params=[False, True], ids=["", "journal"])
def journal_settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Settings with and without a journal, from which a replay is then taken."""
    return {"journal": tmp_path / "journal"} if request.param else {}


def reasons_of(answer: dict[str, Any]) -> dict[str, str]:
    data = error_of(answer)
    assert data["code"] == "EXECUTION_ERROR", data
    reasons: dict[str, str] = data["reasons"]
    assert all(reason.rstrip(".") in data["message"] for reason in reasons.values())
    return reasons


@pytest.mark.parametrize("environment", list(WAYS.values()), ids=list(WAYS))
def test_children_continue_from_the_same_state(
    serve_walks: ServeWalks, environment: Any, journal_settings: dict[str, Any]
) -> None:
    with serve_walks(environment, **journal_settings).v1() as wire:
        parent = Walker.open(wire)
        parent.reset(seed=1)
        parent.step(1)
        children = parent.fork(3)
        (grandchild,) = children[0].fork(1)
        assert len({walker.session for walker in (parent, *children, grandchild)}) == 5
        assert len({walker.token for walker in (parent, *children, grandchild)}) == 5
        steps = [walker.step(2) for walker in (parent, *children, grandchild)]
        assert all(step == steps[0] for step in steps)
        children[1].step(3)
        assert [walker.ask("state")["data"]["step_count"] for walker in (parent, *children)] == [2, 2, 3, 2]
        assert parent.step(3) == children[2].step(3), "what another one does concerns neither"


def test_others_play_on_while_a_copy_is_made(serve_walks: ServeWalks) -> None:
    class Heavy(Walk):
        def __deepcopy__(self, memo: dict[int, Any]) -> "Heavy":
            begun.release()
            assert may_go_on.wait(60)
            twin = Heavy()
            vars(twin).update({name: copy.deepcopy(value, memo) for name, value in vars(self).items()})
            return twin

    begun, may_go_on = threading.Semaphore(0), threading.Event()
    with serve_walks(Heavy).v1() as wire:
        parent, other = Walker.open(wire), Walker.open(wire)
        parent.reset(seed=1)
        other.reset(seed=1)
        asked = parent.message("fork", {"count": 2})
        wire.send([asked, step := parent.message("step", {"length": 1})])
        assert begun.acquire(timeout=60)
        assert other.step(1)["observation"]["at"] > 0
        may_go_on.set()
        forked, stepped = wire.receive_many(2)
        assert [forked["type"], stepped["id"]] == ["forked", step["id"]], "what comes after the copy waits for it"
        child = Walker(wire, *(forked["data"]["sessions"][0][name] for name in ("session", "token")))
        assert child.step(1) == stepped["data"]


def test_process_isolation_forks_by_snapshot_or_replay(serve_walks: ServeWalks) -> None:
    for environment in (MappedWalk, Walk):
        with serve_walks(environment, isolation="process").v1() as wire:
            parent = Walker.open(wire)
            parent.reset(seed=1)
            (child,) = parent.fork(1)
            assert child.step(2) == parent.step(2)
    with serve_walks(MoodyWalk, isolation="process").v1() as wire:
        parent = Walker.open(wire)
        parent.reset()
        reasons = reasons_of(parent.ask("fork", {"count": 1}))
        assert reasons["copy.deepcopy"] == "a copy would not be in a process of its own"
        parent.step(1)


@pytest.mark.parametrize("environment", [Walk, ThreadedMappedWalk, LockedWalk])
def test_before_the_first_reset_and_after_the_end(serve_walks: ServeWalks, environment: Any) -> None:
    with serve_walks(environment).v1() as wire:
        parent = Walker.open(wire)
        (new,) = parent.fork(1)
        assert error_of(new.ask("step", {"length": 1}))["reset_needed"]
        parent.reset(seed=1)
        for _ in range(200):
            step = parent.step(1)
        assert step["done"]
        (over,) = parent.fork(1)
        assert error_of(over.ask("step", {"length": 1}))["reset_needed"]
        assert not over.reset(seed=1)["done"]
        over.step(1)


def test_the_error_says_what_was_tried_and_the_session_goes_on(
    serve_walks: ServeWalks, journal_settings: dict[str, Any]
) -> None:
    server = serve_walks(LockedMoodyWalk, **journal_settings)
    with server.v1() as wire:
        parent = Walker.open(wire)
        parent.reset(seed=1)
        at = parent.step(1)["observation"]["at"]
        reasons = reasons_of(parent.ask("fork", {"count": 2}))
        assert reasons["snapshot and restore"] == "the environment does not have them"
        assert "cannot pickle '_io.TextIOWrapper' object" in reasons["copy.deepcopy"]
        assert "request 1 (reset) was answered otherwise" in reasons["a replay"]
        assert parent.step(0)["observation"]["at"] == at
        server.wait_for_sessions(1)


class Forgetful(LockedWalk):
    """Its snapshot fails."""

    def snapshot(self) -> Any:
        raise OSError("no film")

    def restore(self, snapshot: Any) -> None:
        raise AssertionError("never called")


def test_where_one_way_fails_the_next_is_taken(serve_walks: ServeWalks) -> None:
    with serve_walks(Forgetful).v1() as wire:
        parent = Walker.open(wire)
        parent.reset(seed=1)
        (child,) = parent.fork(1)
        assert child.step(1) == parent.step(1)


class Tireless(LockedWalk):
    """Its episodes have no end."""

    def step(self, action: Stride) -> Place:
        self._steps = 0
        return super().step(action)


def test_a_replay_needs_the_requests_since_the_reset(serve_walks: ServeWalks) -> None:
    with serve_walks(Tireless).v1() as wire:
        parent = Walker.open(wire)
        parent.reset(seed=1)
        for many, works in ((1023, True), (1, False)):
            wire.send([parent.message("step", {"length": 1}) for _ in range(many)])
            assert {answer["type"] for answer in wire.receive_many(many)} == {"observation"}
            answer = parent.ask("fork", {"count": 1})
            assert (answer["type"] == "forked") is works
        assert "more than 1024 requests" in reasons_of(answer)["a replay"]
        parent.reset()  # which still draws from the seed before it
        assert "more than 1024 requests" in reasons_of(parent.ask("fork", {"count": 1}))["a replay"]
        parent.reset(seed=2)
        parent.fork(1)


def test_a_replay_needs_requests_that_are_not_too_long(serve_walks: ServeWalks) -> None:
    with serve_walks(Tireless).v1() as wire:
        parent = Walker.open(wire)
        parent.reset(seed=1)
        parent.step(1, luggage="x" * 900_000)
        parent.fork(1)
        parent.step(1, luggage=[["x" * 200_000]])
        assert "or 1048576 bytes of them, came since" in reasons_of(parent.ask("fork", {"count": 1}))["a replay"]
        parent.reset(seed=2)
        at = parent.step(1)["observation"]["at"]
        (child,) = parent.fork(1)
        assert child.step(0)["observation"]["at"] == at


class LongPlace(Place):
    text: str = ""


class LongAnswers(Tireless):
    def step(self, action: Stride) -> Place:
        place = super().step(action)
        return LongPlace(**place.model_dump(), text="x" * 9_000_000) if action.length == 9 else place


def test_a_replay_needs_answers_that_are_not_too_long(serve_walks: ServeWalks) -> None:
    with serve_walks(LongAnswers).v1() as wire:
        parent = Walker.open(wire)
        parent.reset(seed=1)
        parent.step(9)
        assert "longer than 8388608 characters" in reasons_of(parent.ask("fork", {"count": 1}))["a replay"]
        parent.reset(seed=2)
        parent.fork(1)


def test_the_records_of_all_sessions_are_bounded_and_freed(
    serve_walks: ServeWalks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openenv.core.env_server.history.record._MOST_BYTES_IN_ALL", 1_000_000)
    with serve_walks(Tireless).v1() as wire:
        first, second, third = (Walker.open(wire) for _ in range(3))
        for walker in (first, second, third):
            walker.reset(seed=1)
        first.step(1, luggage="x" * 600_000)
        second.step(1, luggage="x" * 600_000)
        assert "1000000 bytes of all sessions" in reasons_of(second.ask("fork", {"count": 1}))["a replay"]
        third.fork(1)
        first.ask("close")
        second.reset(seed=2)
        second.step(1, luggage="x" * 600_000)
        second.fork(1)


def test_a_request_that_is_no_action_takes_no_room(serve_walks: ServeWalks, journal_settings: dict[str, Any]) -> None:
    with serve_walks(Tireless, **journal_settings).v1() as wire:
        parent = Walker.open(wire)
        parent.reset(seed=1)
        wire.send([parent.message("step", {"length": "x" * 2_000}) for _ in range(1100)])
        assert {error_of(answer)["code"] for answer in wire.receive_many(1100)} == {"VALIDATION_ERROR"}
        (child,) = parent.fork(1)
        assert child.step(1) == parent.step(1)


def test_data_that_the_environment_changes_is_replayed_as_it_came(serve_walks: ServeWalks) -> None:
    with serve_walks(LockedWalk).v1() as wire:
        parent = Walker.open(wire)
        parent.reset(seed=1)
        parent.step(1, luggage={"a": 1})  # to which it adds what it carries
        (child,) = parent.fork(1)
        assert child.step(1) == parent.step(1)


class Stumbling(StumblingWalk, LockedWalk):
    """Its reset may fail, and it can't be copied."""


@pytest.mark.parametrize("debug", [False, True])
def test_a_reset_that_failed_is_replayed_after_what_came_before(
    serve_walks: ServeWalks, journal_settings: dict[str, Any], debug: bool
) -> None:
    with serve_walks(Stumbling, debug=debug, **journal_settings).v1() as wire:
        parent = Walker.open(wire)
        parent.reset(seed=1)
        parent.step(2)
        error_of(parent.ask("reset", {"seed": 2, "stumbles": True}))
        (child,) = parent.fork(1)
        assert child.step(1) == parent.step(1), "the episode before it goes on"
        parent.reset()
        (other,) = parent.fork(1)
        assert other.step(1) == parent.step(1), "from the seed that it named"
        for walker in (child, other):
            assert ("traceback" in error_of(walker.ask("step", {"length": 1, "how": "fall"}))) is debug


def test_what_ran_into_its_timeout_is_not_replayed(serve_walks: ServeWalks) -> None:
    class Slow(LockedWalk):
        BLOCKING = True

    with serve_walks(Slow, step_timeout_s=0.05).v1() as wire:
        parent = Walker.open(wire)
        parent.reset(seed=1)
        assert error_of(parent.ask("step", {"length": 1, "how": "dawdle"}))["code"] == "TIMEOUT"
        reason = reasons_of(parent.ask("fork", {"count": 1}))["a replay"]
        assert "request 2 (step) ran into its timeout" in reason


@settings(max_examples=20)
@given(
    seeds=st.lists(st.none() | st.integers(0, 2), min_size=1, max_size=4),
    lengths=st.lists(st.integers(0, 3), max_size=3),
)
def test_a_replay_draws_from_the_last_seed(seeds: list[int | None], lengths: list[int], locked: V1Wire) -> None:
    parent = Walker.open(locked)
    parent.reset(seed=0)
    for seed in seeds:
        parent.reset(**({} if seed is None else {"seed": seed}))
        for length in lengths:
            parent.step(length)
    (child,) = parent.fork(1)
    assert child.step(1) == parent.step(1)
    assert child.reset() == parent.reset()
    for walker in (parent, child):
        walker.ask("close")


@pytest.fixture(scope="module")
def locked() -> Iterator[V1Wire]:
    with walk_server(LockedWalk) as server, server.v1() as wire:
        yield wire


class TestPlaces:
    @pytest.mark.parametrize("environment", [MappedWalk, Walk, LockedWalk])
    def test_all_or_none(self, serve_walks: ServeWalks, environment: Any, journal_settings: dict[str, Any]) -> None:
        server = serve_walks(environment, max_concurrent_envs=4, **journal_settings)
        with server.v1() as wire:
            parent, _ = Walker.open(wire), Walker.open(wire)
            parent.reset(seed=1)
            for too_many in (3, 4, 1_000_000):
                assert error_of(parent.ask("fork", {"count": too_many}))["code"] == "CAPACITY_REACHED"
            server.wait_for_sessions(2)
            assert len(parent.fork(2)) == 2
            server.wait_for_sessions(4)

    @pytest.mark.parametrize("count", [0, -1, "many", 1.5, None])
    def test_a_count_that_is_none(self, serve_walks: ServeWalks, count: Any) -> None:
        with serve_walks().v1() as wire:
            parent = Walker.open(wire)
            assert error_of(parent.ask("fork", {"count": count}))["code"] == "VALIDATION_ERROR"
            parent.reset()

    def test_one_environment_for_all_can_t_be_forked(self, serve_walks: ServeWalks) -> None:
        with serve_walks(Walk(), max_concurrent_envs=1).v1() as wire:
            parent = Walker.open(wire)
            assert reasons_of(parent.ask("fork", {"count": 1})) == {"any way": "all sessions share one environment"}


class TestSockets:
    def test_a_fork_that_comes_again_is_answered_again(self, serve_walks: ServeWalks) -> None:
        server = serve_walks()
        wire = server.v1()
        parent = Walker.open(wire)
        parent.reset(seed=1)
        message = parent.message("fork", {"count": 2})
        answer = wire.ask(message)
        wire.cut()
        with server.v1() as other:
            parent.attach(other, answered=1)
            assert other.ask(message) == answer
            for child in answer["data"]["sessions"]:
                walker = Walker(other, child["session"], child["token"])
                assert walker.attach(other) == 0
                assert walker.step(1)
            server.wait_for_sessions(3)

    def test_children_of_a_client_that_has_gone_wait_for_it(self, serve_walks: ServeWalks) -> None:
        begun, may_end = threading.Semaphore(0), threading.Event()

        class Slow(ThreadedWalk):
            def __deepcopy__(self, memo: Any) -> "Slow":
                begun.release()
                assert may_end.wait(60)
                child = Slow()
                vars(child).update(copy.deepcopy(vars(self), memo))
                return child

        server = serve_walks(Slow)
        wire = server.v1()
        parent = Walker.open(wire)
        parent.reset(seed=1)
        message = parent.message("fork", {"count": 1})
        wire.send(message)
        assert begun.acquire(timeout=60)
        wire.cut()
        with server.v1() as other:
            parent.attach(other, answered=1)
            other.send(message)
            may_end.set()
            answer = other.receive()
            (child,) = [Walker(other, born["session"], born["token"]) for born in answer["data"]["sessions"]]
            assert child.step(1)["observation"] == parent.step(1)["observation"]

    def test_children_end_with_their_socket(self, serve_walks: ServeWalks) -> None:
        server = serve_walks()
        with server.v1() as wire:
            Walker.open(wire).fork(3)
            server.wait_for_sessions(4)
        server.wait_for_sessions(0)

    def test_the_legacy_wire_does_not_know_it(self, serve_walks: ServeWalks) -> None:
        with serve_walks().wire() as wire:
            assert error_of(wire.ask({"type": "fork", "data": {"count": 1}}))["code"] == "UNKNOWN_TYPE"


def test_children_of_single_threaded_environments_share_their_thread(serve_walks: ServeWalks) -> None:
    class Bound(Walk):
        REQUIRES_SINGLE_THREAD_EXECUTOR = True

        def step(self, action: Stride) -> Place:
            place = super().step(action)
            return place.model_copy(update={"luggage": threading.get_ident()})

    with serve_walks(Bound).v1() as wire:
        parent = Walker.open(wire)
        parent.reset(seed=1)
        (child,) = parent.fork(1)
        assert child.step(1) == parent.step(1)
