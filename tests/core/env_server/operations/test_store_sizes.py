"""Sizes of the journal and the traces, at a scrape."""

import re
from pathlib import Path
from urllib.request import urlopen

from tests.conftest import Serve
from tests.support.servers import eventually

from openenv.core.env_server.operations.store_sizes import store_sizes
from openenv.core.env_server.settings import ServerConfig


def test_a_scrape_has_the_sizes_of_what_the_server_writes(serve: Serve, tmp_path: Path) -> None:
    journal, traces = tmp_path / "journal.db", tmp_path / "traces.db"
    server = serve(journal=journal, traces=traces, traces_max_size_mb=8)
    eventually(traces.exists, "the traces are there")
    with server.wire() as wire:
        wire.reset(seed=1)
        text = urlopen(f"{server.url}/metrics").read().decode()
    found = {
        (name, store): float(value)
        for name, store, value in re.findall(r'(openenv_store_\w+){store="(\w+)"} (\S+)', text)
    }
    assert {store for _, store in found} == {"journal", "traces"}
    assert found["openenv_store_bytes", "traces"] >= 4096
    assert found["openenv_store_max_bytes", "traces"] == 8 * 1024**2
    assert found["openenv_store_free_bytes", "journal"] > 0


def test_the_log_beside_a_file_counts_and_a_file_that_is_not_there_is_empty(tmp_path: Path) -> None:
    config = ServerConfig(traces=str(tmp_path / "traces.db"))
    assert store_sizes(config)["traces"].used == 0
    for suffix, size in (("", 5), ("-wal", 7), ("-shm", 11), ("-other", 13)):
        (tmp_path / f"traces.db{suffix}").write_bytes(b"x" * size)
    assert store_sizes(config)["traces"].used == 23
    assert set(store_sizes(config)) == {"traces"}


def test_a_database_and_a_folder_that_is_gone_have_no_size(tmp_path: Path) -> None:
    assert store_sizes(ServerConfig(traces="postgresql://me@here/mine", journal=str(tmp_path / "gone" / "j.db"))) == {}
