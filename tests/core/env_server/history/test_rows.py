"""Who holds a session: of all who share a journal, one at a time, whatever kind of journal it is."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from tests.support.programs.journaled_server import Place, Stride, ThreadedWalk, Walk
from tests.support.servers import RunningServer, ServerProcess, V1Wire, eventually
from tests.support.walkers import ServeWalks, Walker, connect, error_of

from openenv.core.client.transport.reconnect import retry_after_s
from openenv.core.env_server.history import Journal
from openenv.core.env_server.history.stores.choice import store_at
from openenv.core.exceptions import AcquiredElsewhereError
from openenv.core.wire.messages import V1Request

Serve = Callable[..., RunningServer]


@pytest.fixture
def serve(serve_walks: ServeWalks, place: str) -> Serve:
    """Start servers that share a journal."""

    def start(environment: Any = Walk, **settings: Any) -> RunningServer:
        return serve_walks(environment, journal=place, **settings)

    return start


@pytest.fixture
def only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that find out with the next request, and not a moment before it, that another one has their session."""
    monkeypatch.setattr("openenv.core.env_server.history.journal._CHECK_EVERY_S", 1e6)


class HeldWalk(ThreadedWalk):
    """Waits in a step that is to hold, until it is let go."""

    begun, may_end = threading.Event(), threading.Event()

    def step(self, action: Stride) -> Place:
        if action.how == "hold":
            self.begun.set()
            assert self.may_end.wait(60)
            action.how = ""
        return super().step(action)


class SlowlyMadeWalk(Walk):
    """Waits when its second instance is reset: the one that is rebuilt."""

    begun, may_end = threading.Event(), threading.Event()
    BLOCKING = True

    def reset(self, seed: int | None = None) -> Place:
        if seed == 13:
            self.begun.set()
            assert self.may_end.wait(60)
        return super().reset(seed)


def lost_to_another(answer: dict[str, Any]) -> bool:
    error = error_of(answer)
    return error["code"] == "SESSION_LOST" and "another server has resumed it" in error["message"]


def walk_like(walker: Walker, *lengths: int, seed: int = 1) -> float:
    """Where a walk gets to that is not disturbed."""
    walk = Walk()
    walk.reset(seed=seed)
    return [walk.step(Stride(length=length)) for length in lengths][-1].at


def owners(place: str) -> set[int]:
    """The runs that may write a session which has not ended."""
    with store_at(place).connect() as connection:
        rows = connection.execute("SELECT owner FROM session WHERE ended IS NULL", {}).fetchall()
    return {owner for (owner,) in rows}


class TestFormerOwner:
    @pytest.mark.usefixtures("only_on_request")
    def test_its_answer_does_not_leave(self, serve: Serve) -> None:
        former, now = serve(), serve()
        with former.v1() as old, now.v1() as new:
            walker, neighbour = Walker.open(old), Walker.open(old)
            walker.reset(seed=1)
            neighbour.reset(seed=1)
            taken = Walker(new, walker.session, walker.token, walker.last_id)
            taken.attach(new)
            old.send([walker.message("step", {"length": 1}), neighbour.message("step", {"length": 1})])
            answers = {answer["session"]: answer for answer in old.receive_many(2)}
            assert lost_to_another(answers[walker.session])
            assert answers[neighbour.session]["type"] == "observation"
            assert "resumed elsewhere" in error_of(walker.ask("step", {"length": 1}))["message"]
            assert taken.step(2)["observation"]["at"] == walk_like(taken, 2), "what it did is not on record"
            former.wait_for_sessions(1)
            assert now.sessions.active_sessions == 1

    @pytest.mark.usefixtures("only_on_request")
    def test_nor_does_one_that_was_under_way_and_who_waits_is_told(self, serve: Serve) -> None:
        HeldWalk.begun.clear()
        HeldWalk.may_end.clear()
        former, now = serve(HeldWalk), serve(HeldWalk)
        with former.v1() as old, now.v1() as new:
            walker, neighbour = Walker.open(old), Walker.open(old)
            walker.reset(seed=1)
            taken = Walker(new, walker.session, walker.token, walker.last_id)
            old.send(walker.message("step", {"length": 1, "how": "hold"}))
            assert HeldWalk.begun.wait(60)
            old.send(walker.message("step", {"length": 5}))
            taken.attach(new)
            old.send(neighbour.message("state"))
            answers = old.receive_many(3)
            HeldWalk.may_end.set()
            of_walker = [answer for answer in answers if answer["session"] == walker.session]
            assert [answer["id"] for answer in of_walker] == [2, 3]
            assert all(map(lost_to_another, of_walker))
            assert taken.step(2)["observation"]["at"] == walk_like(taken, 2)
            former.wait_for_sessions(1)
            neighbour.reset(seed=1)

    def test_one_that_hung_finds_out_when_it_goes_on(self, place: str) -> None:
        run = ("journaled_server.py", "Walk", place)
        with ServerProcess(*run) as former, ServerProcess(*run) as now, connect(former) as old, connect(now) as new:
            walker = Walker.open(old)
            walker.reset(seed=1)
            taken = Walker(new, walker.session, walker.token, walker.last_id)
            os.kill(former.process.pid, signal.SIGSTOP)
            old.send(walker.message("step", {"length": 1}))
            taken.attach(new)
            at = taken.step(2)["observation"]["at"]
            os.kill(former.process.pid, signal.SIGCONT)
            assert lost_to_another(old.receive())
            assert at == walk_like(taken, 2)
            back = Walker(old, walker.session, walker.token, taken.last_id)
            back.attach(old)
            assert back.step(3)["observation"]["at"] == walk_like(back, 2, 3)
            assert lost_to_another(taken.ask("step", {"length": 1}))

    def test_it_gives_up_its_place_though_nobody_asks(self, serve: Serve) -> None:
        former, now = serve(), serve()
        with former.v1() as old, now.v1() as new:
            walker = Walker.open(old)
            walker.reset(seed=1)
            Walker(new, walker.session, walker.token, walker.last_id).attach(new)
            former.wait_for_sessions(0)
            assert now.sessions.active_sessions == 1

    @pytest.mark.usefixtures("only_on_request")
    def test_it_can_t_fork_either(self, serve: Serve) -> None:
        former, now = serve(), serve()
        with former.v1() as old, now.v1() as new:
            walker = Walker.open(old)
            walker.reset(seed=1)
            taken = Walker(new, walker.session, walker.token, walker.last_id)
            taken.attach(new)
            assert lost_to_another(walker.ask("fork", {"count": 3}))
            former.wait_for_sessions(0)
            taken.step(1)

    @pytest.mark.usefixtures("only_on_request")
    def test_nor_end_it_for_the_one_who_has_it(self, serve: Serve) -> None:
        former, now, third = serve(), serve(), serve()
        with former.v1() as old, now.v1() as new:
            walker = Walker.open(old)
            walker.reset(seed=1)
            taken = Walker(new, walker.session, walker.token, walker.last_id)
            taken.attach(new)
            assert walker.ask("close")["type"] == "closed", "here it is"
            taken.step(1)
            new.cut()
            with third.v1() as wire:
                assert taken.attach(wire) == taken.last_id


class TestTakingUp:
    def test_of_those_who_do_so_at_once_one_has_it(self, serve: Serve) -> None:
        with serve().v1() as wire:
            walkers = [Walker.open(wire) for _ in range(8)]
            for walker in walkers:
                walker.reset(seed=1)
            wire.cut()
        servers = [serve() for _ in range(3)]
        with ExitStack() as opened:
            wires = [opened.enter_context(server.v1()) for server in servers]
            for wire in wires:
                wire.send([walker.attach_message() for walker in walkers])
            for wire in wires:
                for answer in wire.receive_many(len(walkers)):
                    assert answer["type"] == "attached" or 0 < error_of(answer)["retry_after_s"] < 1
            for walker in walkers:
                self.assert_one_steps(walker, wires)

    @staticmethod
    def assert_one_steps(walker: Walker, wires: list[V1Wire]) -> None:
        message = walker.message("step", {"length": 1})
        answers = [wire.ask(message) for wire in wires]
        (stepped,) = [answer for answer in answers if answer["type"] == "observation"]
        assert stepped["data"]["observation"]["at"] == walk_like(walker, 1)
        others = [error_of(answer) for answer in answers if answer is not stepped]
        assert {error["code"] for error in others} <= {"SESSION_LOST", "SESSION_ERROR"}

    def test_who_takes_longer_to_rebuild_it_may_lose_it_to_the_next(self, serve: Serve, place: str) -> None:
        SlowlyMadeWalk.may_end.set()
        with serve(SlowlyMadeWalk).v1() as wire:
            walker = Walker.open(wire)
            walker.reset(seed=13)
            wire.cut()
        SlowlyMadeWalk.may_end.clear()
        SlowlyMadeWalk.begun.clear()
        slow, quick = serve(SlowlyMadeWalk), serve(SlowlyMadeWalk)
        with slow.v1() as one, quick.v1() as other:
            one.send(walker.attach_message())
            assert SlowlyMadeWalk.begun.wait(60)
            other.send(walker.attach_message())
            eventually(lambda: quick.sessions.active_sessions == 1, "the other one rebuilds it too")
            eventually(lambda: owners(place) == {3}, "the other one has taken it up")
            SlowlyMadeWalk.may_end.set()
            refused = error_of(one.receive())
            assert refused["retry_after_s"] > 0
            assert "Another server has just resumed this session" in refused["message"]
            assert other.receive()["type"] == "attached"
            walker.wire = other
            walker.step(1)
            slow.wait_for_sessions(0)
            assert slow.app.state.sessions.metrics.recoveries_failed == {"elsewhere": 1}

    async def test_nobody_takes_up_what_has_changed_hands_since_it_was_found(self, place: str) -> None:
        journals = [Journal(store_at(place), max_age_s=1e6, max_bytes=10**9) for _ in range(3)]
        for journal in journals:
            await journal.start()
        first, second, third = journals
        record = first.add("one", "token", "a walk")
        request = V1Request("reset", {"seed": 1}, 1, "one")
        record.note(request, record.copy_data(request), "{}")
        await first.commit()
        row = await second.find("one")
        assert row is not None
        assert (await second.acquire(row)).last_id == 1
        with pytest.raises(AcquiredElsewhereError):
            await third.acquire(row)
        row = await third.find("one")
        assert row is not None
        assert (await third.acquire(row)).last_id == 1
        assert (await third.acquire(await third.find("one") or row)).last_id == 1, "its own it may take up again"
        for journal in journals:
            await journal.close()

    async def test_what_a_former_owner_gathers_later_is_left_out(self, place: str) -> None:
        former, now = (Journal(store_at(place), max_age_s=1e6, max_bytes=10**9) for _ in range(2))
        await former.start()
        await now.start()
        mine, taken = former.add("mine", "token", "a walk"), former.add("taken", "token", "a walk")
        await former.commit()
        row = await now.find("taken")
        assert row is not None
        await now.acquire(row)
        for number in range(1, 4):  # the first time the journal tells, then it is known
            for record, name in ((mine, "mine"), (taken, "taken")):
                request = V1Request("state", {}, number, name)
                record.note(request, record.copy_data(request), f'"{name}{number}"')
            child = former.add_child(
                taken.number, f"child {number}", "token", "a walk", seeded=False, last_id=0, first_id=1
            )
            assert await former.commit()
            assert former.is_acquired(taken.number)
            assert former.is_acquired(child.number)
            assert await now.find(f"child {number}") is None
        told = {name: await now.read(await now.find(name) or row) for name in ("mine", "taken")}
        assert [recorded.answer for recorded in told["mine"].entries] == ['"mine1"', '"mine2"', '"mine3"']
        assert told["taken"].entries == []
        await former.close()
        await now.close()


def test_a_client_asks_again_when_it_is_told_when() -> None:
    refused = AcquiredElsewhereError(0.3)
    frame = {"type": "error", "data": {"code": refused.code, **refused.details}}
    assert retry_after_s(frame) == 0.3
    assert retry_after_s({"type": "error", "data": {"code": refused.code}}) is None
