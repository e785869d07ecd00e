"""Where traces are kept: fixtures with a file, and with a database."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.services.postgres import Postgres, running_postgres


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL."""
    with running_postgres() as cluster:
        yield cluster


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A file or a database that holds nothing yet."""
    if request.param == "SQLite":
        return str(tmp_path / "traces.db")
    cluster: Postgres = request.getfixturevalue("postgres")
    return cluster.new_database()


def rows(location: str, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query on the tables of traces."""
    if "://" in location:
        with psycopg.connect(location, options="-c search_path=openenv_traces") as connection:
            return connection.execute(sql).fetchall()
    with closing(sqlite3.connect(location)) as file:
        return file.execute(sql).fetchall()
