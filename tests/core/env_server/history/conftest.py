"""Places for journals, of every kind."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.services.postgres import Postgres, running_postgres


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as cluster:
        yield cluster


@pytest.fixture
def address(postgres: Postgres) -> str:
    """The address of a database that holds nothing yet."""
    return postgres.new_database()


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Where to keep a journal that several servers share."""
    return str(tmp_path / "journal") if request.param == "SQLite" else request.getfixturevalue("address")
