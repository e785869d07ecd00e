"""Every kind of target at every entrance, taken or refused; the table of docs/targets.md."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer
from tests.support.services.hub_server import HubServer

import openenv
from openenv import AutoEnv
from openenv.adapters.gymnasium.opening import open_client
from openenv.core.env_server import create_app
from openenv.core.exceptions import OpenEnvError, ProviderError
from openenv.core.sync_client import SyncEnvClient
from openenv.traces import open as open_traces
from openenv.train.trl.env_spec import EnvSpec

GUESS = """
from openenv import Action, Environment, Observation, State

class Guess(Action):
    number: int = 1

class GuessEnvironment(Environment[Guess, Observation, State]):
    def reset(self, seed=None):
        return Observation()

    def step(self, action):
        return Observation(done=True, reward=1.0)

    @property
    def state(self):
        return State()
"""
MANIFEST = "name: guess_env\nenvironment: guess_environment:GuessEnvironment\n"
ENTRANCES = (
    "make AutoEnv EnvSpec serve play info validate train eval collect view vector".split()  # noqa: SIM905  # a table's head
)
IN_PYTHON = ("make", "AutoEnv", "EnvSpec", "vector")
PLAYED = frozenset(ENTRANCES) - {"view"}
TABLE = {
    "name": PLAYED,
    "folder": PLAYED,
    "file": PLAYED,
    "class": PLAYED,
    "address": PLAYED - {"serve"},
    "PREFIX:ID": PLAYED,
    "Space": PLAYED,
    "image": PLAYED - {"serve"},
    "recording": frozenset({"view"}),
}
"""The entrances that take each kind of target."""

WRITTEN = {
    "name": "echo",
    "folder": "./guess_env",
    "file": "guess.py",
    "class": "guess.py:GuessEnvironment",
    "PREFIX:ID": "gymnasium:CartPole-v1",
    "Space": "eve/go",
    "image": "docker:guess-env:latest",
    "recording": "traces.db",
}
RUNNING = [WRITTEN[kind] for kind in ("name", "folder", "file", "class", "PREFIX:ID")]
ADDRESSES = ("{host}", "{host}/", "http://{host}", "http://{host}/web/", "ws://{host}/ws", "{host}?theme=dark")
NO_DOCKER = "Docker can't be used"


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    """The host and port of a running server."""
    with RunningServer(create_app(CounterEnvironment, Add, Total, max_concurrent_envs=64)) as server:
        yield server.url.removeprefix("http://")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub: HubServer) -> Path:
    """The working directory, with a target of each kind; code of Spaces may run, and there is no Docker."""
    (tmp_path / "guess.py").write_text(GUESS)
    for name in ("guess_env", "empty"):
        (tmp_path / name).mkdir()
    files = {"__init__.py": "", "guess_environment.py": GUESS, "openenv.yaml": MANIFEST}
    for name, text in files.items():
        (tmp_path / "guess_env" / name).write_text(text)
    hub.add("eve/go", {name: text.encode() for name, text in files.items()})
    open_traces(tmp_path / "traces.db", create=True).close()
    (tmp_path / "none.py").write_text("class Nothing:\n    pass\n")
    (tmp_path / "broken.py").write_text("class Nothing(:\n")
    for name in ("picture.py", "picture.png"):
        (tmp_path / name).write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENENV_TRUST_REMOTE_CODE", "1")
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    return tmp_path


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port on which nothing can listen: a command that gets as far has taken its target."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def made(entrance: str, target: Any, host: str) -> None:
    """Hand a target to an entrance in Python, without starting a server."""
    if entrance == "make":
        openenv.make(target).sync().close()
    elif entrance == "AutoEnv":
        of_space = str(target).startswith("eve/")
        options = {"base_url": host, "skip_install": of_space} if of_space or target in RUNNING else {}
        AutoEnv.from_env(target, **options).sync().close()
    elif entrance == "EnvSpec":
        with EnvSpec(target) as spec:
            assert isinstance(spec.client, SyncEnvClient)
    else:
        with ExitStack() as opened:
            open_client(target, 1, opened)


def words(entrance: str, target: str, port: int) -> list[object]:
    """Return a command that ends by itself once it has read its target."""
    own: dict[str, list[object]] = {
        "serve": ["--port", port],
        "view": ["--port", port, "--no-browser"],
        "validate": [] if is_without_folder(target) else ["--no-run"],
        "train": ["--model", "./no_model"],
        "eval": ["--player", "random", "--k", 2],
        "collect": ["--player", "random", "--no-resume", "--output", "guess_env"],
    }
    return [entrance, target, *own.get(entrance, [])]


def is_without_folder(target: str) -> bool:
    return ":" in target or target.endswith((".py", ".db"))


AFTERWARDS = {
    "serve": "Address already in use",
    "view": "Address already in use",
    "train": "There is no model './no_model'",
    "eval": "pass@2 needs 2 samples",
    "collect": "--no-resume needs a new folder",
}
"""The error of a command that has taken its target."""


def children() -> list[str]:
    """List the processes that this one has started and that run."""
    return sorted(" ".join(each.read_text() for each in Path("/proc/self/task").glob("*/children")).split())


CELLS = [(kind, written, entrance) for kind, written in WRITTEN.items() for entrance in ENTRANCES]
CELLS += [("address", written, entrance) for written in ADDRESSES for entrance in ENTRANCES]
# A file is validated by playing it in processes, as tests/cli/commands/test_validate.py has it.
CELLS = [cell for cell in CELLS if cell[2] != "validate" or cell[0] not in ("file", "class")]


@pytest.mark.level("service")
@pytest.mark.parametrize(("kind", "written", "entrance"), CELLS)
def test_every_kind_at_every_entrance(
    kind: str, written: str, entrance: str, host: str, folder: Path, taken_port: int, openenv_here: Any
) -> None:
    target, is_taken = written.format(host=host), entrance in TABLE[kind]
    before = children()
    if entrance in IN_PYTHON:
        found = load_class(folder) if kind == "class" else target
        if is_taken and kind != "image":
            made(entrance, found, host)
        else:
            with pytest.raises(ProviderError if is_taken else OpenEnvError) as refused:
                made(entrance, found, host)
            assert (NO_DOCKER if is_taken else " takes ") in str(refused.value)
        assert children() == before
        return
    played_here = entrance == "play" and kind not in ("address", "image")
    ended = openenv_here(*words(entrance, target, taken_port), *(["--in-process"] if played_here and is_taken else []))
    said = ended.stderr.rstrip().splitlines()
    if not is_taken:
        assert (ended.returncode, len(said)) == (2, 1), ended
        assert f"`openenv {entrance}` takes " in said[0] or "Expected in guess_env a training run" in said[0]
    elif kind == "image":
        assert ended.returncode == (2 if entrance == "train" else 1), ended  # the model of a training is refused
        assert NO_DOCKER in said[-1] or AFTERWARDS.get(entrance, NO_DOCKER) in said[-1]
    elif entrance in AFTERWARDS:
        assert AFTERWARDS[entrance] in said[-1], ended
    else:
        assert ended.returncode in (0, 1) if entrance == "validate" else ended.returncode == 0, ended
    assert children() == before


def load_class(folder: Path) -> type:
    found: type = openenv.find_environment(folder / "guess.py").environment_class()
    return found


BAD: dict[str, str] = {
    "": "Expected an environment's name, folder, file or address",
    "a\x07b": "Expected an environment's name, folder, file or address",
    "wordel": "Did you mean wordle",
    "./empty": "holds no openenv.yaml",
    "./nowhere": "There is no folder",
    "~/nowhere": "There is no folder",
    "~no_such_user_here/x": "There is no file or folder ~no_such_user_here/x",
    "picture.png": "picture.png is no file of Python",
    "picture.py": "picture.py is no file of Python",
    "missing.py": "There is no file missing.py",
    "none.py": "expected a class that extends Environment",
    "broken.py": "broken.py, line 1: ",
    "guess.py:Nope": "has no Nope; its environments are: GuessEnvironment",
    "none.py:Nothing": "is no environment: expected a class with the methods reset and step",
    "http://": "Expected a server's address",
    "ftp://host/env": "Expected a server's address",
    "localhost:99999": "Expected a server's address",
    "gymnasum:CartPole-v1": "No adapter has the prefix 'gymnasum'. Did you mean gymnasium",
    "gymnasium:CartPol-v1": "Did you mean CartPole-v1",
    "eve/gone": "eve/gone",
    "docker:": "Expected an image",
}
NOTHING = "http://127.0.0.1:9"


@pytest.mark.level("service")
@pytest.mark.usefixtures("folder", "impatient")
@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("target", [*BAD, NOTHING])
def test_what_is_no_target_is_refused_by_one_sentence(
    target: str, entrance: str, host: str, taken_port: int, openenv_here: Any
) -> None:
    reported = ("none.py", "broken.py", "guess.py:Nope", "none.py:Nothing")
    is_elsewhere = (target, entrance) == ("eve/gone", "AutoEnv")  # a Space that runs need not be downloaded
    is_later = target == NOTHING and entrance in IN_PYTHON  # a client connects by its first call
    if is_elsewhere or is_later or (entrance == "validate" and target in reported):
        return
    # The public package's sentence.
    is_unrecognized = (target, entrance) == ("./empty", "validate")
    expected = "contains none of the well-known files" if is_unrecognized else BAD.get(target, "")
    before = children()
    if entrance in IN_PYTHON:
        with pytest.raises(OpenEnvError) as refused:
            made(entrance, target, host)
        said = [str(refused.value)]
    else:
        ended = openenv_here(*words(entrance, target, taken_port))
        said = ended.stderr.splitlines()
        assert (ended.returncode, ended.stdout) == (2, ""), ended
    assert len(said) == 1
    assert expected in said[0] or (entrance in ("view", "serve") and " takes " in said[0]) or entrance == "view"
    assert children() == before


def test_a_server_of_another_kind_is_none(openenv_here: Any, folder: Path, host: str) -> None:
    for command in ("play", "info", "eval", "collect", "train"):
        ended = openenv_here(*words(command, f"http://{host}/elsewhere", 0))
        assert ended.returncode == 2
        assert "/elsewhere/schema" in ended.stderr
        assert len(ended.stderr.splitlines()) == 1
    assert json.loads(openenv_here("info", host, "--json").stdout)["actions"]
    assert not list((folder / "empty").iterdir())


def test_the_page_of_the_docs_has_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "targets.md").read_text("utf-8")
    lines = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line] for line in lines if len(line) == len(ENTRANCES) + 1]
    head, *kinds = rows
    assert [cell.strip("`") for cell in head[1:]] == list(ENTRANCES)
    taken = {row[0]: {name for name, cell in zip(ENTRANCES, row[1:], strict=True) if cell == "✓"} for row in kinds}
    assert taken == {kind: set(entrances) for kind, entrances in TABLE.items()}
