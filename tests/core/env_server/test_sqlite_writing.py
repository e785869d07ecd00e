"""Files of SQLite that several threads or processes create at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from openenv.core.env_server.history.stores.sqlite import prepare_journal
from openenv.core.env_server.traces.sqlite import FileDatabase
from openenv.core.llm.cache import AnswerCache

THREADS = 4
# One of ten to twenty was refused as locked before, while another thread set the mode of the new file.
FILES = 100


def prepare_traces(path: Path) -> None:
    FileDatabase(path).prepare()


def open_cache(path: Path) -> None:
    with AnswerCache(path):
        pass


@pytest.mark.parametrize("create", [prepare_journal, prepare_traces, open_cache])
def test_a_new_file_is_created_by_several_at_once(create: Callable[[Path], None], tmp_path: Path) -> None:
    at_once = Barrier(THREADS)

    def create_each() -> None:
        for number in range(FILES):
            at_once.wait(60)
            create(tmp_path / str(number))

    with ThreadPoolExecutor(THREADS) as pool:
        for created in [pool.submit(create_each) for _ in range(THREADS)]:
            created.result()
