"""The kinds of targets, and how each is written."""

import functools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv import Action, Environment, Observation, State
from openenv.auto.target import MADE, PACKAGED, SERVED, Target, TargetKind, is_address
from openenv.core.exceptions import EnvironmentNotFoundError

TAKEN = "`openenv serve` takes a name, a folder, a file of Python, PREFIX:ID or a Space"


class Game(Environment[Action, Observation, State]):
    """An environment."""

    def reset(self, seed: int | None = None) -> Observation:
        return Observation()

    def step(self, action: Action) -> Observation:
        return Observation()

    @property
    def state(self) -> State:
        return State()


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("wordle", TargetKind.NAME),
        ("Wordle-Env", TargetKind.NAME),
        ("localhost", TargetKind.NAME),
        (".", TargetKind.FOLDER),
        ("./my_env", TargetKind.FOLDER),
        ("envs/my_env/", TargetKind.FOLDER),
        ("a/b/c", TargetKind.FOLDER),
        ("./gymnasium:x", TargetKind.FOLDER),
        ("./host:8000", TargetKind.FOLDER),
        ("~/my_env", TargetKind.FOLDER),
        (Path("my_env"), TargetKind.FOLDER),
        (Path("http:/x"), TargetKind.FOLDER),
        (Path("gymnasium:x"), TargetKind.FOLDER),
        ("guess.py", TargetKind.FILE),
        ("./guess.py:GuessEnvironment", TargetKind.FILE),
        ("games/guess.py", TargetKind.FILE),
        (Path("guess.py"), TargetKind.FILE),
        (Game, TargetKind.CLASS),
        (functools.partial(Game), TargetKind.CLASS),
        (Game(), TargetKind.CLASS),
        ("http://host", TargetKind.ADDRESS),
        ("HTTPS://host:8000/games/wordle", TargetKind.ADDRESS),
        ("wss://host/path/ws", TargetKind.ADDRESS),
        ("localhost:8000", TargetKind.ADDRESS),
        ("[::1]:8000", TargetKind.ADDRESS),
        ("10.0.0.1:80/env", TargetKind.ADDRESS),
        ("localhost:8000?theme=dark", TargetKind.ADDRESS),
        ("https://openenv-wordle.hf.space", TargetKind.ADDRESS),
        ("gymnasium:CartPole-v1", TargetKind.ADAPTED),
        ("gymnasium:ale_py:ALE/Pong-v5", TargetKind.ADAPTED),
        ("reasoning_gym:leg_counting?size=3", TargetKind.ADAPTED),
        ("ors:http://localhost:8080", TargetKind.ADAPTED),
        ("openspiel:2048", TargetKind.ADAPTED),  # a host of that name has dots, or is written with http://
        ("acme/tally_env", TargetKind.SPACE),
        ("https://huggingface.co/spaces/acme/tally_env", TargetKind.SPACE),
        ("https://huggingface.co/spaces/acme/tally_env/tree/v1", TargetKind.SPACE),
        ("https://huggingface.co/acme/tally_env", TargetKind.SPACE),
        ("http://www.huggingface.co/spaces/acme/tally_env/", TargetKind.SPACE),
        ("hf.co/spaces/acme/tally_env", TargetKind.SPACE),
        ("docker:echo-env:latest", TargetKind.IMAGE),
        ("docker:registry.example.org/echo-env", TargetKind.IMAGE),
        ("postgresql://me@db/traces", TargetKind.RECORDING),
        # What looks like a Space, and is none.
        ("http://localhost:8000/acme/tally_env", TargetKind.ADDRESS),
        ("https://huggingface.co.evil.test/acme/tally_env", TargetKind.ADDRESS),
        ("https://evil-huggingface.co/spaces/acme/tally_env", TargetKind.ADDRESS),
        ("localhost:8000/tally", TargetKind.ADDRESS),
        ("acme/", TargetKind.FOLDER),
        ("/acme/tally_env", TargetKind.FOLDER),
    ],
)
def test_kinds(given: Any, kind: TargetKind) -> None:
    target = Target.of(given)
    assert target.kind is kind
    assert Target.of(target) is target
    if kind is not TargetKind.CLASS and kind is not TargetKind.IMAGE and isinstance(given, str):
        assert Target.of(str(target)) == target


@pytest.mark.parametrize(
    "written",
    [
        "localhost:8000",
        "http://localhost:8000",
        "HTTP://localhost:8000/",
        "localhost:8000/",
        "http://localhost:8000/web",
        "localhost:8000/web/",
        "ws://localhost:8000/ws",
        "WS://localhost:8000",
        "http://localhost:8000/web#board",
    ],
)
def test_an_address_has_one_form(written: str) -> None:
    assert Target.of(written) == Target(TargetKind.ADDRESS, "http://localhost:8000")
    assert Target.of(written).host == "localhost"
    assert is_address(written)


def test_paths_and_queries_of_addresses_stay() -> None:
    assert Target.of("wss://example.org/games/wordle/ws?key=1").text == "https://example.org/games/wordle?key=1"
    assert Target.of("0.0.0.0:8001/wordle").text == "http://127.0.0.1:8001/wordle"


@pytest.mark.parametrize(
    "given",
    [
        "",
        "  ",
        "a\0b",
        "a\tb",
        "line\nbreak",
        "\x1b[31m",
        "http://",
        "http://:8000",
        "http://host:port",
        "http://host:99999",
        "localhost:99999",
        "http://[::1",
        "http://a b",
        "ftp://host/env",
        "file:///etc/passwd",
        "docker:",
        "docker:--privileged",
        "docker:a b",
        "~no_such_user_of_this_machine/env",
        "x" * 5000,
        "./" + "x" * 300,
        None,
        5,
        b"\xff"[0],
        [],
        dict,
        object(),
        type("NoEnvironment", (), {}),
    ],
)
def test_what_is_no_target_is_refused_by_one_sentence(given: Any) -> None:
    with pytest.raises(EnvironmentNotFoundError) as refused:
        Target.of(given)
    assert len(str(refused.value).splitlines()) == 1
    assert len(str(refused.value)) < 400


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        target = Target.of(text)
    except EnvironmentNotFoundError:
        return
    assert target.text


def test_what_is_there_is_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme" / "tally_env").mkdir(parents=True)
    (tmp_path / "acme" / "notes.md").touch()
    monkeypatch.chdir(tmp_path)
    assert Target.of("acme/tally_env").kind is TargetKind.FOLDER
    assert Target.of("acme/notes.md").kind is TargetKind.FILE
    assert Target.of("acme/other_env").repo.id == "acme/other_env"


def test_environments_of_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "environment.yaml").touch()
    for text in ("hf://datasets/acme/words/easy@v1", "words", "./words", "words/easy", "words/environment.yaml"):
        assert Target.of(text).kind is TargetKind.DATASET, text
    assert Target.of("acme/words").kind is TargetKind.SPACE
    (tmp_path / "words" / "openenv.yaml").touch()
    assert Target.of("words").kind is TargetKind.FOLDER


def test_a_folder_with_a_manifest_and_files_go_before_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("wordle", "notes"):
        (tmp_path / name).mkdir()
    (tmp_path / "wordle" / "openenv.yaml").touch()
    (tmp_path / "picture.png").touch()
    (tmp_path / "traces.db").touch()
    kinds = [Target.of(name).kind for name in ("wordle", "notes", "picture.png", "traces.db")]
    assert kinds == [TargetKind.FOLDER, TargetKind.NAME, TargetKind.FILE, TargetKind.RECORDING]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            "localhost:8000",
            f"{TAKEN}; http://localhost:8000 is a server's address; play on it with `openenv play "
            "http://localhost:8000`.",
        ),
        (
            "docker:echo",
            f"{TAKEN}; echo is an image; serve it with `docker run -p 127.0.0.1:8000:8000 echo` and give "
            "http://localhost:8000.",
        ),
        (Game, f"{TAKEN}; Game is a class."),
    ],
)
def test_a_kind_that_is_not_taken_is_refused_by_those_that_are(given: Any, sentence: str) -> None:
    with pytest.raises(EnvironmentNotFoundError) as refused:
        Target.of(given).required(SERVED, "`openenv serve`")
    assert str(refused.value) == sentence
    assert Target.of(given).required(MADE, "make").kind in MADE - PACKAGED
