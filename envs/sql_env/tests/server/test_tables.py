"""Results as text."""

from hypothesis import given
from hypothesis import strategies as st

from sql_env.server.tables import MAX_LENGTH, MAX_WIDTH, table_text, tables_text
from sql_env.server.workers import Table


def test_a_result_is_a_table() -> None:
    text = table_text(Table(["name", "n"], [["Ada", 12], ["O'Brien", None]], truncated=False))
    assert text.splitlines() == ["name    | n", "--------+-----", "Ada     | 12", "O'Brien | NULL", "2 rows"]


def test_no_rows_and_left_out_ones_are_said() -> None:
    assert table_text(Table(["a"], [], truncated=False)).splitlines() == ["a", "-", "0 rows"]
    assert table_text(Table(["a"], [[1]], truncated=True)).endswith("1 row; there are more, or longer values")


@given(st.lists(st.lists(st.text() | st.integers() | st.none(), min_size=3, max_size=3), max_size=60))
def test_any_result_is_short_and_harmless(rows: list[list[str | int | None]]) -> None:
    text = table_text(Table(["a", "b\x1b[2J", "c" * 500], [list(row) for row in rows], truncated=False))
    lines = text.split("\n")
    assert len(text) <= MAX_LENGTH + 100
    assert all(line.isprintable() for line in lines)
    assert max(map(len, lines)) <= 3 * MAX_WIDTH + 6
    assert len(lines) == len(rows) + 3 or len(text) > MAX_LENGTH


def test_many_columns_are_cut_off() -> None:
    wide = Table([f"column {number}" for number in range(500)], [["x" * 1_000] * 500], truncated=False)
    assert len(table_text(wide)) < MAX_LENGTH + 100


def test_tables_are_listed_with_their_columns() -> None:
    assert tables_text({"a": ["x", "y"], "b": ["z"]}) == "a(x, y)\nb(z)"
