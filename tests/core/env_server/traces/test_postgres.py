"""Traces in PostgreSQL: several servers, and what becomes of episodes when the database goes."""

import socket
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
from tests.conftest import Serve
from tests.support.servers import RunningServer, eventually
from tests.support.services.postgres import Postgres
from tests.support.stored_episodes import PICTURE, entries, episode, of_an_environment
from tests.support.trace_locations import rows
from tests.support.traces import recorded

from openenv import traces
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.traces.store import database_at
from openenv.core.exceptions import ConfigurationError
from openenv.traces import Conversation

# Takes from tables of version 4 what those of versions 2 and 3 lack.
VERSION_3 = """
ALTER TABLE episode DROP COLUMN token_name, DROP COLUMN label, DROP COLUMN note;
DROP TABLE component;
DROP INDEX conversation_model;
ALTER TABLE conversation DROP COLUMN rollout_group, DROP COLUMN reward, DROP COLUMN cut_by;
"""


@pytest.fixture
def address(postgres: Postgres) -> str:
    return postgres.new_database()


def play(server: RunningServer, seed: int) -> None:
    with server.wire() as wire:
        wire.reset(seed=seed)
        assert wire.step(amount=10)["data"]["done"]


def seeds(address: str) -> list[str | None]:
    return sorted(found.seed or "" for found, _ in recorded(address))


def is_on_record(address: str, seed: int) -> bool:
    has_tables = rows(address, "SELECT to_regclass('openenv_traces.traces') IS NOT NULL") == [(True,)]
    return has_tables and str(seed) in seeds(address)


def in_threads(work: Callable[[], object], count: int = 6) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


def test_servers_that_come_at_once_make_the_tables_once(address: str) -> None:
    in_threads(database_at(address).prepare)
    assert rows(address, "SELECT version FROM traces") == [(4,)]


def test_an_episode_goes_on_while_the_database_is_away_and_is_written_whole(
    serve: Serve, postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    address = postgres.new_database()
    server = serve(traces=f"{address}&password=hidden-pass")
    metrics = server.app.state.sessions.metrics
    with server.wire() as wire:
        wire.reset(seed=1)
        wire.step(amount=1)
        eventually(lambda: seeds(address) == ["1"], "the episode is on record")
        postgres.stop()
        try:
            wire.step(amount=2)
            eventually(lambda: metrics.traces_failing, "the log says that traces can't be written")
            wire.step(amount=3)
        finally:
            postgres.start()
        eventually(lambda: not metrics.traces_failing, "the traces are written again")
        wire.step(amount=4)
    server.stop()
    ((found, played),) = recorded(address)
    assert (found.id, found.steps, found.ending) == ("1-1", 4, "done")
    assert [entry.request["amount"] for entry in played[1:]] == [1, 2, 3, 4]
    messages = [record for record in caplog.records if "traces" in record.getMessage()]
    assert [record.levelname for record in messages] == ["ERROR", "WARNING"]
    assert "hidden-pass" not in caplog.text


def test_tables_that_were_dropped_are_made_again(serve: Serve, postgres: Postgres, address: str) -> None:
    server = serve(traces=address)
    play(server, 1)
    eventually(lambda: seeds(address) == ["1"], "the episode is on record")
    with postgres.connect(address) as connection:
        connection.execute("DROP SCHEMA openenv_traces CASCADE")
    play(server, 2)
    eventually(lambda: rows(address, "SELECT to_regclass('openenv_traces.traces') IS NOT NULL") == [(True,)], "tables")
    server.stop()
    assert seeds(address) == ["2"]


def test_servers_whose_tables_were_dropped_do_not_overwrite_each_other(
    serve: Serve, postgres: Postgres, address: str
) -> None:
    first, second = serve(traces=address), serve(traces=address)
    for seed, server in enumerate((first, second)):
        play(server, seed)
    eventually(lambda: seeds(address) == ["0", "1"], "the episodes are on record")
    with postgres.connect(address) as connection:
        connection.execute("DROP SCHEMA openenv_traces CASCADE")
    for seed, server in ((2, second), (3, first)):
        play(server, seed)
        eventually(partial(is_on_record, address, seed), "the episode is on record")
    for server in (first, second):
        server.stop()
    assert seeds(address) == ["2", "3"]


@pytest.mark.parametrize("skew_s", [-3600.0, 3600.0])
def test_a_server_whose_clock_differs_counts_as_alive_while_it_writes(
    serve: Serve, address: str, monkeypatch: pytest.MonkeyPatch, skew_s: float
) -> None:
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + skew_s)
    server = serve(traces=address)
    with server.wire() as wire, traces.open(address, create=True) as file:
        wire.reset(seed=1)
        eventually(lambda: seeds(address) == ["1"], "the episode is on record")
        monkeypatch.undo()  # the reader's clock is right
        assert [found.ending for found in file.episodes()] == ["running"]
        assert file.prune(max_bytes=0) == 0
        monkeypatch.setattr("openenv.core.env_server.traces.store._ALIVE_S", 0.0)
        assert [found.ending for found in file.episodes()] == ["interrupted"]
    server.stop()


def test_a_server_whose_clock_is_ahead_removes_no_younger_episodes(
    serve: Serve, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = serve(traces=address)
    play(first, 1)
    first.stop()
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + 3600.0)
    ahead = serve(traces=address, traces_max_age_s=1800.0)
    play(ahead, 2)
    ahead.stop()
    assert seeds(address) == ["1", "2"]


def test_writers_and_removers_of_one_picture_leave_every_episode_whole(address: str) -> None:
    """Episodes of several processes share a value, which goes with the last of them."""
    shown = {"png": PICTURE, "pixels": [[0, 1.5]] * 1000}

    def write_and_remove() -> None:
        with traces.open(address, create=True) as file:
            for number in range(10):
                name = file.add(episode(number), entries(2, shown))
                assert [entry.observation for entry in file.entries(name)] == [shown] * 2
                if number % 2:
                    file.remove([name])

    in_threads(write_and_remove, 4)
    with traces.open(address) as file:
        names = [found.id for found in file.episodes()]
        assert len(names) == 4 * 5
        assert all([entry.observation for entry in file.entries(name)] == [shown] * 2 for name in names)
        assert len(rows(address, "SELECT hash FROM blob")) == 2
        assert file.remove(names) == len(names)
    assert rows(address, "SELECT hash FROM blob") == []
    assert rows(address, "SELECT sum(bytes) FROM size_change") == [(0,)]


def test_a_size_is_kept(address: str) -> None:
    with traces.open(address, create=True) as file:
        for number in range(40):
            file.add(episode(number), entries(2, f"{number:>9}" * 2000))
        removed = file.prune(max_bytes=300_000)
        assert removed > 0
        assert file.count() == 40 - removed
        assert file.prune(before=time.time() - 1) == 40 - removed


@pytest.mark.parametrize("version", [2, 3])
def test_tables_of_an_earlier_version_are_read_and_written_on(
    serve: Serve, postgres: Postgres, address: str, version: int
) -> None:
    told = Conversation("e1", extra={"step": 3, "group": 1, "reward": 0.5, "cut_by": "max_turns"})
    with traces.open(address, create=True) as file:
        file.add(episode(started_at=time.time()), entries(2))
        rewarded = of_an_environment()
        file.add(episode(1, started_at=time.time()), rewarded.entries, [told])
    with postgres.connect(address) as connection:
        connection.execute("SET search_path = openenv_traces")
        connection.execute(VERSION_3)
        connection.execute(f"UPDATE traces SET version = {version}")
    assert seeds(address) == ["0", "1"]
    assert rows(address, "SELECT name, total FROM component ORDER BY name") == [("right", 1.0), ("short", 0.5)]
    assert rows(address, "SELECT rollout_group, reward, cut_by FROM conversation") == [("3/1", 0.5, "max_turns")]
    server = serve(traces=address)
    play(server, 2)
    server.stop()
    assert seeds(address) == ["0", "1", "2"]
    assert rows(address, "SELECT version FROM traces") == [(4,)]


def test_text_with_the_character_0_is_stored(address: str) -> None:
    with traces.open(address, create=True) as file:
        name = file.add(episode(episode_id="a\0b"), entries(1, "c\0d"))
        assert file.episode(name).episode_id == "a\ufffdb"
        assert next(file.entries(name)).observation == "c\0d"


def test_what_can_t_be_used_is_refused_without_the_password(postgres: Postgres, address: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for wrong in (
        f"postgresql://me:hidden-pass@127.0.0.1:{port}/traces",
        "postgresql://me:hidden-pass@[broken/traces",
        "mysql://me:hidden-pass@127.0.0.1/traces",
    ):
        for use in (traces.open, lambda at: database_at(at).prepare()):
            with pytest.raises(ConfigurationError) as raised:
                use(wrong)
            assert "hidden-pass" not in f"{raised.value} {raised.value.__cause__}"
        assert "hidden-pass" not in repr(ServerConfig(traces=wrong))
    with pytest.raises(ConfigurationError, match="found no traces"):
        traces.open(address)
    database_at(address).prepare()
    with postgres.connect(address) as connection:
        connection.execute("UPDATE openenv_traces.traces SET version = 99")
    with pytest.raises(ConfigurationError, match="to have version 2 to 4, got 99"):
        traces.open(address)
