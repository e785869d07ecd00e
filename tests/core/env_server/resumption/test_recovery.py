"""Sessions that go on after the server's process has ended, or whose client learns why they can't."""

import importlib.util
import json
import re
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import model_validator
from tests.support.programs.journaled_server import (
    WALKS,
    MappedWalk,
    MoodyWalk,
    Place,
    SlowlyMappedWalk,
    Stride,
    StumblingWalk,
    ThreadedMappedWalk,
    ThreadedWalk,
    Walk,
)
from tests.support.servers import RunningServer, ServerProcess, eventually
from tests.support.walkers import ServeWalks, Walker, connect, crash_image, data_of, error_of, walk_server

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.history.stores.sqlite import prepare_journal
from openenv.core.env_server.metrics import Metrics
from openenv.core.env_server.types import ConcurrencyConfig, EnvironmentMetadata, State


class TestKilled:
    def test_a_fork_for_another_client_is_on_record_when_it_is_answered(self, journal: Path) -> None:
        with ServerProcess("journaled_server.py", "Walk", str(journal)) as server, connect(server) as wire:
            walker = Walker.open(wire)
            walker.reset(seed=3)
            walker.step(2)
            named = {"X-OpenEnv-Session": walker.session[:13]}
            forked = httpx.post(f"{server.url}/web/live/fork", headers=named, timeout=60, trust_env=False).json()
            server.kill()
        with ServerProcess("journaled_server.py", "Walk", str(journal)) as server, connect(server) as wire:
            child = Walker(wire, forked["session"], forked["terms"]["token"])
            assert child.attach(wire) == 0
            assert walker.attach(wire) == walker.last_id
            assert child.step(2) == walker.step(2)

    @pytest.mark.parametrize("name", ["Walk", "ThreadedWalk", "MappedWalk"])
    def test_sessions_go_on_from_wherever_they_stood(self, journal: Path, name: str) -> None:
        with ServerProcess("journaled_server.py", name, str(journal)) as server, connect(server) as wire:
            walkers = [Walker.open(wire) for _ in range(6)]
            for steps, walker in enumerate(walkers[1:]):  # the first one has not even begun
                walker.reset(seed=steps)
                walker.at = [walker.step(length) for length in range(steps)]  # type: ignore[attr-defined]
            twin = Walker.open(wire)
            twin.reset(seed=4)
            for length in range(4):
                twin.step(length)
            server.kill()
        with ServerProcess("journaled_server.py", name, str(journal)) as server, connect(server) as wire:
            for walker in walkers:
                assert walker.attach(wire) == walker.last_id
            assert error_of(walkers[0].ask("step", {"length": 1}))["reset_needed"]
            walkers[0].reset(seed=4)
            for length in range(4):
                walkers[0].step(length)
            if name != "MappedWalk":  # which does not do the same again from a seed
                assert walkers[0].step(7) == walkers[5].step(7)
            assert walkers[5].ask("state")["data"]["step_count"] == walkers[5].last_id - 2
            twin.attach(wire)
            again = twin.step(7)
            assert again["observation"]["at"] > 0

    def test_what_was_under_way_is_done_when_it_is_sent_again(self, journal: Path) -> None:
        with ServerProcess("journaled_server.py", "ThreadedWalk", str(journal)) as server, connect(server) as wire:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            first = walker.step(1)
            wire.send(walker.message("step", {"length": 2, "how": "hold"}))
            server.wait_for_lines(["held"])
            server.kill()
        with ServerProcess("journaled_server.py", "ThreadedWalk", str(journal)) as server, connect(server) as wire:
            walker.last_id -= 1
            assert walker.attach(wire) == walker.last_id
            other = Walker.open(wire)
            other.reset(seed=1)
            assert other.step(1) == first
            assert walker.step(2) == other.step(2)

    def test_the_environment_s_process_is_made_anew(self, journal: Path) -> None:
        run = ("journaled_server.py", "MappedWalk", str(journal), "process")
        with ServerProcess(*run) as server, connect(server) as wire:
            walker, sure = Walker.open(wire), Walker.open(wire)
            walker.reset()
            at = walker.step(0)["observation"]["at"]
            server.kill()
        with ServerProcess(*run) as server, connect(server) as wire:
            walker.attach(wire)
            assert walker.step(0)["observation"]["at"] == at
            assert sure.attach(wire) == 0

    def test_another_worker_takes_up_what_one_that_is_gone_held(self, journal: Path) -> None:
        run = ("journaled_server.py", "Walk", str(journal))
        with ServerProcess(*run, "2") as server, connect(server) as one, connect(server) as other:
            walkers = [Walker.open(one), Walker.open(other)]
            ats = []
            for walker in walkers:
                walker.reset(seed=1)
                ats.append(walker.step(5)["observation"]["at"])
            assert {walker.session[0] for walker in walkers} == {"0", "1"}
            one.cut()
            for walker in walkers:  # from the socket that holds it to another one of the same worker
                with connect(server, **{"X-OpenEnv-Session": walker.session}) as wire:
                    assert walker.attach(wire) == walker.last_id
                    walker.step(0)
                    wire.cut()
            with closing(sqlite3.connect(journal)) as file:
                assert file.execute("SELECT count(*) FROM session").fetchall() == [(2,)], "none was rebuilt"
            server.kill()
        with ServerProcess(*run) as server, connect(server) as wire:
            for walker, at in zip(walkers, ats, strict=True):
                assert walker.attach(wire) == walker.last_id
                assert walker.step(0)["observation"]["at"] == at

    def test_a_thousand_sessions_come_back(self, journal: Path) -> None:
        with ServerProcess("journaled_server.py", "Walk", str(journal)) as server, connect(server) as wire:
            walkers = [Walker.open(wire) for _ in range(1000)]
            for message in ({"seed": 3}, {"length": 1}, {"length": 2}):
                kind = "step" if "length" in message else "reset"
                wire.send([walker.message(kind, message) for walker in walkers])
                answers = wire.receive_many(1000)
            ats = {answer["session"]: answer["data"]["observation"]["at"] for answer in answers}
            server.kill()
        with ServerProcess("journaled_server.py", "Walk", str(journal)) as server, connect(server) as wire:
            began = time.monotonic()
            wire.send([walker.attach_message() for walker in walkers])
            assert {answer["type"] for answer in wire.receive_many(1000)} == {"attached"}
            assert time.monotonic() - began < 30
            wire.send([walker.message("step", {"length": 0}) for walker in walkers])
            for answer in wire.receive_many(1000):
                assert answer["data"]["observation"]["at"] == ats[answer["session"]]


REQUESTS = st.one_of(
    st.builds(lambda seed: ("reset", {} if seed is None else {"seed": seed}), st.none() | st.integers(0, 3)),
    st.builds(lambda length: ("step", {"length": length}), st.integers(-2, 3)),
    st.builds(
        lambda luggage: ("step", {"length": 1, "luggage": luggage}),
        st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False) | st.lists(st.integers()), max_size=2),
    ),
    st.just(("step", {"length": 1, "how": "fall"})),
    st.just(("step", {"length": "far"})),
    st.just(("state", None)),
    st.just(("mcp", {"id": 1})),
    st.just(("dance", None)),
    st.just(("fork", {"count": 1})),
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, Path]]:
    journal = tmp_path_factory.mktemp("undisturbed") / "journal"
    with walk_server(Walk, journal=journal, max_concurrent_envs=1000) as server:
        yield server, journal


@pytest.mark.level("command")
@settings(max_examples=25)
@given(before=st.lists(REQUESTS, max_size=12), after=st.lists(REQUESTS, max_size=6))
def test_a_rebuilt_session_answers_as_the_undisturbed_one(
    undisturbed: tuple[RunningServer, Path], before: list[Any], after: list[Any]
) -> None:
    """Killed between any two requests of any kind, from a seed on."""
    server, journal = undisturbed
    with server.v1() as wire:
        walker = Walker.open(wire)
        walker.reset(seed=1)
        for kind, data in before:
            walker.ask(kind, data)
        crashed = Walker(wire, walker.session, walker.token, walker.last_id)
        with walk_server(Walk, journal=crash_image(journal)) as rebuilt, rebuilt.v1() as other:
            assert crashed.attach(other) == walker.last_id
            for kind, data in [*after, ("step", {"length": 1})]:
                one, another = walker.ask(kind, data), crashed.ask(kind, data)
                assert kind == "fork" or one == another


class HurriedStride(Stride):
    """Changes in place what it is validated from."""

    @model_validator(mode="before")
    @classmethod
    def _hurry(cls, fields: Any) -> Any:
        fields["length"] += 1
        fields.setdefault("luggage", "none")
        return fields


def test_what_validators_change_in_place_is_on_record_as_it_was_sent(journal: Path) -> None:
    def serve(path: Path) -> RunningServer:
        return RunningServer(create_fastapi_app(Walk, HurriedStride, Place, journal=path, max_concurrent_envs=8))

    with serve(journal) as server, server.v1() as wire:
        walker = Walker.open(wire)
        walker.reset(seed=1)
        walker.step(5)
        with serve(crash_image(journal)) as again, again.v1() as other:
            crashed = replace(walker)
            crashed.attach(other)
            assert crashed.step(1) == walker.step(1)


class TestFailedResets:
    """A reset that failed half way has done nobody knows what, and so begins nothing anew."""

    def test_it_is_repeated_after_what_came_before(self, serve_journaled: ServeWalks, journal: Path) -> None:
        with serve_journaled(StumblingWalk).v1() as wire:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            walker.step(2)
            assert error_of(walker.ask("reset", {"seed": 2, "stumbles": True}))["message"] == "it stumbled"
            with serve_journaled(StumblingWalk, crash_image(journal)).v1() as other:
                crashed = replace(walker)
                crashed.attach(other)
                assert crashed.step(1) == walker.step(1), "the episode before it goes on"

    def test_its_seed_may_be_what_later_ones_draw_from(self, serve_journaled: ServeWalks, journal: Path) -> None:
        with serve_journaled(StumblingWalk).v1() as wire:
            walker = Walker.open(wire)
            walker.ask("reset", {"seed": 2, "stumbles": True})
            walker.reset()
            with serve_journaled(StumblingWalk, crash_image(journal)).v1() as other:
                crashed = replace(walker)
                crashed.attach(other)
                assert crashed.step(1) == walker.step(1)


@pytest.mark.parametrize("debug_then", [False, True])
def test_errors_that_show_where_the_environment_raised_are_the_same_again(
    serve_journaled: ServeWalks, journal: Path, debug_then: bool
) -> None:
    with serve_journaled(debug=True).v1() as wire:
        walker = Walker.open(wire)
        walker.reset(seed=1)
        assert "ValueError: it fell" in error_of(walker.ask("step", {"length": 1, "how": "fall"}))["traceback"]
        with serve_journaled(path=crash_image(journal), debug=debug_then).v1() as other:
            assert walker.attach(other) == 2
            again = error_of(walker.ask("step", {"length": 1, "how": "fall"}))
            assert ("traceback" in again) is debug_then


def test_others_are_answered_while_a_session_is_rebuilt(serve_journaled: ServeWalks, journal: Path) -> None:
    repeating, asked = threading.Event(), threading.Event()
    steps: list[float] = []

    class Endless(Walk):
        watched = False

        def step(self, action: Stride) -> Place:
            steps.append(action.length)
            if self.watched and len(steps) == 10:
                repeating.set()
                assert asked.wait(60)
            self._steps = 0
            return super().step(action)

    with serve_journaled(Endless).v1() as wire:
        walker = Walker.open(wire)
        walker.reset(seed=1)
        wire.send([walker.message("step", {"length": 1}) for _ in range(2000)])
        wire.receive_many(2000)
        image = crash_image(journal)
    steps.clear()
    server = serve_journaled(Endless, image)
    with server.v1() as wire, server.v1() as other:
        stranger = Walker.open(other)
        stranger.reset(seed=1)
        Endless.watched = True
        wire.send(walker.attach_message())
        assert repeating.wait(60)
        other.send(stranger.message("step", {"length": 7}))
        asked.set()
        assert other.receive()["type"] == "observation"
        assert wire.receive()["type"] == "attached"
        assert steps.index(7) < 1900, "the stranger had to wait for all of them"


class TestOnceOnly:
    def test_the_last_answer_is_kept(self, serve_journaled: ServeWalks, journal: Path) -> None:
        with serve_journaled().v1() as wire:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            message = walker.message("step", {"length": 2})
            answer = wire.ask(message)
            with serve_journaled(path=crash_image(journal)).v1() as other:
                assert walker.attach(other, answered=1) == 2  # the answer never arrived
                assert other.ask(message) == answer
                assert walker.step(1) == data_of(wire.ask({**message, "id": 3, "data": {"length": 1}}))

    @pytest.mark.parametrize("environment", [MappedWalk, WALKS["ThreadedMappedWalk"]])
    def test_the_last_answer_is_kept_beside_a_snapshot(
        self, serve_journaled: ServeWalks, journal: Path, environment: Any
    ) -> None:
        with serve_journaled(environment).v1() as wire:
            walker = Walker.open(wire)
            message = walker.message("reset", {})
            answer = wire.ask(message)
            walker.ask("state")  # only once the snapshot was taken
            walker.last_id -= 1
            with closing(sqlite3.connect(journal)) as file:
                assert file.execute("SELECT snapshot IS NOT NULL, since FROM session").fetchall() == [(1, 1)]
                file.execute("DELETE FROM batch WHERE number = (SELECT max(number) FROM batch)")
                file.commit()
            with serve_journaled(environment, crash_image(journal)).v1() as other:
                assert walker.attach(other, answered=0) == 1
                assert other.ask(message) == answer

    def test_a_fork_whose_answer_was_lost_is_done_again(self, serve_journaled: ServeWalks, journal: Path) -> None:
        with serve_journaled().v1() as wire:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            walker.fork(2)
            at = walker.step(0)
            image = crash_image(journal)
            with serve_journaled(path=image).v1() as other:
                assert walker.attach(other) == 3
                assert walker.step(0) == at
        with serve_journaled(path=image).v1() as other:
            lost = Walker.open(other)
            lost.reset(seed=1)
            message = lost.message("fork", {"count": 1})
            other.ask(message)
            with serve_journaled(path=crash_image(image)).v1() as third:
                assert lost.attach(third, answered=1) == 1
                assert third.ask(message)["type"] == "forked"

    def test_forks_are_recovered_each_by_itself(self, serve_journaled: ServeWalks, journal: Path) -> None:
        with serve_journaled().v1() as wire:
            parent = Walker.open(wire)
            parent.reset(seed=1)
            parent.step(1)
            child, idle = parent.fork(2)
            (grandchild,) = child.fork(1)
            ats = [walker.step(length) for length, walker in enumerate((parent, child, grandchild), 2)]
            parent.reset(seed=9)  # what its children began with is still needed
            with serve_journaled(path=crash_image(journal)).v1() as other:
                for walker in (parent, child, grandchild, idle):
                    assert walker.attach(other) == walker.last_id
                for walker, at in zip((child, grandchild), ats[1:], strict=True):
                    assert walker.step(0)["observation"]["at"] == at["observation"]["at"]
                assert idle.step(2) == ats[0]

    def test_those_who_ask_at_once_get_the_same_session(self, serve_journaled: ServeWalks, journal: Path) -> None:
        with serve_journaled(ThreadedWalk).v1() as wire:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            at = walker.step(3)["observation"]["at"]
            server = serve_journaled(ThreadedWalk, crash_image(journal))
            wires = [server.v1() for _ in range(4)]
            for other in wires:
                other.send(walker.attach_message())
            assert {other.receive()["type"] for other in wires} == {"attached"}
            assert server.sessions.active_sessions == 1
            answers = []
            for other in wires:
                other.send(walker.message("step", {"length": 0}))
                walker.last_id -= 1
                answers.append(other.receive())
                other.close()
            (stepped,) = [answer for answer in answers if answer["type"] == "observation"]
            assert stepped["data"]["observation"]["at"] == at

    def test_twice_killed(self, serve_journaled: ServeWalks, journal: Path) -> None:
        with serve_journaled().v1() as wire:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            walker.step(1)
            for _ in range(3):
                journal = crash_image(journal)
                assert walker.attach(serve_journaled(path=journal).v1()) == walker.last_id
                at = walker.step(1)["observation"]["at"]
            with serve_journaled(path=crash_image(journal)).v1() as other:
                assert walker.attach(other) == walker.last_id
                assert walker.step(0)["observation"]["at"] == at


class TestStopped:
    def test_a_server_that_ends_in_order_leaves_its_sessions_recoverable(
        self, serve_journaled: ServeWalks, journal: Path
    ) -> None:
        server = serve_journaled()
        with server.v1() as wire:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            at = walker.step(1)["observation"]["at"]
            server.stop()
        assert not journal.with_name("journal-wal").exists(), "all of it is in the file"
        with serve_journaled().v1() as wire:
            assert walker.attach(wire) == 2
            assert walker.step(0)["observation"]["at"] == at

    def test_a_session_that_was_closed_is_over(self, serve_journaled: ServeWalks, journal: Path) -> None:
        with serve_journaled().v1() as wire:
            walker, other = Walker.open(wire), Walker.open(wire)
            walker.reset()
            assert walker.ask("close")["type"] == "closed"
            assert "it has ended: closed" in walker.lost(wire)
            with serve_journaled(path=crash_image(journal)).v1() as after:
                assert "it has ended: closed" in walker.lost(after)
                assert other.attach(after) == 0

    @pytest.mark.parametrize(
        ("limits", "why"),
        [
            ({"resume_window_s": 0.01}, "away"),
            ({"concurrency_config": ConcurrencyConfig(max_concurrent_envs=4, session_timeout=0.5)}, "idle"),
        ],
    )
    def test_a_session_that_nobody_wanted_is_over(
        self, serve_journaled: ServeWalks, limits: dict[str, Any], why: str
    ) -> None:
        server = serve_journaled(**limits)
        wire = server.v1()
        walker = Walker.open(wire)
        walker.reset()
        if why == "away":
            wire.cut()
        server.wait_for_sessions(0)
        with server.v1() as other:
            assert f"it has ended: {why}" in walker.lost(other)
        wire.close()


class Renamed(Walk):
    """Says that it is another version."""

    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(name="Walk", description="", version="2.0.0")


def walk_of_folder(folder: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> Any:
    """Make an environment in a folder, in which its manifest may be."""
    file = folder / "walked.py"
    module = "tests.support.programs.journaled_server"
    file.write_text(f"from {module} import Walk\n\n\nclass Walked(Walk):\n    {method or 'pass'}\n")
    spec = importlib.util.spec_from_file_location("walked", file)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "walked", made)
    spec.loader.exec_module(made)
    return made.Walked


class TestLost:
    @pytest.fixture
    def walker(self, serve_journaled: ServeWalks) -> Iterator[Walker]:
        with serve_journaled(ThreadedWalk, step_timeout_s=30).v1() as wire:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            walker.step(1)
            yield walker

    @pytest.fixture
    def reason(self, walker: Walker, serve_journaled: ServeWalks, journal: Path) -> Callable[..., str]:
        def lose(environment: Any = ThreadedWalk, **more: Any) -> str:
            with serve_journaled(environment, crash_image(journal)).v1() as wire:
                return walker.lost(wire, **more)

        return lose

    @pytest.mark.level("socket")
    def test_an_answer_that_the_journal_does_not_know(self, reason: Callable[..., str]) -> None:
        assert "had the answer to request 3, and the journal ends with request 2" in reason(answered=3)

    @pytest.mark.level("socket")
    def test_another_version(self, reason: Callable[..., str]) -> None:
        said = reason(Renamed)
        assert "now has Renamed (name Walk, version 2.0.0; openenv.yaml: none), and had ThreadedWalk (name Thr" in said

    @pytest.mark.parametrize("says", ["", "def get_metadata(self): return {'name': 'mine', 'version': '1.2'}"])
    @pytest.mark.parametrize(
        "manifest", ["name: walk_env\nversion: 2.0.0", "name: walks\nversion: 1.0.0", "type: space"]
    )
    def test_another_manifest(
        self,
        serve_journaled: ServeWalks,
        journal: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        says: str,
        manifest: str,
    ) -> None:
        environment = walk_of_folder(tmp_path, monkeypatch, says)
        (tmp_path / "openenv.yaml").write_text("name: walk_env\nversion: 1.0.0\ndescription: 1")
        with serve_journaled(environment).v1() as wire:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            (tmp_path / "openenv.yaml").write_text("name: walk_env\nversion: 1.0.0\ndescription: 2")
            with serve_journaled(environment, crash_image(journal)).v1() as other:
                walker.attach(other)
            (tmp_path / "openenv.yaml").write_text(manifest)
            with serve_journaled(environment, crash_image(journal)).v1() as other:
                assert "and had Walked (name" in walker.lost(other)

    def test_an_environment_that_does_not_do_the_same(self, serve_journaled: ServeWalks, journal: Path) -> None:
        with serve_journaled(MoodyWalk).v1() as wire:
            walker = Walker.open(wire)
            before = walker.reset(seed=1)
            server = serve_journaled(MoodyWalk, crash_image(journal))
            with server.v1() as other:
                reason = walker.lost(other)
                assert "request 1 (reset) was answered otherwise when it was repeated" in reason
                assert json.dumps(before["observation"]["at"])[:6] in reason
                server.wait_for_sessions(0)

    def test_a_step_that_took_too_long(self, serve_journaled: ServeWalks, journal: Path) -> None:
        with serve_journaled(ThreadedWalk, step_timeout_s=0.05).v1() as wire:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            assert error_of(walker.ask("step", {"length": 1, "how": "dawdle"}))["code"] == "TIMEOUT"
            with serve_journaled(ThreadedWalk, crash_image(journal)).v1() as other:
                assert "request 2 (step) ran into its timeout" in walker.lost(other)

    def test_what_was_pruned(self, walker: Walker, serve_journaled: ServeWalks, journal: Path) -> None:
        walker.step(1)
        image = crash_image(journal)
        with closing(sqlite3.connect(image)) as file:
            file.execute("DELETE FROM batch WHERE number < (SELECT max(number) FROM batch)")
            file.commit()
        with serve_journaled(ThreadedWalk, image).v1() as wire:
            assert "request 1 is not in the journal" in walker.lost(wire)

    def test_what_nobody_can_make_sense_of_is_answered_all_the_same(
        self, walker: Walker, serve_journaled: ServeWalks, journal: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        image = crash_image(journal)
        with closing(sqlite3.connect(image)) as file:
            file.execute("UPDATE batch SET notes = '5'")
            file.commit()
        with serve_journaled(ThreadedWalk, image).v1() as wire:
            refused = error_of(walker.try_to_attach(wire))
            assert "can't be read: TypeError: 'int' object is not iterable" in refused["message"]
            assert refused["retry_after_s"] == 1.0
            assert "Traceback" in caplog.text

    def test_data_that_no_journal_can_hold(self, serve_journaled: ServeWalks, journal: Path) -> None:
        deep = "[" * 199 + "]" * 199
        with serve_journaled().v1() as wire:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            message = walker.message("step", {"length": 1, "luggage": "HERE"})
            wire.send(json.dumps(message).replace('"HERE"', deep))
            wire.receive()
            walker.step(1)
            with serve_journaled(path=crash_image(journal)).v1() as other:
                assert "request 2 could not be put on record" in walker.lost(other)

    def test_another_token(self, walker: Walker, serve_journaled: ServeWalks, journal: Path) -> None:
        with serve_journaled(ThreadedWalk, crash_image(journal)).v1() as wire:
            stranger = Walker(wire, walker.session, walker.token[:-1] + "?", walker.last_id)
            assert error_of(stranger.try_to_attach(wire))["code"] == "UNAUTHORIZED"
            unknown = Walker(wire, "8" * 36, walker.token)
            assert error_of(unknown.try_to_attach(wire))["code"] == "SESSION_ERROR"
            walker.attach(wire)

    def test_no_place(self, walker: Walker, serve_journaled: ServeWalks, journal: Path) -> None:
        with serve_journaled(ThreadedWalk, crash_image(journal), max_concurrent_envs=1).v1() as wire:
            other = Walker.open(wire)
            assert error_of(walker.try_to_attach(wire))["code"] == "CAPACITY_REACHED"
            other.ask("close")
            walker.attach(wire)  # nothing was lost


class TestSnapshots:
    def test_a_random_environment_goes_on_from_its_snapshot(self, serve_journaled: ServeWalks, journal: Path) -> None:
        with serve_journaled(MappedWalk).v1() as wire:
            walker = Walker.open(wire)
            walker.reset()
            for _ in range(140):  # some of them after the last snapshot
                walker.step(1)
            with serve_journaled(MappedWalk, crash_image(journal)).v1() as other:
                crashed = replace(walker)
                crashed.attach(other)
                assert crashed.step(1) == walker.step(1)
                assert crashed.ask("state") == walker.ask("state")

    def test_so_does_an_episode_that_an_agent_has_begun(self, serve_journaled: ServeWalks, journal: Path) -> None:
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        stride = {"name": "stride", "arguments": {"length": 1}}
        with serve_journaled(MappedWalk).v1() as wire:
            walker = Walker.open(wire)
            walker.ask("mcp", rpc)
            for _ in range(3):
                walked = data_of(walker.ask("mcp", {**rpc, "method": "tools/call", "params": stride}))
                assert walked["result"]["meta"]["openenv/reward"] == 1.0
            walker.ask("state")
            with serve_journaled(MappedWalk, crash_image(journal)).v1() as other:
                crashed = replace(walker)
                crashed.attach(other)
                assert crashed.step(1) == walker.step(1)

    def test_a_snapshot_that_fails_costs_no_step(
        self, serve_journaled: ServeWalks, journal: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Broken(MappedWalk):
            def snapshot(self) -> Any:
                return {1, 2}

        with serve_journaled(Broken).v1() as wire:
            walker = Walker.open(wire)
            walker.reset()
            walker.step(1)
            assert "takes no more snapshots: Expected snapshot() to return bytes or what JSON can hold, got set" in (
                caplog.text
            )
            with serve_journaled(Broken, crash_image(journal)).v1() as other:
                assert "request 1 (reset) was answered otherwise" in walker.lost(other)

    def test_none_is_taken_of_what_may_still_be_at_it(self, serve_journaled: ServeWalks, journal: Path) -> None:
        class Dawdling(ThreadedMappedWalk):
            def reset(self, seed: int | None = None) -> Place:
                if seed == 13:
                    begun.set()
                    assert may_end.wait(60)
                return super().reset(seed)

        begun, may_end = threading.Event(), threading.Event()
        with serve_journaled(Dawdling, reset_timeout_s=0.1, step_timeout_s=30).v1() as wire:
            walker = Walker.open(wire)
            assert error_of(walker.ask("reset", {"seed": 13}))["code"] == "TIMEOUT"
            assert begun.wait(60)
            walker.ask("mcp", {"id": 1})  # which asks nothing of it
            may_end.set()
            walker.reset()
            at = walker.step(1)["observation"]["at"]
            with serve_journaled(Dawdling, crash_image(journal)).v1() as other:
                walker.attach(other)
                assert walker.step(0)["observation"]["at"] == at

    def test_one_that_takes_too_long_harms_nobody(
        self, serve_journaled: ServeWalks, journal: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with serve_journaled(SlowlyMappedWalk, isolation="process", step_timeout_s=0.9).v1() as wire:
            walker = Walker.open(wire)
            at = walker.reset()["observation"]["at"]
            assert walker.step(0)["observation"]["at"] == at
            assert "takes no more snapshots: snapshot did not finish within 0.9 s" in caplog.text

    def test_the_process_that_is_gone_is_told_of_once_and_the_next_one_has_snapshots(
        self, serve_journaled: ServeWalks, journal: Path
    ) -> None:
        with serve_journaled(MappedWalk, isolation="process").v1() as wire:
            walker = Walker.open(wire)
            walker.reset()
            wire.send([walker.message("state") for _ in range(127)])
            wire.receive_many(127)
            gone = error_of(walker.ask("step", {"length": 1, "how": "vanish"}))  # when a snapshot is due
            assert "process exited with status 3" in gone["message"]
            walker.reset()
            at = walker.step(1)["observation"]["at"]
            with serve_journaled(MappedWalk, crash_image(journal)).v1() as other:
                walker.attach(other)
                assert walker.step(0)["observation"]["at"] == at

    def test_a_snapshot_that_can_t_be_restored_loses_the_session(
        self, serve_journaled: ServeWalks, journal: Path
    ) -> None:
        with serve_journaled(MappedWalk).v1() as wire:
            walker = Walker.open(wire)
            walker.reset()
            walker.step(1)
            image = crash_image(journal)
            with closing(sqlite3.connect(image)) as file:
                file.execute("UPDATE session SET snapshot = CAST('j{}' AS BLOB)")
                file.commit()
            with serve_journaled(MappedWalk, image).v1() as other:
                assert "restoring the environment's snapshot failed: 'at'" in walker.lost(other)


def metrics_of(server: RunningServer) -> Metrics:
    metrics: Metrics = server.app.state.sessions.metrics
    return metrics


def is_on_record(server: RunningServer, walker: Walker) -> bool:
    """Whether the journal records a further request."""
    if metrics_of(server).journal_failing:
        return False
    walker.ask("state")
    return not metrics_of(server).journal_failing


@contextmanager
def locked(journal: Path) -> Iterator[None]:
    with closing(sqlite3.connect(journal, isolation_level=None)) as file:
        file.execute("BEGIN IMMEDIATE")
        yield


class ShyWalk(MappedWalk):
    """Shows its state when the test says so."""

    BLOCKING = True
    showing = threading.Event()
    may_show = threading.Event()

    @property
    def state(self) -> State:
        self.showing.set()
        self.may_show.wait(60)
        return super().state


class TestUnwritable:
    def test_without_room_on_the_disk_sessions_go_on_and_can_t_be_rebuilt(self, tmp_path: Path) -> None:
        journal = tmp_path / "journal"
        limited = ServerProcess("journaled_server.py", "Walk", str(journal), "at-most-400000")
        with limited as server, connect(server) as wire, httpx.Client(base_url=server.url, trust_env=False) as http:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            for _ in range(75):  # more than fits into both files, whatever is moved from one to the other
                walker.step(0, luggage="x" * 20_000)
            assert 'openenv_journal_failing{worker="0"} 1.0' in http.get("/metrics").text
            walker.step(1)
            unheard_of = Walker.open(wire)
            unheard_of.reset(seed=1)
            server.kill()
        with ServerProcess("journaled_server.py", "Walk", str(journal)) as server, connect(server) as wire:
            reason = walker.lost(wire)
            last_are_missing = (
                f"had the answer to request {walker.last_id}, and the journal ends with request \\d+; "
                "what came after could not be written"
            )
            # Where the file's clean-up made room for the last ones again.
            some_are_missing = "request \\d+ is not in the journal: .* could not be written"
            assert re.search(f"{last_are_missing}|{some_are_missing}", reason), reason
            assert error_of(unheard_of.try_to_attach(wire))["code"] == "SESSION_ERROR"

    def test_snapshots_that_took_all_the_room_give_it_back(self, tmp_path: Path) -> None:
        journal = tmp_path / "journal"
        limited = ServerProcess("journaled_server.py", "MappedWalk", str(journal), "at-most-400000")
        with limited as server, connect(server) as wire, httpx.Client(base_url=server.url, trust_env=False) as http:
            walker = Walker.open(wire)
            while 'openenv_journal_failing{worker="0"} 0.0' in http.get("/metrics").text:
                walker.reset()  # after which a snapshot is taken, in the place of the last one
            eventually(lambda: all(row["recoverable"] for row in http.get("/sessions").json()["sessions"]), "room")
            at = walker.step(1)["observation"]["at"]
            server.kill()
        with ServerProcess("journaled_server.py", "MappedWalk", str(journal)) as server, connect(server) as wire:
            walker.attach(wire)
            assert walker.step(0)["observation"]["at"] == at

    def test_a_lock_that_is_let_go_does_no_harm_to_sessions_with_snapshots(
        self, serve_journaled: ServeWalks, journal: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        server = serve_journaled(MappedWalk)
        with server.v1() as wire:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            with locked(journal):
                walker.step(1)
                late = Walker.open(wire)
                late.reset(seed=2)
                assert metrics_of(server).journal_failing
            eventually(lambda: is_on_record(server, walker), "it is written again")
            levels = [record.levelname for record in caplog.records if "be written" in record.message]
            assert levels == ["ERROR", "WARNING"]
            eventually(lambda: all(row["recoverable"] for row in rows_of(server)), "snapshots of the sessions")
            with serve_journaled(MappedWalk, crash_image(journal)).v1() as other:
                for one in (walker, late):
                    crashed = replace(one)
                    assert crashed.attach(other) == one.last_id
                    assert crashed.step(1) == one.step(1)

    def test_what_is_under_way_when_the_journal_can_be_written_again_puts_no_snapshot_off(
        self, serve_journaled: ServeWalks, journal: Path
    ) -> None:
        server = serve_journaled(ShyWalk)
        with server.v1() as wire:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            try:
                with locked(journal):
                    walker.step(1)
                    wire.send(walker.message("state"))
                    assert ShyWalk.showing.wait(60)
                eventually(lambda: not metrics_of(server).journal_failing, "it is written again")
            finally:
                ShyWalk.may_show.set()
            eventually(lambda: all(row["recoverable"] for row in rows_of(server)), "a snapshot of the session")

    def test_only_answers_wait_for_a_lock(
        self, serve_journaled: ServeWalks, journal: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("openenv.core.env_server.history.stores.sqlite.BUSY_TIMEOUT_S", 60.0)
        server = serve_journaled()
        with server.v1() as wire, server.http() as http:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            with locked(journal):
                wire.send(walker.message("step", {"length": 1}))
                rows = rows_of(server)
                while not rows[0]["episode_steps"]:
                    rows = rows_of(server)
                assert http.get("/health").status_code == 200
                assert not metrics_of(server).journal_failing, "the answer still waits"
            assert wire.receive()["type"] == "observation"
            with serve_journaled(path=crash_image(journal)).v1() as other:
                crashed = replace(walker)
                assert crashed.attach(other) == 2
                assert crashed.step(1) == walker.step(1)

    def test_what_is_done_meanwhile_is_dropped_and_sessions_begin_anew_after_it(
        self, serve_journaled: ServeWalks, journal: Path
    ) -> None:
        server = serve_journaled()
        with server.v1() as wire:
            walker, other_walker = Walker.open(wire), Walker.open(wire)
            walker.reset(seed=1)
            with locked(journal):
                walker.step(1, luggage="x" * 2000)
                late = Walker.open(wire)
                late.reset(seed=2)
                other_walker.ask("close")
            eventually(lambda: is_on_record(server, walker), "it is written again")
            with serve_journaled(path=crash_image(journal)).v1() as other:
                assert "request 2 is not in the journal" in replace(walker).lost(other)
                assert "it has ended: closed" in other_walker.lost(other)
            walker.reset(seed=3)
            late.reset(seed=4)
            with serve_journaled(path=crash_image(journal)).v1() as other:
                for one in (walker, late):
                    crashed = replace(one)
                    crashed.attach(other)
                    assert crashed.step(1) == one.step(1)

    def test_none_is_rebuilt_meanwhile_since_others_could_not_be_told(
        self, serve_journaled: ServeWalks, journal: Path
    ) -> None:
        with serve_journaled().v1() as wire:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            image = crash_image(journal)
        server = serve_journaled(path=image)
        wire = server.v1()
        Walker.open(wire)  # from now on the server writes
        with locked(image):
            refused = error_of(walker.try_to_attach(wire))
            assert "database is locked" in refused["message"]
            assert refused["retry_after_s"] == 1.0
        assert walker.attach(wire) == 1
        at = walker.step(1)["observation"]["at"]
        with locked(image):
            walker.step(1)
            wire.cut()
            with server.v1() as other:
                assert walker.attach(other) == 3
                assert walker.step(0)["observation"]["at"] > at

    def test_a_fork_by_replay_is_refused_meanwhile(self, serve_journaled: ServeWalks, journal: Path) -> None:
        with serve_journaled(WALKS["LockedWalk"]).v1() as wire:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            with locked(journal):
                walker.step(1)
                refusal = error_of(walker.ask("fork", {"count": 1}))
                assert "could not be written to the journal" in refusal["reasons"]["a replay"]
                walker.step(1)


def remove_file(journal: Path) -> None:
    journal.unlink()


def remove_its_log(journal: Path) -> None:
    journal.with_name("journal-wal").unlink()


def remove_folder(journal: Path) -> None:
    shutil.rmtree(journal.parent)


def replace_it(journal: Path) -> None:
    prepare_journal(journal.with_name("other"))
    journal.with_name("other").replace(journal)


REMOVALS = [remove_file, remove_its_log, remove_folder, replace_it]


def rows_of(server: RunningServer) -> list[dict[str, Any]]:
    with server.http() as http:
        rows: list[dict[str, Any]] = http.get("/sessions").json()["sessions"]
        return rows


class TestRemoved:
    @pytest.fixture
    def journal(self, tmp_path: Path) -> Path:
        (tmp_path / "folder").mkdir()
        return tmp_path / "folder" / "journal"

    @pytest.mark.parametrize("remove", REMOVALS)
    def test_sessions_with_snapshots_are_on_record_again(
        self, serve_journaled: ServeWalks, journal: Path, caplog: pytest.LogCaptureFixture, remove: Callable[..., None]
    ) -> None:
        server = serve_journaled(MappedWalk)
        with server.v1() as wire:
            walker = Walker.open(wire)
            walker.reset()
            walker.step(1)
            remove(journal)
            eventually(lambda: metrics_of(server).journal_replaced == 1, "it was noticed")
            assert "has been removed or replaced while the server runs" in caplog.text
            eventually(lambda: rows_of(server)[0]["recoverable"], "a snapshot of the session")
            walker.step(1)
            with serve_journaled(MappedWalk, crash_image(journal)).v1() as other:
                crashed = replace(walker)
                crashed.attach(other)
                assert crashed.step(1) == walker.step(1)
            assert not metrics_of(server).journal_failing

    @pytest.mark.parametrize("remove", REMOVALS)
    def test_others_say_that_they_could_not_be_rebuilt_until_they_begin_anew(
        self, serve_journaled: ServeWalks, journal: Path, caplog: pytest.LogCaptureFixture, remove: Callable[..., None]
    ) -> None:
        server = serve_journaled(Walk)
        with server.v1() as wire, server.http() as http:
            fresh, walker = Walker.open(wire), Walker.open(wire)
            walker.reset(seed=1)
            walker.step(1)
            remove(journal)
            eventually(lambda: metrics_of(server).journal_replaced == 1, "it was noticed")
            walker.step(1)
            late = Walker.open(wire)
            late.reset(seed=2)
            recoverable = {row["episode_steps"]: row["recoverable"] for row in rows_of(server) if row["episodes"]}
            assert recoverable == {2: False, 0: True}
            metrics = http.get("/metrics").text
            assert 'openenv_sessions_not_recoverable{worker="0"} 1.0' in metrics
            assert 'openenv_journal_replaced_total{worker="0"} 1.0' in metrics
            assert "could not be rebuilt from the journal if this process ended now" in caplog.text
            with serve_journaled(Walk, crash_image(journal)).v1() as other:
                assert "request 1 is not in the journal" in replace(walker).lost(other)
                for one in (fresh, late):
                    crashed = replace(one)
                    crashed.attach(other)
                    assert crashed.reset(seed=7) == one.reset(seed=7)
            walker.reset(seed=3)
            with serve_journaled(Walk, crash_image(journal)).v1() as other:
                crashed = replace(walker)
                crashed.attach(other)
                assert crashed.step(1) == walker.step(1)

    def test_a_fork_that_did_nothing_yet_is_not_taken_for_a_new_session(
        self, serve_journaled: ServeWalks, journal: Path
    ) -> None:
        server = serve_journaled(Walk)
        with server.v1() as wire:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            (child,) = walker.fork(1)
            remove_file(journal)
            eventually(lambda: metrics_of(server).journal_replaced == 1, "it was noticed")
            walker.ask("state")
            with serve_journaled(Walk, crash_image(journal)).v1() as other:
                assert "request 1 is not in the journal" in replace(child).lost(other)
            child.step(1)

    def test_what_is_no_journal_is_left_alone_and_it_fails_until_that_is_gone(
        self, serve_journaled: ServeWalks, journal: Path
    ) -> None:
        server = serve_journaled(MappedWalk)
        with server.v1() as wire:
            walker = Walker.open(wire)
            walker.reset()
            thesis = journal.with_name("thesis")
            thesis.write_bytes(b"my thesis" * 1000)
            thesis.replace(journal)
            eventually(lambda: metrics_of(server).journal_failing, "it was noticed")
            walker.step(1)
            assert journal.read_bytes() == b"my thesis" * 1000
            journal.unlink()
            eventually(lambda: not metrics_of(server).journal_failing, "it was made anew")
            eventually(lambda: rows_of(server)[0]["recoverable"], "a snapshot of the session")
            with serve_journaled(MappedWalk, crash_image(journal)).v1() as other:
                crashed = replace(walker)
                crashed.attach(other)
                assert crashed.step(1) == walker.step(1)

    def test_every_worker_notices(self, journal: Path) -> None:
        with ExitStack() as wires:  # which outlive the server: who says goodbye ends the session
            with (
                ServerProcess("journaled_server.py", "MappedWalk", str(journal), "2") as server,
                httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http,
            ):
                walkers = [Walker.open(wires.enter_context(connect(server))) for _ in range(4)]
                for walker in walkers:
                    walker.reset()
                journal.unlink()
                noticed = [f'openenv_journal_replaced_total{{worker="{worker}"}} 1.0' for worker in (0, 1)]
                eventually(lambda: all(line in http.get("/metrics").text for line in noticed), "both made it anew")
                assert {walker.session[0] for walker in walkers} == {"0", "1"}
                eventually(
                    lambda: all(row["recoverable"] for row in http.get("/sessions").json()["sessions"]), "snapshots"
                )
                at = [walker.step(1)["observation"]["at"] for walker in walkers]
                server.kill()
            server = ServerProcess("journaled_server.py", "MappedWalk", str(journal))
            with server, connect(server) as wire:
                for walker, before in zip(walkers, at, strict=True):
                    walker.attach(wire)
                    assert walker.step(0)["observation"]["at"] == before


def test_a_journal_that_dropped_something_is_mended_though_nobody_asks_for_anything(
    serve_journaled: ServeWalks, journal: Path
) -> None:
    server = serve_journaled(MappedWalk)
    with server.v1() as wire:
        walker = Walker.open(wire)
        walker.reset()
        with locked(journal):
            walker.step(1, luggage="x" * 2000)
            assert metrics_of(server).journal_failing
        eventually(lambda: not metrics_of(server).journal_failing, "it is written again")
        eventually(lambda: rows_of(server)[0]["recoverable"], "a snapshot of the session")
        with serve_journaled(MappedWalk, crash_image(journal)).v1() as other:
            crashed = replace(walker)
            crashed.attach(other)
            assert crashed.step(1) == walker.step(1)


def test_what_was_pruned_for_want_of_room_is_said_while_the_session_lives(
    serve_journaled: ServeWalks, journal: Path
) -> None:
    server = serve_journaled(journal_max_size_mb=0.1)
    with server.v1() as wire:
        walker, other = Walker.open(wire), Walker.open(wire)
        walker.reset(seed=1)
        walker.step(1)
        other.reset(seed=1)
        while all(row["recoverable"] for row in rows_of(server)):
            other.step(0, luggage="x" * 20_000) if other.last_id < 150 else other.reset(seed=1)
        assert {row["recoverable"] for row in rows_of(server) if row["episode_steps"] == 1} == {False}


def test_an_application_that_is_served_again_keeps_its_journal(serve_journaled: ServeWalks, journal: Path) -> None:
    app = create_fastapi_app(Walk, Stride, Place, journal=journal, max_concurrent_envs=8)
    with RunningServer(app) as server:
        wire = server.v1()
        before = Walker.open(wire)
        before.reset(seed=1)
        at = before.step(1)["observation"]["at"]
    with RunningServer(app) as server, server.v1() as wire:
        walker = Walker.open(wire)
        walker.reset(seed=2)
        before.attach(wire)
        assert before.step(0)["observation"]["at"] == at
        with serve_journaled(Walk, crash_image(journal)).v1() as other:
            crashed = replace(walker)
            crashed.attach(other)
            assert crashed.step(1) == walker.step(1)


def test_a_session_s_age_knows_nothing_of_the_machine_s_clock(
    serve_journaled: ServeWalks, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, now = serve_journaled(), time.time
    with server.v1() as wire:
        Walker.open(wire)
        for jump_s in (30 * 86400.0, -7200.0):
            monkeypatch.setattr(time, "time", lambda jump_s=jump_s: now() + jump_s)
            (row,) = rows_of(server)
            assert 0 <= row["age_s"] < 60


def test_what_is_rebuilt_is_counted_and_what_is_not_by_reason(serve_journaled: ServeWalks, journal: Path) -> None:
    with serve_journaled().v1() as wire:
        fine, incomplete, homeless = (Walker.open(wire) for _ in range(3))
        for walker in (fine, incomplete, homeless):
            walker.reset(seed=1)
        image = crash_image(journal)
    server = serve_journaled(path=image, max_concurrent_envs=1)
    with server.v1() as wire, server.v1() as other:
        incomplete.lost(wire, answered=9)
        fine.attach(wire)
        assert error_of(homeless.try_to_attach(wire))["code"] == "CAPACITY_REACHED"
        assert metrics_of(server).recoveries_failed == {"incomplete": 1, "no_place": 1}
        assert (metrics_of(server).recovered, metrics_of(server).resumed) == (1, 0)
        fine.attach(other)
        assert (metrics_of(server).recovered, metrics_of(server).resumed) == (1, 1)
    server = serve_journaled(Renamed, image)
    with server.v1() as wire:
        homeless.lost(wire)
        assert metrics_of(server).recoveries_failed == {"environment": 1}
        with server.http() as http:
            text = http.get("/metrics").text
        assert 'openenv_sessions_unrecoverable_total{reason="environment",worker="0"} 1.0' in text


def test_a_client_that_goes_while_its_session_is_rebuilt_may_come_again(
    serve_journaled: ServeWalks, journal: Path
) -> None:
    with serve_journaled(ThreadedWalk).v1() as wire:
        walker = Walker.open(wire)
        walker.reset(seed=1)
        at = walker.step(1)["observation"]["at"]
        image = crash_image(journal)
    server = serve_journaled(ThreadedWalk, image)
    for _ in range(5):
        gone = server.v1()
        gone.send(walker.attach_message())
        gone.cut()
    eventually(lambda: server.connections == 0, "the sockets gone")
    with server.v1() as wire:
        walker.attach(wire)
        assert walker.step(0)["observation"]["at"] == at
        assert server.sessions.active_sessions == 1


def test_a_server_without_a_journal_knows_no_session_of_before(serve_journaled: ServeWalks) -> None:
    server = RunningServer(create_fastapi_app(Walk, Stride, Place))
    with serve_journaled().v1() as wire, server, server.v1() as other:
        walker = Walker.open(wire)
        assert error_of(walker.try_to_attach(other))["code"] == "SESSION_ERROR"


class Named(NamedTuple):
    """Metadata as some authors write them."""

    name: str
    version: str


@pytest.mark.parametrize("metadata", [None, "a walk", Named("walk", "1"), 7], ids=repr)
def test_whatever_an_environment_says_of_itself_its_sessions_are_recovered(
    serve_journaled: ServeWalks, journal: Path, metadata: Any
) -> None:
    class Described(Walk):
        def get_metadata(self) -> Any:
            return metadata

    server = serve_journaled(Described)
    with server.v1() as wire:
        walker = Walker.open(wire)
        walker.reset(seed=1)
        walker.step(5)
        with serve_journaled(Described, crash_image(journal)).v1() as other:
            walker.attach(other)
            walker.step(6)


def test_what_can_t_be_opened_leaves_the_other_sessions_of_its_socket_alone(
    serve_journaled: ServeWalks, caplog: pytest.LogCaptureFixture
) -> None:
    class Undescribed:
        @property
        def name(self) -> str:
            raise ZeroDivisionError

    class SecondTime(Walk):
        asked = 0

        def get_metadata(self) -> Any:
            SecondTime.asked += 1
            return Undescribed() if SecondTime.asked == 1 else super().get_metadata()

    server = serve_journaled(SecondTime)
    with server.v1() as wire:
        wire.send([{"type": "open", "id": 1}])
        refused = error_of(wire.receive())
        assert refused["code"] == "EXECUTION_ERROR"
        assert refused["message"].startswith("The server failed on this request")
        assert "ZeroDivisionError" in caplog.text
        server.wait_for_sessions(0)
        Walker.open(wire).reset(seed=1)
