"""The databases that tasks are about."""

from random import Random

import pytest

from sql_env.models import DATABASES
from sql_env.server.databases import make_database


@pytest.mark.parametrize("name", DATABASES)
def test_chance_decides_and_nothing_else(name: str) -> None:
    first, same, other = ("\n".join(make_database(name, Random(seed)).iterdump()) for seed in (1, 1, 2))
    assert first == same != other


@pytest.mark.parametrize("name", DATABASES)
def test_every_row_refers_to_one_that_is_there(name: str) -> None:
    for seed in range(20):
        connection = make_database(name, Random(seed))
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        counts = [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]
        assert min(counts) >= 4
        assert len(connection.serialize()) < 100_000


def test_prices_and_times_make_sense() -> None:
    shop = make_database("shop", Random(3))
    assert shop.execute("SELECT count(*) FROM products WHERE price <> round(price, 2) OR price < 2").fetchone() == (0,)
    library = make_database("library", Random(3))
    assert library.execute("SELECT count(*) FROM loans WHERE returned_on <= lent_on").fetchone() == (0,)
    flights = make_database("flights", Random(3))
    assert flights.execute("SELECT count(*) FROM flights WHERE origin = destination").fetchone() == (0,)
