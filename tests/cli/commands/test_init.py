"""``openenv init``: the folder that it makes, and that it works as it is."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import pytest
import typer
from tests.support.environment_folders import fresh_scaffold, write_files

from openenv.auto.manifest import load_manifest
from openenv.auto.package import EnvironmentPackage
from openenv.cli.commands.init import init

ROOT = Path(__file__).resolve().parents[3]
FILES = {
    ".dockerignore",
    ".gitignore",
    "README.md",
    "__init__.py",
    "client.py",
    "models.py",
    "openenv.yaml",
    "player.py",
    "pyproject.toml",
    "server/Dockerfile",
    "server/__init__.py",
    "server/app.py",
    "server/my_game_env_environment.py",
    "server/requirements.txt",
    "tests/test_my_game_env.py",
    "validation/runtime.json",
}
INSTALLED_PROGRAM = """
import json, openenv
from my_game_env import MyGameAction, MyGameEnv, MyGameObservation
with openenv.make("my_game").sync() as client:
    assert type(client.async_client) is MyGameEnv
    client.reset()
    result = client.step(MyGameAction(direction="left"))
    assert isinstance(result.observation, MyGameObservation)
    print(json.dumps([result.reward, result.observation.x, result.observation.y]))
"""


def run(*command: object, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=270,
    )


def test_it_makes_every_file_and_says_what_next(openenv: Any, tmp_path: Path) -> None:
    made = openenv("init", "my_game_env")
    assert (made.returncode, made.stderr) == (0, "")
    folder = tmp_path / "my_game_env"
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == FILES
    assert all((folder / "outputs" / name).is_dir() for name in ("logs", "evals"))
    for word in ("play", "serve", "validate", "train"):
        assert f"openenv {word} my_game_env" in made.stdout


def test_no_placeholder_is_left(tmp_path: Path) -> None:
    folder = fresh_scaffold(tmp_path, "my_game_env")
    for path in FILES:
        text = (folder / path).read_text()
        variables = () if path != "server/Dockerfile" else ("${BASE_IMAGE}", "$PATH", "$PORT")
        for variable in variables:
            text = text.replace(variable, "")
        assert "$" not in text, path
        assert "__name__" not in text.replace('if __name__ == "__main__"', ""), path


def test_the_image_runs_the_server_that_limits_connections(tmp_path: Path) -> None:
    folder = fresh_scaffold(tmp_path, "my_game_env")
    assert "exec server --host 0.0.0.0 --port $PORT" in (folder / "server/Dockerfile").read_text()
    scripts = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["server"] == "my_game_env.server.app:main"
    assert "server_main(app)" in (folder / "server/app.py").read_text()


@pytest.mark.parametrize(
    ("name", "prefix", "title", "key"),
    [
        ("my_env", "My", "My Env", "my"),
        ("my_cool_game", "MyCoolGame", "My Cool Game", "my_cool_game"),
        ("x", "X", "X", "x"),
        ("Chess2_env", "Chess2", "Chess2 Env", "chess2"),
    ],
)
def test_names_follow_from_the_environments(tmp_path: Path, name: str, prefix: str, title: str, key: str) -> None:
    folder = fresh_scaffold(tmp_path, name)
    assert f'__all__ = ["{prefix}Action", "{prefix}Env", "{prefix}Observation"]' in (folder / "__init__.py").read_text()
    environment = (folder / "server" / f"{name}_environment.py").read_text()
    assert f"class {prefix}Environment(" in environment
    assert f"# {title}\n" in (folder / "README.md").read_text()
    assert f'{key} = "{name}"' in (folder / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("name", "line"), [("my_env", "name: my_env"), ("on", "name: 'on'"), ("null", "name: 'null'"), ("e1", "name: e1")]
)
def test_the_name_stands_in_the_manifest_as_it_is_unless_yaml_reads_another_value(
    tmp_path: Path, name: str, line: str
) -> None:
    folder = fresh_scaffold(tmp_path, name)
    assert line in (folder / "openenv.yaml").read_text().splitlines()
    assert load_manifest(folder).name == name


def test_the_output_folder_is_made(openenv_here: Any, tmp_path: Path) -> None:
    assert openenv_here("init", "my_env", "-o", tmp_path / "a" / "b").returncode == 0
    assert (tmp_path / "a" / "b" / "my_env" / "openenv.yaml").is_file()
    (tmp_path / "empty" / "my_env").mkdir(parents=True)
    assert openenv_here("init", "my_env", "--output-dir", tmp_path / "empty").returncode == 0


@pytest.mark.parametrize("name", ["my-env", "2048", "my env", "class", "größe", "../my_env", "_env", "my_env\n"])
def test_a_name_that_no_package_can_have_ends_with_2(openenv_here: Any, tmp_path: Path, name: str) -> None:
    ended = openenv_here("init", name)
    assert ended.returncode == 2
    assert "can't be a package's name" in ended.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["json", "openenv", "server", "models", "test", "pydantic"])
def test_a_name_that_would_hide_another_module_ends_with_2(openenv_here: Any, tmp_path: Path, name: str) -> None:
    ended = openenv_here("init", name)
    assert ended.returncode == 2
    assert f"try {name}_env" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_left_alone(openenv_here: Any, tmp_path: Path) -> None:
    (tmp_path / "my_env").mkdir()
    (tmp_path / "my_env" / "mine.txt").write_text("mine")
    (tmp_path / "your_env").write_text("a file")
    for name in ("my_env", "your_env"):
        ended = openenv_here("init", name)
        assert ended.returncode == 2
        assert f"{name} already exists" in ended.stderr
    assert [path.name for path in (tmp_path / "my_env").iterdir()] == ["mine.txt"]
    assert (tmp_path / "your_env").read_text() == "a file"


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (["--tools"], "from openenv import Environment, Observation, ToolResult, tool"),
        (["--tasks", "rows.jsonl"], '    tasks = TaskSet("tasks.jsonl", columns={"question": "question", '),
        (["--wrap", "gymnasium:CartPole-v1"], 'environment_class("CartPole-v1")'),
    ],
)
def test_options_choose_the_kind(openenv_here: Any, tmp_path: Path, options: list[str], kind: str) -> None:
    (tmp_path / "rows.jsonl").write_text('{"question": "1 + 1?", "answer": "2"}')
    made = openenv_here("init", "my_env", *options)
    assert (made.returncode, made.stderr) == (0, "")
    assert kind in (tmp_path / "my_env" / "server" / "my_env_environment.py").read_text()


def test_a_kind_that_can_not_be_made_leaves_no_folder(openenv_here: Any, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("{}")
    for options, status, said in (
        (["--tools", "--tasks", "rows.jsonl"], 1, "--tools and --tasks make different environments"),
        (["--tasks", "rows.jsonl"], 1, "no column for the question"),
        (["--tasks", "none.jsonl"], 2, "none.jsonl"),
        (["--wrap", "gymnasium:None-v0"], 1, "Gymnasium has no environment"),
    ):
        ended = openenv_here("init", "my_env", *options)
        assert (ended.returncode, said in ended.stderr) == (status, True), ended.stderr
    assert not (tmp_path / "my_env").exists()


def test_a_failure_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, *_: Any, **__: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        init("my_env", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_taken_name_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter):
        init("json", tmp_path)


def test_its_own_tests_pass(tmp_path: Path) -> None:
    folder = fresh_scaffold(tmp_path, "my_game_env")
    tested = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=folder)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "2 passed" in tested.stdout


@pytest.mark.level("service")  # half a minute where `make lint` has not run
def test_it_satisfies_the_type_checker(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="needs mypy: pip install --group lint")
    fresh_scaffold(tmp_path, "my_game_env")
    # By the settings of the root, strict too, whose cache has what it imports once `make lint` has run.
    checked = run(sys.executable, "-m", "mypy", "--package", "my_game_env", cwd=ROOT, MYPYPATH=str(tmp_path))
    assert checked.returncode == 0, checked.stdout


def test_installed_it_is_found_by_its_name_and_serves(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", "77", reason="needs setuptools: pip install 'setuptools>=77'")
    folder = fresh_scaffold(tmp_path, "my_game_env")
    site = tmp_path / "site"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    installed = run(*pip, "--target", site, folder, cwd=tmp_path)
    assert installed.returncode == 0, installed.stderr
    played = run(sys.executable, "-c", INSTALLED_PROGRAM, cwd=tmp_path, PYTHONPATH=str(site))
    assert json.loads(played.stdout) == [0.0, 1, 2], played.stderr
    assert (site / "my_game_env" / "openenv.yaml").is_file()
    helped = run(sys.executable, site / "bin" / "server", "--help", cwd=tmp_path, PYTHONPATH=str(site))
    assert "Serve my_game_env." in helped.stdout, helped.stderr
    # What the image runs, from the folder that holds the sources.
    imported = run(
        sys.executable, "-c", "import server.app; print(server.app.app.title)", cwd=folder, PYTHONPATH=str(site)
    )
    assert imported.stdout == "my_game_env\n", imported.stderr


DATA = {"words.txt", "tables/deep/a.json", "server/levels/1.txt", "server/page.html", "games/chess.py", "Makefile"}
NO_DATA = {
    ".env",
    "server/.secret",
    ".venv/lib/x.py",
    "outputs/logs/a.txt",
    "runs/1/model.bin",
    "server/__pycache__/x.pyc",
}


def test_a_wheel_has_the_files_that_an_author_adds(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", "77", reason="needs setuptools: pip install 'setuptools>=77'")
    folder = fresh_scaffold(tmp_path, "my_game_env")
    write_files(folder, dict.fromkeys(DATA | NO_DATA, "x = 1\n"))
    site = tmp_path / "site"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    for _ in range(2):  # the second time beside what the first has built
        installed = run(*pip, "--no-compile", "--upgrade", "--target", site, folder, cwd=tmp_path)
        assert installed.returncode == 0, installed.stderr
    package = site / "my_game_env"
    found = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    code = {path for path in FILES if path.endswith(".py") and not path.startswith("tests/")}
    assert found == DATA | code | {
        "openenv.yaml",
        "README.md",
        "pyproject.toml",
        "server/Dockerfile",
        "server/requirements.txt",
        "validation/runtime.json",
    }


def test_it_passes_the_validation(openenv: Any, tmp_path: Path) -> None:
    validated = openenv("validate", fresh_scaffold(tmp_path, "my_game_env"), timeout_s=300)
    assert validated.returncode == 0, validated.stdout


def _repeat(action: Any, _observation: Any) -> Any:
    return action


def test_only_who_looks_at_the_goal_arrives(tmp_path: Path) -> None:
    """What a training is to show: an agent that chooses at random, or the same move always, seldom arrives."""
    package = EnvironmentPackage.from_folder(fresh_scaffold(tmp_path, "my_game_env"))
    action, environment = package.action_class(), package.environment_class()()

    def mean_reward(choose: Callable[[Any], Any]) -> float:
        return fmean(played(environment, choose, seed) for seed in range(100))

    random = Random(1)
    directions = ("left", "right", "up", "down")
    assert mean_reward(lambda _: action(direction=random.choice(directions))) < 0.25
    for same in directions:
        assert mean_reward(partial(_repeat, action(direction=same))) == 0
    player = package.make_player(1)
    assert player is not None
    assert mean_reward(player) == 1


def played(environment: Any, choose: Callable[[Any], Any], seed: int) -> float:
    """Play an episode to its end; return the sum of its rewards."""
    observation = environment.reset(seed=seed)
    reward = 0.0
    while not observation.done:
        observation = environment.step(choose(observation))
        reward += observation.reward
    return reward


def test_it_trains(openenv: Any, tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="needs TRL: pip install '.[train]'")
    fresh_scaffold(tmp_path, "my_game_env")
    sizes = ("--steps", 1, "--rollouts", 8, "--max-turns", 2, "--eval-episodes", 4, "--name", "run")
    trained = openenv("train", "my_game_env", *sizes, timeout_s=110)
    assert trained.returncode == 0, trained.stdout + trained.stderr
    assert (tmp_path / "runs" / "run" / "config.yaml").is_file()
