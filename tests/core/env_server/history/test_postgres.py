"""A journal in PostgreSQL: what it keeps, and what becomes of sessions when the database goes."""

import asyncio
import re
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event
from typing import Any

import httpx
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.programs.journaled_server import MappedWalk, Stride, Walk
from tests.support.servers import RunningServer, ServerProcess, eventually
from tests.support.services.postgres import Postgres
from tests.support.walkers import ServeWalks, Walker, connect, error_of

from openenv._extras import install_command
from openenv.core.env_server.execution.snapshots import Snapshot
from openenv.core.env_server.history import Journal, JournalRecord
from openenv.core.env_server.history.batch import END
from openenv.core.env_server.history.entries import Checkpoint, Position
from openenv.core.env_server.history.retention import prune
from openenv.core.env_server.history.stores.choice import store_at
from openenv.core.env_server.history.stores.postgres import PostgresConnection, PostgresStore
from openenv.core.env_server.metrics import Metrics
from openenv.core.exceptions import ConfigurationError
from openenv.core.wire.messages import V1Request

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


class Opened:
    """A journal and the loop that it is used in."""

    def __init__(self, address: str) -> None:
        self._runner = asyncio.Runner()
        self.journal = Journal(store_at(address), max_age_s=1e6, max_bytes=10**9)
        self._runner.run(self.journal.start())

    def commit(self) -> bool:
        return self._runner.run(self.journal.commit())

    def play(self, name: str, answers: list[str], *, seed: int | None = None) -> JournalRecord:
        """Take down a session that was reset and then made a step for each further answer, each with a commit."""
        record = self.journal.add(name, "token", "a walk")
        for number, answer in enumerate(answers, 1):
            data = {"length": number} if number > 1 else {"seed": seed}
            request = V1Request("step" if number > 1 else "reset", data, number, name)
            record.note(request, record.copy_data(request), answer)
            assert self.commit()
        return record

    def told(self, name: str) -> Any:
        row = self._runner.run(self.journal.find(name))
        return None if row is None else self._runner.run(self.journal.read(row))

    def close(self) -> None:
        self._runner.run(self.journal.close())
        self._runner.close()


@contextmanager
def opened(address: str) -> Iterator[Opened]:
    journal = Opened(address)
    try:
        yield journal
    finally:
        journal.close()


@pytest.fixture(scope="module")
def one(postgres: Postgres) -> Iterator[Opened]:
    """A journal for tests that only add to it."""
    with opened(postgres.new_database()) as journal:
        yield journal


def prepared(address: str) -> PostgresStore:
    store = PostgresStore(address)
    store.prepare()
    return store


class TestOpening:
    def test_servers_that_come_at_once_make_one_journal(self, address: str) -> None:
        stores: list[PostgresStore] = []
        threads = [threading.Thread(target=lambda: stores.append(prepared(address))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(asyncio.run(store.start()) for store in stores) == [1, 2, 3, 4, 5, 6]

    def test_another_version_is_refused(self, postgres: Postgres, address: str) -> None:
        PostgresStore(address).prepare()
        with postgres.connect(address) as connection:
            connection.execute("UPDATE openenv_journal.journal SET version = 99")
        with pytest.raises(ConfigurationError, match="to have version 1, got 99: another release"):
            PostgresStore(address).prepare()

    def test_no_message_has_the_password(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        for address in (
            f"postgresql://me:hidden-pass@127.0.0.1:{port}/journal",
            "postgresql://me:hidden-pass@[broken/journal",
            "postgresql://me:hidden-pass@127.0.0.1:port/journal",
            "postgresql://127.0.0.1:1/journal?password=hidden-pass&sslmode=wrong",
            "mysql://me:hidden-pass@127.0.0.1/journal",
        ):
            with pytest.raises(ConfigurationError) as raised:
                store_at(address).prepare()
            assert "hidden-pass" not in f"{raised.value} {raised.value.__cause__}"

    def test_who_can_t_make_it_is_told_so(self, postgres: Postgres, address: str) -> None:
        with postgres.connect() as connection:
            connection.execute("CREATE ROLE powerless LOGIN")
        with pytest.raises(ConfigurationError, match="permission denied for database"):
            PostgresStore(f"{address}&user=powerless").prepare()

    def test_without_the_extra_its_name_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delitem(sys.modules, "openenv.core.env_server.history.stores.postgres")
        monkeypatch.setitem(sys.modules, "psycopg", None)
        with pytest.raises(ConfigurationError, match=re.escape(install_command("postgres"))):
            store_at("postgresql://127.0.0.1/journal")


class TestNotes:
    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        requests=st.lists(st.tuples(st.dictionaries(st.text(), _JSON, max_size=4), st.text()), max_size=6),
        name=st.uuids(),
    )
    def test_whatever_json_can_say_comes_back(
        self, one: Opened, requests: list[tuple[dict[str, Any], str]], name: Any
    ) -> None:
        record = one.journal.add(f"{name}", "token", "a walk")
        for number, (data, answer) in enumerate(requests, 1):
            request = V1Request("step", data, number, f"{name}")
            record.note(request, record.copy_data(request), answer)
            if number % 2:
                assert one.commit()
        history = one.told(f"{name}")
        assert repr([(recorded.request.data, recorded.answer) for recorded in history.entries]) == repr(requests)

    @pytest.mark.parametrize("value", [b"\x00\xff\x00", {"text": "\x00\ud800é"}, None])
    def test_so_does_a_snapshot(self, one: Opened, value: Any) -> None:
        async def keep() -> None:
            record.keep_checkpoint(
                Checkpoint(Snapshot.of(value), Position("running", 1, 1, 0, 0.5)), 1, '{"a": "\x00"}'
            )

        record = one.play(f"snapshot of {type(value)}", ["{}"], seed=1)
        one._runner.run(keep())
        history = one.told(f"snapshot of {type(value)}")
        assert history.checkpoint.snapshot.value() == value
        assert (history.entries, history.checkpoint.position) == ([], Position("running", 1, 1, 0, 0.5))

    def test_no_token_is_in_it(self, postgres: Postgres, address: str, serve_walks: ServeWalks) -> None:
        with serve_walks(journal=address).v1() as wire, postgres.connect(address) as connection:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            tokens = [walker.token, *(child.token for child in walker.fork(2))]
            walker.step(1)
            rows = connection.execute("SELECT session::text FROM openenv_journal.session").fetchall()
            batches = connection.execute("SELECT notes, answers FROM openenv_journal.batch").fetchall()
        assert len(rows) == 3
        assert not any(token in f"{rows}" or token.encode() in b"".join(map(b"".join, batches)) for token in tokens)

    def test_what_is_answered_together_is_committed_together(
        self, postgres: Postgres, address: str, serve_walks: ServeWalks
    ) -> None:
        app = serve_walks(journal=address, max_concurrent_envs=256)
        with app.v1() as wire, postgres.connect(address) as connection:
            walkers = [Walker.open(wire) for _ in range(256)]
            wire.send([walker.message("reset", {"seed": 1}) for walker in walkers])
            wire.receive_many(256)
            count = "SELECT count(*) FROM openenv_journal.batch"
            before = connection.execute(count).fetchone()
            wire.send([walker.message("step", {"length": 1}) for walker in walkers])
            wire.receive_many(256)
            after = connection.execute(count).fetchone()
            assert before is not None
            assert after is not None
            assert 1 <= after[0] - before[0] <= 8


class TestKilled:
    def test_sessions_go_on_in_a_new_server(self, address: str) -> None:
        run = ("journaled_server.py", "MappedWalk", address)
        with ServerProcess(*run) as server, connect(server) as wire:
            walkers = [Walker.open(wire) for _ in range(30)]
            wire.send([walker.message("reset", {"seed": number}) for number, walker in enumerate(walkers)])
            wire.receive_many(30)
            ats = {walker.session: walker.step(1)["observation"]["at"] for walker in walkers}
            server.kill()
        with ServerProcess(*run) as server, connect(server) as wire:
            wire.send([walker.attach_message() for walker in walkers])
            assert {answer["type"] for answer in wire.receive_many(30)} == {"attached"}
            for walker in walkers:
                walker.wire = wire
                assert walker.step(0)["observation"]["at"] == ats[walker.session]


def metrics_of(server: RunningServer) -> Metrics:
    metrics: Metrics = server.app.state.sessions.metrics
    return metrics


def is_on_record(server: RunningServer, walker: Walker) -> bool:
    """Whether the journal records a further request."""
    if metrics_of(server).journal_failing:
        return False
    walker.ask("state")
    return not metrics_of(server).journal_failing


def are_recoverable(server: RunningServer) -> bool:
    """Whether all sessions could be rebuilt if the server ended now."""
    with server.http() as http:
        return all(row["recoverable"] for row in http.get("/sessions").json()["sessions"])


def goes_on(address: str, walker: Walker, serve_walks: ServeWalks, environment: Any = Walk) -> None:
    """Rebuild a session in another server, and see that it is where it was."""
    here = walker.step(1)["observation"]["at"]
    with serve_walks(environment, journal=address).v1() as other:
        assert walker.attach(other) == walker.last_id
        assert walker.step(0)["observation"]["at"] == here


class TestOutages:
    def test_a_restart_costs_nothing(
        self, postgres: Postgres, address: str, serve_walks: ServeWalks, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("openenv.core.env_server.history.stores.postgres._PATIENCE_S", 60.0)
        server = serve_walks(journal=address)
        with server.v1() as wire:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            postgres.stop()
            restart = threading.Thread(target=postgres.start)
            restart.start()
            for _ in range(20):
                walker.step(1)
            restart.join()
            assert not metrics_of(server).journal_failing
            goes_on(address, walker, serve_walks)

    def test_tables_that_are_dropped_are_made_anew(
        self, postgres: Postgres, address: str, serve_walks: ServeWalks, caplog: pytest.LogCaptureFixture
    ) -> None:
        server = serve_walks(MappedWalk, journal=address)
        with server.v1() as wire:
            walker = Walker.open(wire)
            walker.reset()
            with postgres.connect(address) as connection:
                connection.execute("DROP SCHEMA openenv_journal CASCADE")
            eventually(lambda: metrics_of(server).journal_replaced == 1, "it was noticed")
            assert "has been removed or replaced while the server runs" in caplog.text
            eventually(lambda: not metrics_of(server).journal_failing, "it is written again")
            at = walker.step(1)["observation"]["at"]
            with serve_walks(MappedWalk, journal=address).v1() as other:
                walker.attach(other)
                assert walker.step(0)["observation"]["at"] == at

    def test_sessions_go_on_without_it_and_are_on_record_again_after_it(
        self,
        postgres: Postgres,
        address: str,
        serve_walks: ServeWalks,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr("openenv.core.env_server.history.stores.postgres._PATIENCE_S", 0.1)
        server = serve_walks(MappedWalk, journal=f"{address}&password=hidden-pass")
        with server.v1() as wire:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            postgres.kill()
            walker.step(1)
            late = Walker.open(wire)
            late.reset(seed=2)
            late.step(2)
            assert metrics_of(server).journal_failing
            stranger = Walker(wire, "0" * 36, "token")
            refused = error_of(stranger.try_to_attach(wire))
            assert (refused["code"], refused["retry_after_s"]) == ("EXECUTION_ERROR", 1.0)
            postgres.start()
            eventually(lambda: is_on_record(server, walker), "it is written again")
            eventually(lambda: are_recoverable(server), "snapshots of the sessions")
            for one in (walker, late):
                goes_on(address, one, serve_walks, MappedWalk)
        levels = [record.levelname for record in caplog.records if "be written" in record.message]
        assert levels == ["ERROR", "WARNING"]
        assert "hidden-pass" not in caplog.text

    def test_a_database_that_hangs_holds_nobody_up_for_long(
        self, postgres: Postgres, address: str, serve_walks: ServeWalks, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("openenv.core.env_server.history.stores.postgres._LONGEST_COMMIT_S", 1.0)
        monkeypatch.setattr("openenv.core.env_server.history.stores.postgres._PATIENCE_S", 0.0)
        server = serve_walks(MappedWalk, journal=address)
        with server.v1() as wire, httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            postgres.hang()
            wire.send(walker.message("step", {"length": 1}))
            assert http.get("/health").status_code == 200, "only answers wait"
            assert wire.receive()["type"] == "observation"
            assert metrics_of(server).journal_failing
            walker.step(1)
            postgres.go_on()
            eventually(lambda: is_on_record(server, walker), "it is written again")
            eventually(lambda: are_recoverable(server), "a snapshot of the session")
            goes_on(address, walker, serve_walks, MappedWalk)

    def test_a_commit_that_nobody_heard_of_is_not_made_twice(self, postgres: Postgres, address: str) -> None:
        with _Relay(postgres) as relay, opened(relay.through(address)) as one:
            record = one.play("one", ["1", "2"], seed=1)
            relay.drops_answers.set()
            request = V1Request("step", {}, 3, "one")
            record.note(request, record.copy_data(request), "3")
            assert one.commit()
            record = one.play("two", ["1"])
            relay.drops_answers.set()
            child = one.journal.add_child(
                record.number, "child", "token", "a walk", seeded=False, last_id=1, first_id=2
            )
            one.journal.change(END, record.number, why="closed")
            assert one.commit()
            assert relay.dropped == 2
            assert [recorded.answer for recorded in one.told("one").entries] == ["1", "2", "3"]
            assert len(one.told("child").entries) == 1
            assert not one.journal.is_acquired(child.number)
            with postgres.connect(address) as connection:
                counted = connection.execute("SELECT count(*) FROM openenv_journal.batch").fetchone()
                assert counted == (5,)

    def test_clients_need_not_know(self, postgres: Postgres, address: str) -> None:
        """The server and the database are killed in turns under a walk, whose client only attaches again."""
        walk, run = Walk(), ("journaled_server.py", "Walk", address)
        server = ServerProcess(*run)
        with server, connect(server) as wire:
            walker = Walker.open(wire)
            assert walker.reset(seed=5)["observation"]["at"] == walk.reset(seed=5).at
            for length in range(4):
                assert walker.step(length)["observation"]["at"] == walk.step(Stride(length=length)).at
                if length == 1:
                    postgres.kill()
                    postgres.start()
            while 'openenv_journal_failing{worker="0"} 0.0' not in self.metrics(server):
                walker.ask("state")
            server.kill()
        with ServerProcess(*run) as again, connect(again) as wire:
            assert walker.attach(wire) == walker.last_id
            assert walker.step(7)["observation"]["at"] == walk.step(Stride(length=7)).at

    @staticmethod
    def metrics(server: ServerProcess) -> str:
        return httpx.get(f"{server.url}/metrics", trust_env=False).text


class TestUpkeep:
    @staticmethod
    def batches(connection: "psycopg.Connection[Any]") -> int:
        counted = connection.execute("SELECT count(*) FROM openenv_journal.batch").fetchone()
        assert counted is not None
        return int(counted[0])

    def test_what_is_old_goes_then_what_ended_then_the_oldest(
        self, postgres: Postgres, address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(PostgresConnection, "piece", 5)
        long = [f"{number:010000}" for number in range(5)]
        with opened(address) as one, postgres.connect(address) as file:
            one.journal.change(END, one.play("old", long).number, why="closed")
            assert one.commit()
            file.execute("UPDATE openenv_journal.batch SET at = at - 100")
            file.execute("UPDATE openenv_journal.session SET opened_at = opened_at - 100")
            one.play("needed", long, seed=1)
            for number in range(5):
                one.journal.change(END, one.play(f"ended {number}", long).number, why="closed")
            one.play("young", long)
            with store_at(address).connect() as connection:
                prune(connection, 50, 10**9, Event())
                assert one.told("old") is None
                assert self.batches(file) == 35
            with store_at(address).connect() as connection:
                prune(connection, 50, 120_000, Event())
                assert self.batches(file) < 15
                assert connection.used_bytes() <= 120_000
            assert len(one.told("needed").entries) == len(one.told("young").entries) == 5
            with store_at(address).connect() as connection:
                prune(connection, 50, 60_000, Event())
            assert len(one.told("young").entries) == 5
            with pytest.raises(Exception, match="is not in the journal"):
                one.told("needed")

    def test_one_server_at_a_time_sees_to_it(self, postgres: Postgres, address: str) -> None:
        stores = [PostgresStore(address) for _ in range(2)]
        stores[0].prepare()
        with stores[0].connect() as first, stores[1].connect() as second:
            assert [first.leads(), second.leads()] == [True, False]
        with stores[1].connect() as second:
            assert not second.leads(), "it was done just now"
            with postgres.connect(address) as connection:
                connection.execute("UPDATE openenv_journal.journal SET looked_after_at = now() - interval '1 minute'")
            assert second.leads()


class _Relay:
    """Carries connections to a database; when it is told to, it carries a request, and then ends without the answer.

    Args:
        cluster: Where to.
    """

    def __init__(self, cluster: Postgres) -> None:
        self._cluster = cluster
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.drops_answers = Event()
        self.dropped = 0

    def through(self, address: str) -> str:
        """Give a database's address over this way."""
        return f"{address}&host=127.0.0.1&port={self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            database = socket.socket(socket.AF_UNIX)
            database.connect(str(self._cluster.folder / ".s.PGSQL.5432"))
            for one, other in ((client, database), (database, client)):
                threading.Thread(target=self._carry, args=(one, other, one is database), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        try:
            while data := source.recv(65536):
                if is_answer and self.drops_answers.is_set():
                    self.drops_answers.clear()
                    self.dropped += 1
                    break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def __enter__(self) -> "_Relay":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
