"""Options of the form ``NAME=VALUE``."""

import pytest
import typer

from openenv.cli.key_values import read_reset, read_secrets, read_variables, read_weights


def test_values_may_be_anything() -> None:
    assert read_variables(["A=", "B=x=y", "_c1= z ", "A=last"], "-e") == {"A": "last", "B": "x=y", "_c1": " z "}


@pytest.mark.parametrize("item", ["A", "=x", "1A=x", "A-B=x", " A=x", ""])
def test_names_may_not(item: str) -> None:
    with pytest.raises(typer.BadParameter, match="-e takes NAME=VALUE"):
        read_variables([item], "-e")


def test_a_secret_may_be_a_variables_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "hush=hush")
    assert read_secrets(["MY_KEY", "B=x"], "--secret") == {"MY_KEY": "hush=hush", "B": "x"}
    monkeypatch.delenv("MY_KEY")
    with pytest.raises(typer.BadParameter, match="'MY_KEY' is neither"):
        read_secrets(["MY_KEY"], "--secret")


def test_a_parameter_of_a_reset_is_json_or_a_text() -> None:
    read = read_reset(["n=4", "on=true", "level=hard", 'words=["a=b"]', "empty=", "n=5"])
    assert read == {"n": 5, "on": True, "level": "hard", "words": ["a=b"], "empty": ""}


def test_a_weight_is_a_number_of_a_components_name() -> None:
    assert read_weights(["sudoku.progress=0.5", "a=b=-1"], "--reward-component") == {
        "sudoku.progress": 0.5,
        "a=b": -1.0,
    }


@pytest.mark.parametrize("item", ["progress", "=1", "progress=", "progress=much"])
def test_what_is_no_weight_is_refused(item: str) -> None:
    with pytest.raises(typer.BadParameter, match="--part takes NAME=WEIGHT, as in"):
        read_weights([item], "--part")
