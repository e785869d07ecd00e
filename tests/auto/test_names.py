"""The forms of an environment's name."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.auto.names import class_prefix, environment_key, space_id


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("my_env", "My"), ("my_cool_game", "MyCoolGame"), ("my_cool_env", "MyCool"), ("env", "Env"), ("a2c_env", "A2c")],
)
def test_prefix(name: str, prefix: str) -> None:
    assert class_prefix(name) == prefix


@given(st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,20}", fullmatch=True))
def test_a_prefix_makes_a_class_name(name: str) -> None:
    assert f"{class_prefix(name)}Action".isidentifier()
    assert class_prefix(name)


@given(st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True))
def test_every_form_of_a_name_has_one_key(name: str) -> None:
    forms = {name, name.upper(), name.replace("_", "-"), name.capitalize()}
    assert {environment_key(form) for form in forms} == {environment_key(name)}


def test_the_suffix_may_be_left_out() -> None:
    assert {environment_key(name) for name in ("wordle", "wordle_env", "wordle-env", "Wordle-Env")} == {"wordle"}


@pytest.mark.parametrize(
    "name",
    [
        "acme/tally_env",
        "https://huggingface.co/spaces/acme/tally_env",
        "https://huggingface.co/spaces/acme/tally_env/",
        "https://huggingface.co/acme/tally_env",
        "http://www.huggingface.co/spaces/acme/tally_env",
    ],
)
def test_a_space_has_an_owner_and_a_name(name: str) -> None:
    assert space_id(name) == "acme/tally_env"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "tally_env",
        "./acme/tally_env",
        "/acme/tally_env",
        "../tally_env",
        "acme/tally_env/server",
        "acme/",
        "http://localhost:8000",
        "http://localhost:8000/acme/tally_env",
        "localhost:8000/tally",
        "https://acme-tally-env.hf.space",
        "https://huggingface.co.evil.test/acme/tally_env",
        "https://evil-huggingface.co/spaces/acme/tally_env",
        "gymnasium:ALE/Pong-v5",
        "~/tally_env",
    ],
)
def test_what_is_no_space(name: str) -> None:
    assert space_id(name) is None


def test_what_is_there_is_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme" / "tally_env").mkdir(parents=True)
    (tmp_path / "acme" / "notes.md").touch()
    monkeypatch.chdir(tmp_path)
    assert space_id("acme/tally_env") is None
    assert space_id("acme/notes.md") is None
    assert space_id("acme/other_env") == "acme/other_env"
