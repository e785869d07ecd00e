"""Texts of findings, and comparison of answers."""

from hypothesis import given
from hypothesis import strategies as st

from openenv.validation.semantic.texts import normalised, number_of, strings_in


@given(st.text())
def test_white_space_and_case_do_not_change_what_is_normalised(text: str) -> None:
    assert normalised(f"  {text}\n") == normalised(text)


def test_numbers_are_equal_in_any_form() -> None:
    assert normalised("1,250") == normalised(1250.0) == normalised("1250.00")
    assert number_of("12a") is None
    assert number_of(True) is None


def test_each_value_has_its_path() -> None:
    assert list(strings_in({"a": [1, {"b": "c"}]})) == [("a[0]", 1), ("a[1].b", "c")]
