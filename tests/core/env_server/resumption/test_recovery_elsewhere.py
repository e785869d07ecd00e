"""Sessions on record that are taken up where they are not live: in another worker or server, or nowhere just yet."""

import os
import signal
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event

import httpx
from tests.support.programs.journaled_server import Place, Stride, ThreadedWalk, Walk
from tests.support.servers import ServerProcess, V1Wire, eventually
from tests.support.walkers import ServeWalks, Walker, connect, crash_image, error_of
from websockets.exceptions import ConnectionClosed, InvalidMessage


def connect_again(server: ServerProcess, walker: Walker) -> V1Wire:
    """Connect until it works, as clients do: a worker may die with connections that it was just handed."""
    while True:
        with suppress(InvalidMessage, ConnectionClosed):
            return connect(server, **{"X-OpenEnv-Session": walker.session})


def process_of_worker(server: ServerProcess, number: int) -> int:
    """The process of a worker, which its command line ends with the number of."""
    found = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    (process,) = [child for child in found if f"worker-{number}" in Path(f"/proc/{child}/cmdline").read_text()]
    return int(process)


def listed(server: ServerProcess) -> list[str]:
    """The sessions that workers hold; one that two of them hold is there twice."""
    rows = httpx.get(f"{server.url}/sessions", trust_env=False).json()["sessions"]
    return [row["session"] for row in rows]


def test_sessions_of_a_killed_worker_stay_with_who_takes_its_place(journal: Path) -> None:
    """So that whoever comes back finds the one live session, and builds no second one beside it."""
    run = ("journaled_server.py", "Walk", str(journal), "2")
    with ServerProcess(*run) as server, ExitStack() as wires:
        walks: list[tuple[Walker, Walk]] = []
        for socket in [wires.enter_context(connect(server)) for _ in range(2)]:
            for _ in range(2):
                walker, walk = Walker.open(socket), Walk()
                assert walker.reset(seed=len(walks))["observation"]["at"] == walk.reset(seed=len(walks)).at
                walks.append((walker, walk))
        assert sorted(walker.session[0] for walker, _ in walks) == ["0", "0", "1", "1"]
        os.kill(process_of_worker(server, 0), signal.SIGKILL)
        for _ in range(3):
            for length, (walker, walk) in enumerate(walks):
                if walker.session[0] == "0":
                    socket = wires.enter_context(connect_again(server, walker))
                    walker.attach(socket)
                assert walker.step(length)["observation"]["at"] == walk.step(Stride(length=length)).at
            eventually(lambda: len(listed(server)) == len(walks), "each session is held once")
            assert len(set(listed(server))) == len(walks)
            for socket in {walker.wire for walker, _ in walks}:
                socket.cut()
            for walker, walk in walks:
                walker.attach(wires.enter_context(connect_again(server, walker)))
                assert walker.step(1)["observation"]["at"] == walk.step(Stride(length=1)).at


class HeldWalk(ThreadedWalk):
    """Ends a step of the kind ``wait`` when the test says so."""

    stepping = Event()
    may_end = Event()

    def step(self, action: Stride) -> Place:
        if action.how == "wait":
            self.stepping.set()
            self.may_end.wait(60)
        return super().step(action)


class TestTwoServers:
    """That share a journal, as workers do which a client can't tell apart."""

    def test_what_another_one_has_rebuilt_is_not_used_any_more(
        self, serve_journaled: ServeWalks, journal: Path
    ) -> None:
        servers = [serve_journaled(), serve_journaled()]
        walk = Walk()
        with servers[0].v1() as wire:
            walker = Walker.open(wire)
            assert walker.reset(seed=1)["observation"]["at"] == walk.reset(seed=1).at
            wire.cut()
        for number, steps in ((1, 2), (0, 1), (1, 0), (0, 0), (1, 1), (0, 3), (0, 1)):
            with servers[number].v1() as wire:
                assert walker.attach(wire) == walker.last_id
                for length in range(steps):
                    assert walker.step(length)["observation"]["at"] == walk.step(Stride(length=length)).at
                wire.cut()

    def test_one_that_is_at_work_is_left_to_itself(self, serve_journaled: ServeWalks) -> None:
        here, there = serve_journaled(HeldWalk), serve_journaled(HeldWalk)
        walk = Walk()
        walk.reset(seed=1)
        with here.v1() as wire:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            wire.send(walker.message("step", {"length": 1, "how": "wait"}))
            assert HeldWalk.stepping.wait(60)
            wire.cut()
        walker.last_id -= 1
        try:
            with there.v1() as wire:
                assert walker.attach(wire) == walker.last_id
                wire.cut()
        finally:
            HeldWalk.may_end.set()
        with here.v1() as wire:
            assert walker.attach(wire) == walker.last_id
            assert here.sessions.active_sessions == 1
            for length in (1, 2):
                assert walker.step(length)["observation"]["at"] == walk.step(Stride(length=length)).at


class TestNoPlace:
    """Who can't be given a place just now is told to try again, and can."""

    def test_while_every_place_is_taken(self, serve_journaled: ServeWalks, journal: Path) -> None:
        with serve_journaled().v1() as wire:
            walker = Walker.open(wire)
            at = walker.reset(seed=1)["observation"]["at"]
            with serve_journaled(path=crash_image(journal), max_concurrent_envs=1).v1() as other:
                first = Walker.open(other)
                for _ in range(2):
                    refused = error_of(walker.try_to_attach(other))
                    assert (refused["code"], refused["active_sessions"]) == ("CAPACITY_REACHED", 1)
                first.ask("close")
                assert walker.attach(other) == 1
                assert walker.step(0)["observation"]["at"] == at

    def test_while_the_server_drains(self, serve_journaled: ServeWalks, journal: Path) -> None:
        with serve_journaled().v1() as wire:
            walker = Walker.open(wire)
            at = walker.reset(seed=1)["observation"]["at"]
            image = crash_image(journal)
            draining = serve_journaled(path=image)
            draining.app.state.sessions.capacity.drain()
            with draining.v1() as other:
                refused = error_of(walker.try_to_attach(other))
                assert (refused["code"], refused["draining"]) == ("CAPACITY_REACHED", True)
            draining.stop()
            with serve_journaled(path=image).v1() as other:
                assert walker.attach(other) == 1
                assert walker.step(0)["observation"]["at"] == at
