"""The journal: what it keeps, for how long, and which files it takes for one."""

import asyncio
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import from_json
from tests.support.programs.journaled_server import Place, Stride, Walk
from tests.support.servers import RunningServer, eventually
from tests.support.walkers import Walker, crash_image

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.history import Journal, JournalRecord
from openenv.core.env_server.history.batch import Batch
from openenv.core.env_server.history.clock import JournalClock, journal_time
from openenv.core.env_server.history.retention import prune
from openenv.core.env_server.history.stores.sqlite import SqliteConnection, SqliteStore, open_journal, prepare_journal
from openenv.core.env_server.mcp.dialect import failed, response_json
from openenv.core.exceptions import ConfigurationError, EnvironmentTimeoutError, JournalError, SessionLostError
from openenv.core.wire.messages import V1Request

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@contextmanager
def opened(path: Path, **settings: Any) -> Iterator[Journal]:
    journal = Journal(SqliteStore(path), **{"max_age_s": 1e6, "max_bytes": 10**9, **settings})
    asyncio.run(journal.start())
    try:
        yield journal
    finally:
        asyncio.run(journal.close())


def play(journal: Journal, name: str, answers: list[str], *, seed: int | None = None) -> JournalRecord:
    """Take down a session that was reset and then made a step for each further answer, each with a commit."""
    record = journal.add(name, "token", "a walk")
    for number, answer in enumerate(answers, 1):
        data = {"length": number} if number > 1 else {"seed": seed}
        request = V1Request("step" if number > 1 else "reset", data, number, name)
        record.note(request, record.copy_data(request), answer)
        asyncio.run(journal.commit())
    return record


def told(journal: Journal, name: str) -> list[Any]:
    row = asyncio.run(journal.find(name))
    assert row is not None
    return [recorded.answer for recorded in asyncio.run(journal.read(row)).entries]


def files_of(path: Path) -> list[Path]:
    return list(path.parent.iterdir())


def remove_files(path: Path) -> None:
    for file in files_of(path):
        file.unlink()


def sessions_in(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("select id from session")}


async def closed_and_started(store: SqliteStore) -> None:
    await store.close()
    await store.start()


class TestFile:
    def test_only_its_owner_may_read_it(self, path: Path) -> None:
        with opened(path) as journal:
            play(journal, "one", ["{}"])
            assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}

    def test_another_version_is_refused(self, path: Path) -> None:
        prepare_journal(path)
        with closing(sqlite3.connect(path)) as file:
            file.execute("PRAGMA user_version = 99")
        with pytest.raises(ConfigurationError, match="to have version 2, got 99: another release"):
            SqliteStore(path).prepare()

    def test_another_database_is_refused(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as file:
            file.execute("CREATE TABLE precious (thing)")
        with pytest.raises(ConfigurationError, match="to be a journal or not to exist, got another SQLite database"):
            SqliteStore(path).prepare()

    def test_another_file_is_refused_and_left_alone(self, path: Path) -> None:
        path.write_bytes(b"my thesis" * 1000)
        with pytest.raises(ConfigurationError, match="can't be opened: file is not a database"):
            SqliteStore(path).prepare()
        assert path.read_bytes() == b"my thesis" * 1000

    def test_a_folder_that_is_not_there(self, path: Path) -> None:
        with pytest.raises(ConfigurationError, match=r"can't be opened: .*No such file"):
            SqliteStore(path / "not" / "there").prepare()

    def test_it_may_come_from_the_environment(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENENV_JOURNAL", str(path))
        with RunningServer(create_fastapi_app(Walk, Stride, Place)) as server, server.v1() as wire:
            Walker.open(wire)
        assert path.exists()

    def test_its_bounds_are_settings(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        bounds: dict[str, Any] = {"journal_max_age_s": 0.001}
        monkeypatch.setenv("OPENENV_JOURNAL_MAX_SIZE_MB", "1")
        with opened(path) as journal:
            for _ in range(20):
                play(journal, "before", ["x" * 100_000])
        app = create_fastapi_app(Walk, Stride, Place, journal=path, **bounds)
        with RunningServer(app) as server, server.v1() as wire:
            limits = app.state.sessions.limits
            assert (limits.journal_max_age_s, limits.journal_max_size_mb) == (0.001, 1)
            Walker.open(wire)
            eventually(lambda: TestPruning.batches(path) < 10, "pruning")

    def test_its_last_checkpoint_holds_nobody_up(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        may_end = Event()

        async def close() -> None:
            journal = Journal(SqliteStore(path), max_age_s=100, max_bytes=10**9)
            await journal.start()
            closing = asyncio.create_task(journal.close())
            await asyncio.sleep(0)
            assert not closing.done()
            may_end.set()
            await closing

        monkeypatch.setattr(SqliteConnection, "tidy", lambda file: may_end.wait(60))
        asyncio.run(close())

    async def test_stores_that_create_a_removed_file_again_at_once_have_the_same_file(self, tmp_path: Path) -> None:
        for number in range(100):  # in three of them, a store removed the log of another one's new file
            path = tmp_path / str(number)
            stores = [SqliteStore(path) for _ in range(3)]
            await asyncio.gather(*(store.start() for store in stores))
            path.unlink()
            await asyncio.gather(*(closed_and_started(store) for store in stores))
            assert [await store.is_current() for store in stores] == [True] * 3
            for store in stores:
                await store.close()
                store.cut()

    def test_a_closed_one_takes_nothing_down(self, path: Path) -> None:
        with opened(path) as journal:
            record = play(journal, "one", ["{}"])
        record.ended("shut down")
        request = V1Request("step", {}, 2, "one")
        record.note(request, record.copy_data(request), "{}")
        assert not asyncio.run(journal.commit())
        with opened(path) as again:
            row = asyncio.run(again.find("one"))
            assert row is not None
            assert row.ended is None


class TestStart:
    @pytest.mark.parametrize("removed", [False, True])
    async def test_a_failure_is_made_good_later(
        self, path: Path, removed: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also of a journal that is made anew, since its file was removed."""
        failed = asyncio.Event()
        go_on = JournalClock.go_on

        def fail_once(clock: JournalClock, connection: SqliteConnection, run: int) -> None:
            if not failed.is_set():
                loop.call_soon_threadsafe(failed.set)
                raise JournalError("database is locked")
            go_on(clock, connection, run)

        loop = asyncio.get_running_loop()

        journal = Journal(SqliteStore(path), max_age_s=1e6, max_bytes=10**9)
        if removed:
            await journal.start()
            remove_files(path)
        monkeypatch.setattr(JournalClock, "go_on", fail_once)
        if not removed:
            with pytest.raises(JournalError, match="locked") as raised:
                await journal.start()
            assert raised.value.details["retry_after_s"] > 0  # so a client that attaches comes back
            await journal.start()
        async with asyncio.timeout(60):
            await failed.wait()
            while not (journal.is_open and await journal.commit()):  # noqa: ASYNC110  # no event announces it
                await asyncio.sleep(0.01)
        journal.add("later", "token", "a walk")
        assert await journal.commit()
        await journal.close()
        assert "later" in sessions_in(path)


class TestHistory:
    async def test_one_with_a_gap_is_not_replayed(self, path: Path) -> None:
        """What was dropped while the journal failed may be missing at its end, where no gap shows."""
        journal = Journal(SqliteStore(path), max_age_s=1e6, max_bytes=10**9)
        await journal.start()
        record = journal.add("walk", "token", "a walk")
        reset = V1Request("reset", {"seed": 1}, 1, "walk")
        record.note(reset, record.copy_data(reset), "{}")
        assert await journal.commit()
        assert len((await record.history()).entries) == 1
        record.mark_unrecoverable()
        with pytest.raises(SessionLostError, match="could not be written"):
            await record.history()
        await journal.close()


class TestClose:
    async def test_what_is_committed_meanwhile_is_on_record(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        store = SqliteStore(path)
        journal = Journal(store, max_age_s=1e6, max_bytes=10**9)
        await journal.start()
        written, write = asyncio.Event(), store.write

        async def write_slowly(batch: Batch) -> frozenset[int]:
            if not written.is_set():
                written.set()
                journal.add("second", "token", "a walk")
                commits.append(asyncio.create_task(journal.commit()))
                await asyncio.sleep(0)
            return await write(batch)

        commits: list[asyncio.Task[bool]] = []
        monkeypatch.setattr(store, "write_at_once", lambda _: None)  # as if another process had locked the file
        monkeypatch.setattr(store, "write", write_slowly)
        journal.add("first", "token", "a walk")
        await journal.close()
        assert await asyncio.gather(*commits) == [True]
        assert sessions_in(path) == {"first", "second"}
        assert not journal.is_open

    async def test_a_removed_file_stays_away(self, path: Path) -> None:
        journal = Journal(SqliteStore(path), max_age_s=1e6, max_bytes=10**9)
        await journal.start()
        remove_files(path)
        await journal.close()
        assert not files_of(path)


class TestNotes:
    @pytest.mark.level("socket")
    @settings(max_examples=30)
    @given(requests=st.lists(st.tuples(st.dictionaries(st.text(), _JSON, max_size=4), st.text()), max_size=6))
    def test_whatever_json_can_say_comes_back(
        self, requests: list[tuple[dict[str, Any], str]], tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        with opened(tmp_path_factory.mktemp("notes") / "journal") as journal:
            record = journal.add("name", "token", "a walk")
            for number, (data, answer) in enumerate(requests, 1):
                request = V1Request("step", data, number, "name")
                record.note(request, record.copy_data(request), answer)
                if number % 2:
                    asyncio.run(journal.commit())
            row = asyncio.run(journal.find("name"))
            assert row is not None
            history = asyncio.run(journal.read(row))
            assert repr([(recorded.request.data, recorded.answer) for recorded in history.entries]) == repr(requests)

    def test_data_that_the_environment_changes_is_kept_as_it_came(self, path: Path) -> None:
        with opened(path) as journal:
            record = journal.add("name", "token", "a walk")
            request = V1Request("step", {"what": {"is": [1]}, "n": 1}, 1, "name")
            taken = record.copy_data(request)
            request.data["what"]["is"].append(2)
            record.note(request, taken, "{}")
            row = asyncio.run(journal.find("name"))
            assert row is not None
            (recorded,) = asyncio.run(journal.read(row)).entries
            assert recorded.request.data == {"what": {"is": [1]}, "n": 1}

    def test_no_snapshot_is_wanted_where_a_tool_may_still_be_at_work(self, path: Path) -> None:
        with opened(path) as journal:
            record = journal.add("one", "token", "a walk")
            late = response_json(failed(EnvironmentTimeoutError("step", 1.0), 1))
            for number, answer in enumerate(('{"result":{}}', late, '{"result":{}}'), 1):
                request = V1Request("mcp", {}, number, "one")
                record.note(request, record.copy_data(request), answer)
                assert record.wants_checkpoint(number) is (answer != late)

    def test_no_token_is_in_the_file(self, path: Path) -> None:
        with (
            RunningServer(create_fastapi_app(Walk, Stride, Place, journal=path, max_concurrent_envs=8)) as server,
            server.v1() as wire,
        ):
            walker = Walker.open(wire)
            walker.reset()
            tokens = [walker.token, *(child.token for child in walker.fork(2))]
            walker.step(1)
            image = crash_image(path)
        written = b"".join(file.read_bytes() for file in image.parent.iterdir())
        assert walker.session.encode() in written
        assert not any(token.encode() in written for token in tokens)

    def test_an_answer_is_on_record_before_it_leaves(self, path: Path) -> None:
        app = create_fastapi_app(Walk, Stride, Place, journal=path, max_concurrent_envs=8)
        with RunningServer(app) as server, server.v1() as wire, closing(sqlite3.connect(path)) as file:
            walker = Walker.open(wire)
            walker.reset(seed=1)
            for _ in range(20):
                walker.step(1)
                (notes,) = file.execute("SELECT notes FROM batch ORDER BY number DESC LIMIT 1").fetchone()
                assert from_json(notes)[-1][1] == walker.last_id

    def test_what_is_answered_together_is_committed_together(self, path: Path) -> None:
        app = create_fastapi_app(Walk, Stride, Place, journal=path, max_concurrent_envs=64)
        with RunningServer(app) as server, server.v1() as wire, closing(sqlite3.connect(path)) as file:
            walkers = [Walker.open(wire) for _ in range(64)]
            wire.send([walker.message("reset", {"seed": 1}) for walker in walkers])
            wire.receive_many(64)
            (before,) = file.execute("SELECT max(number) FROM batch").fetchone()
            wire.send([walker.message("step", {"length": 1}) for walker in walkers])
            wire.receive_many(64)
            (after,) = file.execute("SELECT max(number) FROM batch").fetchone()
            assert after - before <= 4  # a frame's requests are answered some at a time

    def test_processes_write_the_same_file(self, path: Path) -> None:
        with opened(path) as one, opened(path) as other:
            for journal, name in ((one, "a"), (other, "b"), (one, "c"), (other, "d")):
                play(journal, name, [f'"{name}{number}"' for number in range(5)])
            assert {record[0]: record[1:] for record in (tuple(told(one, name)) for name in "abcd")} == {
                f'"{name}0"': tuple(f'"{name}{number}"' for number in range(1, 5)) for name in "abcd"
            }


class TestPruning:
    """Answers of 10,000 characters, so that sizes are plain."""

    @staticmethod
    def long_answers(count: int) -> list[str]:
        return [f"{number:010000}" for number in range(count)]

    @staticmethod
    def end(journal: Journal, record: JournalRecord) -> None:
        """What ``journal.end`` does in an event loop."""
        journal.change("UPDATE session SET ended = 'x', last_batch = :batch WHERE number = :number", record.number)

    @staticmethod
    def batches(path: Path) -> int:
        with closing(sqlite3.connect(path)) as file:
            count: int = file.execute("SELECT count(*) FROM batch").fetchone()[0]
            return count

    @staticmethod
    def make_older(file: sqlite3.Connection, age_s: float) -> None:
        """Make everything older that is on record, and the servers that were there."""
        for column in ("batch SET at = at", "session SET opened_at = opened_at", "alive SET at = at"):
            file.execute(f"UPDATE {column} - {age_s}")  # numbers

    def test_by_age(self, path: Path) -> None:
        with opened(path) as journal:  # whose server ends without a word of its session
            play(journal, "old", self.long_answers(3))
        with closing(open_journal(path)) as file:
            self.make_older(file, 100)
            with opened(path) as journal:
                play(journal, "young", self.long_answers(3), seed=1)
                prune(file, 50, 10**9, Event())
                assert len(told(journal, "young")) == 3
                assert asyncio.run(journal.find("old")) is None

    def test_servers_that_are_long_gone_are_forgotten(self, path: Path) -> None:
        for _ in range(3):
            with opened(path) as journal:
                play(journal, "old", self.long_answers(1))
        with closing(open_journal(path)) as file:
            self.make_older(file, 100)
            with opened(path) as journal:
                play(journal, "young", self.long_answers(3), seed=1)
                prune(file, 50, 10**9, Event())
                with opened(path):
                    for table in ("SELECT number FROM run", "SELECT run FROM alive"):
                        assert file.execute(f"{table} ORDER BY 1").fetchall() == [(4,), (5,)]
                assert len(told(journal, "young")) == 3

    def test_what_lives_is_never_too_old(self, path: Path) -> None:
        with opened(path) as journal, closing(open_journal(path)) as file:
            play(journal, "long", self.long_answers(3))
            self.end(journal, play(journal, "ended", self.long_answers(30)))
            asyncio.run(journal.commit())
            file.execute("UPDATE batch SET at = at - 100")
            file.execute("UPDATE session SET opened_at = opened_at - 100")
            prune(file, 50, 10**9, Event())
            assert len(told(journal, "long")) == 3
            assert self.batches(path) < 10, "what ended goes from among it"

    def test_a_clock_that_jumps_makes_nothing_old(self, path: Path) -> None:
        with opened(path, max_age_s=1000) as journal:
            play(journal, "one", self.long_answers(3))
        with closing(open_journal(path)) as file:
            for jump_s in (30 * 86400, 2 * 3600, -2 * 3600):  # as one of the machine's clock the other way
                before = journal_time(file)
                file.execute("UPDATE clock SET wall = wall - ?", (jump_s,))
                with opened(path, max_age_s=1000):
                    assert before <= journal_time(file) < before + 100 + 60
                    file.execute("UPDATE clock SET wall = wall - ?", (jump_s,))
            with opened(path, max_age_s=1000) as journal:
                prune(file, 1000, 10**9, Event())
                assert len(told(journal, "one")) == 3

    def test_while_a_server_is_at_it_no_more_time_passes_than_it_sees(self, path: Path) -> None:
        with opened(path), closing(open_journal(path)) as file:
            clock = JournalClock(1e6)
            clock.go_on(file, 1)
            before = clock.now()
            file.execute("UPDATE clock SET wall = wall - 1e6")
            clock.go_on(file, 1)
            assert before <= clock.now() < before + 60

    def test_what_ended_goes_first(self, path: Path) -> None:
        with opened(path) as journal:
            play(journal, "needed", self.long_answers(2))
            for number in range(30):
                record = play(journal, f"ended {number}", self.long_answers(5))
                self.end(journal, record)
            play(journal, "also needed", self.long_answers(2))
            asyncio.run(journal.commit())
            with closing(open_journal(path)) as file:
                prune(file, 1000, 300_000, Event())
            assert len(told(journal, "needed")) == 2
            assert len(told(journal, "also needed")) == 2
            assert self.batches(path) < 60

    def test_then_the_oldest(self, path: Path) -> None:
        with opened(path) as journal:
            for number in range(20):
                play(journal, f"live {number}", self.long_answers(10))
            with closing(open_journal(path)) as file:
                prune(file, 1000, 500_000, Event())
            assert len(told(journal, "live 19")) == 10
            with pytest.raises(Exception, match="request 1 is not in the journal"):
                told(journal, "live 0")

    def test_what_came_before_a_seed_is_not_needed(self, path: Path) -> None:
        with opened(path) as journal:
            record = play(journal, "long", self.long_answers(50), seed=1)
            request = V1Request("reset", {"seed": 2}, 51, "long")
            record.note(request, record.copy_data(request), "{}")
            asyncio.run(journal.commit())
            with closing(open_journal(path)) as file:
                prune(file, 1000, 50_000, Event())
            assert told(journal, "long") == ["{}"]

    def test_parents_are_kept_for_their_children(self, path: Path) -> None:
        with opened(path) as journal:
            parent = play(journal, "parent", self.long_answers(3))
            journal.add_child(parent.number, "child", "token", "a walk", seeded=False, last_id=2, first_id=1)
            self.end(journal, parent)
            play(journal, "other", self.long_answers(1))
            with closing(open_journal(path)) as file:
                prune(file, 1000, 85_000, Event())  # what is to stay, and a page for each table
            assert len(told(journal, "child")) == 2

    def test_it_only_looks_while_there_is_nothing_to_delete(self, path: Path) -> None:
        with opened(path) as journal, closing(open_journal(path)) as file, closing(open_journal(path)) as other:
            play(journal, "one", self.long_answers(3))
            other.execute("BEGIN IMMEDIATE")
            file.execute("PRAGMA busy_timeout = 0")
            prune(file, 1000, 10**9, Event())
            other.execute("ROLLBACK")
            assert len(told(journal, "one")) == 3

    def test_others_write_between_its_pieces(self, path: Path) -> None:
        class Pauses(Event):
            count = 0

            def wait(self, timeout: float | None = None) -> bool:
                record.note(request, record.copy_data(request), "{}")
                assert asyncio.run(journal.commit())
                self.count += 1
                return super().wait(0)

        with opened(path) as journal, closing(open_journal(path)) as file:
            for number in range(150):
                self.end(journal, journal.add(f"ended {number}", "token", "a walk"))
            asyncio.run(journal.commit())
            self.end(journal, play(journal, "old", self.long_answers(49)))
            record, request = journal.add("new", "token", "a walk"), V1Request("state", {}, 1, "new")
            asyncio.run(journal.commit())
            file.execute("UPDATE batch SET at = at - 100")
            pauses = Pauses()
            prune(file, 50, 10**9, pauses)
            assert pauses.count == 5 + 2, "pieces of 10 batches and 100 sessions"
            assert asyncio.run(journal.find("ended 0")) is None

    def test_it_ends_early_with_the_server(self, path: Path) -> None:
        with opened(path) as journal, closing(open_journal(path)) as file:
            self.end(journal, play(journal, "old", self.long_answers(5)))
            file.execute("UPDATE batch SET at = at - 100")
            stop = Event()
            stop.set()
            prune(file, 50, 10**9, stop)
            assert self.batches(path) == 5

    def test_a_checkpoint_waits_for_nobody_who_reads(self, path: Path) -> None:
        wal = path.with_name("journal-wal")
        with opened(path) as journal, closing(open_journal(path)) as file, closing(open_journal(path)) as reader:
            play(journal, "one", self.long_answers(3))
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM session").fetchall()
            play(journal, "two", self.long_answers(3))
            file.execute("PRAGMA busy_timeout = 3600000")
            file.tidy()
            assert wal.stat().st_size > 0
            reader.execute("ROLLBACK")
            file.tidy()
            assert wal.stat().st_size == 0

    def test_a_server_prunes_and_checkpoints_by_itself(self, path: Path) -> None:
        wal = path.with_name("journal-wal")
        with opened(path, max_bytes=2_000_000) as journal:
            play(journal, "one", [f"{number:0500000}" for number in range(80)])
            assert wal.stat().st_size > 32_000_000
            eventually(lambda: wal.stat().st_size < 1_000_000, "a checkpoint")
        with opened(path, max_bytes=2_000_000):
            eventually(lambda: self.batches(path) < 8, "pruning")
        assert not wal.exists()
