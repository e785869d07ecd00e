"""Variants of right answers."""

from openenv.validation.semantic.fields import FieldRole
from openenv.validation.semantic.oracle import variants


def test_a_number_is_written_in_other_ways() -> None:
    assert {value for _, value, _ in variants("1250", FieldRole.ANSWER)} == {"1250\n", "  1250 ", "1250.0", "1,250"}


def test_nothing_is_sure_where_the_form_is_stated() -> None:
    assert [is_sure for _, _, is_sure in variants("Vltava", FieldRole.ANSWER, is_exact=True)] == [False, False]


def test_programs_keep_their_meaning() -> None:
    values = [value for _, value, _ in variants("x = 1\n", FieldRole.CODE)]
    assert values == ["x = 1\n\n", "# The solution.\nx = 1\n"]


def test_a_path_has_one_form() -> None:
    assert list(variants("a.txt", FieldRole.PATH)) == []
