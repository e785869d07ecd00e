"""``openenv import``: the folders that it makes, that they work as they are, and what it refuses."""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.environment_folders import write_files
from tests.support.foreign_projects import PYPROJECT, RIDDLE, SUMS, VERIFIERS, ors_project, verifiers_project
from tests.support.forked import ForkedProgram, run_forked
from typer.testing import CliRunner

from openenv import __version__
from openenv.auto.manifest import load_manifest
from openenv.cli.__main__ import app
from openenv.core import MCPToolClient, StepResult
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.exceptions import ServerError
from openenv.core.providers.venv.requirements import read_requirements
from openenv.doctor.needs import packages_of
from openenv.validation import validate_folder


def importing(source: Path, name: str, *options: str) -> Any:
    made = str(source.parent / "made")
    return CliRunner().invoke(app, ["import", str(source), "--name", name, "--output-dir", made, *options])


def imported(source: Path, name: str, *options: str) -> Path:
    ended = importing(source, name, *options)
    assert (ended.exit_code, ended.stderr) == (0, "")
    return source.parent / "made" / name


def refused(source: Path, *options: str) -> str:
    """Return why a source is refused; nothing is written then."""
    ended = importing(source, "new_env", *options)
    assert ended.exit_code == 2
    assert not (source.parent / "made").exists()
    return " ".join(re.sub("[│╭╮╰╯─]", " ", ended.stderr).split())


class Player:
    """A session with a server."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def reset(self, **task: Any) -> StepResult[Any]:
        result: StepResult[Any] = self.client.reset(**task)
        return result

    def call(self, tool: str, **arguments: Any) -> StepResult[Any]:
        result: StepResult[Any] = self.client.step(CallToolAction(tool_name=tool, arguments=arguments))
        return result

    def tools(self) -> set[str]:
        return {tool.name for tool in self.client.list_tools()}


def playing(folder: Path) -> Iterator[Player]:
    """Serve a folder as a user does, and play it."""
    words = ["-m", "openenv.cli", "serve", str(folder), "--port", "0"]
    with ForkedProgram(words, cwd=folder.parent, env=os.environ, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            found = re.fullmatch(r"Serving \S+ at (http://\S+)\n", process.stdout.readline())
            assert found is not None
            with MCPToolClient(base_url=found[1]).sync() as client:
                yield Player(client)
        finally:
            process.kill()


def served(folder: Path) -> subprocess.CompletedProcess[str]:
    """Serve a folder that can't be served, from where nothing else is found."""
    return run_forked(
        ["-m", "openenv.cli", "serve", str(folder), "--port", "0"], cwd=folder, env=os.environ, timeout=120
    )


def not_passed(folder: Path) -> Sequence[object]:
    return [check for check in validate_folder(folder).results if check.status != "pass"]


class TestOrs:
    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return imported(ors_project(tmp_path_factory.mktemp("ors")), "riddle_env")

    @pytest.fixture(scope="class")
    @classmethod
    def player(cls, folder: Path) -> Iterator[Player]:
        yield from playing(folder)

    @pytest.mark.level("files")
    def test_the_folder_is_thin_and_valid(self, folder: Path) -> None:
        assert not [file for file in folder.rglob("*") if file.is_file() and "hello" in file.read_text()]
        assert load_manifest(folder).description == "Tell the word of the task."
        requirements = (folder / "server" / "requirements.txt").read_text().splitlines()[1:]
        assert requirements == [f"openenv-core[ors]>={__version__}", "openreward>=0.1.167", "pydantic"]
        assert not_passed(folder) == []

    @pytest.mark.level("command")
    def test_tasks_tools_and_rewards_by_tool(self, player: Player) -> None:
        assert player.reset(split="train", index=1).observation.prompt == "Tell me world."
        assert player.tools() == {"answer", "break_down", "look", "tell"}
        looked = player.call("look")
        assert (looked.observation.result, looked.reward, looked.reward_components) == ("1", None, {})
        wrong, right = player.call("tell", word="hello"), player.call("tell", word="world")
        assert [(each.reward, each.done) for each in (wrong, right)] == [(0.0, False), (1.0, True)]
        assert (right.reward_components, right.reward_weights) == ({"tell": 1.0}, {"tell": 1.0})
        state = player.client.state()
        assert (state.source_type, state.split, state.index, state.step_count) == ("ors", "train", 1, 3)

    def test_seeds_and_tasks_that_are_not_listed(self, player: Player) -> None:
        prompts = [player.reset(seed=seed).observation.prompt for seed in (0, 1, 2)]
        assert prompts == ["Tell me hello.", "Tell me world.", "Tell me hello."]
        assert player.reset(task_spec={"word": "new"}).observation.prompt == "Tell me new."
        assert player.call("answer", word="any").reward_components == {"answer": 0.25}

    @pytest.mark.parametrize(
        ("task", "message"),
        [
            ({"split": "no"}, "has no split 'no'. It has: train, test"),
            ({"split": "test", "index": 1}, "Expected an index from 0 to 0 in the split test, got 1"),
        ],
    )
    def test_tasks_that_there_are_not(self, player: Player, task: dict[str, Any], message: str) -> None:
        with pytest.raises(ServerError, match=message):
            player.reset(**task)

    def test_bad_calls_and_a_reward_that_is_no_number(self, player: Player) -> None:
        player.reset(index=0)
        assert player.call("fly").observation.error.error_type == "tool_not_found"
        assert player.call("tell", speech="hello").observation.error.error_type == "invalid_args"
        with pytest.raises(ServerError, match="reward component 'break_down' raised ValueError: Expected a finite"):
            player.call("break_down")
        assert player.call("tell", word="hello").reward == 1.0


class TestVerifiers:
    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return imported(verifiers_project(tmp_path_factory.mktemp("verifiers")), "sums_env")

    @pytest.fixture(scope="class")
    @classmethod
    def player(cls, folder: Path) -> Iterator[Player]:
        yield from playing(folder)

    @pytest.mark.level("files")
    def test_the_folder_is_thin_valid_and_depends_on_the_project(self, folder: Path) -> None:
        assert not [file for file in folder.rglob("*") if file.is_file() and "brief" in file.read_text()]
        assert load_manifest(folder).description == "Sums of two numbers."
        assert '"sums" = { path = "../../sums", editable = true }' in (folder / "pyproject.toml").read_text()
        assert (folder / "server" / "requirements.txt").read_text().splitlines()[2:] == ["sums"]
        assert not_passed(folder) == []

    def test_the_doctor_names_the_project_by_its_folder(self, folder: Path) -> None:
        """By its name, pip would install what the index has, which may be of another author."""
        found = packages_of(folder, read_requirements(folder))
        assert found.detail == "sums is not installed"
        assert found.remedy.startswith(f"pip install -e {folder.parents[1] / 'sums'}  # or")

    def test_a_row_is_a_task_and_functions_are_parts_of_the_reward(self, player: Player) -> None:
        assert player.reset(split="train", index=2).observation.prompt == "3 + 3?"
        assert player.tools() == {"submit"}
        result = player.call("submit", completion="6")
        assert (result.reward, result.done) == (1.5, True)
        assert result.reward_components == {"correct": 1.0, "brief": 1.0}
        assert result.reward_weights == {"correct": 1.0, "brief": 0.5}

    def test_messages(self, player: Player) -> None:
        shown = player.reset(split="eval", index=0).observation
        assert shown.prompt == "Add.\n\n9 + 9?"
        assert shown.messages == [{"role": "system", "content": "Add."}, {"role": "user", "content": "9 + 9?"}]
        messages = [{"role": "assistant", "content": text} for text in ("Hm.", "18")]
        assert player.call("submit", messages=messages).reward == 1.25
        assert player.reset(task_spec={"question": "1 + 2?", "answer": "3"}).observation.prompt == "1 + 2?"
        assert player.call("submit", completion="3").reward == 1.5

    def test_bad_calls(self, player: Player) -> None:
        with pytest.raises(ServerError, match="has no split 'test'"):
            player.reset(split="test")
        with pytest.raises(ServerError, match="Expected a row with a prompt or a question, got one with answer"):
            player.reset(task_spec={"answer": "3"})
        player.reset(index=0)
        assert player.call("guess").observation.error.error_type == "tool_not_found"
        assert player.call("submit").observation.error.error_type == "invalid_args"
        both = player.call("submit", completion="2", messages=[{"role": "assistant", "content": "2"}])
        assert both.observation.error.error_type == "invalid_args"
        with pytest.raises(ServerError, match="raised RuntimeError: no judge"):
            player.call("submit", completion="crash")
        assert player.call("submit", completion="2").reward == 1.5


class TestWhatIsFound:
    """By reading: nothing of the sources runs, or the test would fail."""

    def test_a_package_in_src_whose_base_is_elsewhere(self, tmp_path: Path) -> None:
        base = "raise SystemExit\nimport openreward.environments as ors\nclass Base(ors.Environment): ...\n"
        files = {
            "pyproject.toml": PYPROJECT.format(name="my-games"),
            "src/games/__init__.py": "from games.maze import Maze\n",
            "src/games/base.py": base,
            "src/games/maze.py": "from games.base import Base\nclass Maze(Base): ...\n",
            "tests/test_maze.py": RIDDLE,
        }
        source = write_files(tmp_path / "my project", files)
        assert "games.base:Base (ors), games.maze:Maze (ors). Choose one with --env-class" in refused(source)
        folder = imported(source, "maze_env", "--env-class", "Maze")
        module = (folder / "server" / "maze_env_environment.py").read_text()
        assert "/ '../../my project/src'" in module
        assert "load_object('games.maze:Maze', PROJECT)" in module
        readme = (folder / "README.md").read_text()
        assert "pip wheel --no-deps --wheel-dir wheels/project '../../my project'" in readme
        assert "pip install '../../my project' -e \".[dev]\"" in readme
        assert "--requirement requirements.txt project/*.whl\n" in (folder / "server" / "Dockerfile").read_text()
        assert not_passed(folder) == []

    def test_a_folder_that_is_a_package(self, tmp_path: Path) -> None:
        text = "import verifiers\nraise SystemExit\ndef load_environment(): ...\n"
        source = write_files(tmp_path / "sums", {"__init__.py": text})
        folder = imported(source, "sums_env")
        module = (folder / "server" / "sums_env_environment.py").read_text()
        assert "/ '../..'" in module
        assert "load_object('sums:load_environment', PROJECT)" in module

    def test_both_kinds(self, tmp_path: Path) -> None:
        source = write_files(tmp_path / "both", {"riddle.py": RIDDLE, "sums.py": SUMS})
        assert "riddle:Riddle (ors), sums:load_environment (verifiers)" in refused(source)
        imported(source, "riddle_env", "--type", "ors")
        imported(source, "sums_env", "--env-class", "sums")

    @pytest.mark.parametrize(
        ("files", "options", "message"),
        [
            ({}, [], "has no environment: expected a class that extends openreward.environments.Environment or a fun"),
            ({"a.py": "class Environment: ...\nclass Mine(Environment): ...\n"}, [], "has no environment"),
            ({"a.py": "def load_environment(): ...\n"}, [], "has no environment"),
            ({"a.py": "import verifiers\nclass It:\n    def load_environment(self): ...\n"}, [], "has no environment"),
            ({"a.py": "this is no Python\n", "b.py": "\0", "c.py": f"{'-' * 100_000}1"}, [], "has no environment"),
            ({"a.py": "", "pyproject.toml": "tool = 1"}, [], "has no environment"),
            ({"a.py": RIDDLE}, ["--type", "verifiers"], "expected a function load_environment in a project that im"),
            ({"a.py": RIDDLE}, ["--env-class", "Puzzle"], "has no environment 'Puzzle', but a:Riddle (ors)."),
            ({'"""+exit()+""".py': RIDDLE}, [], "has no environment"),
            ({"my-games/__init__.py": "", "my-games/a.py": RIDDLE}, [], "'my-games.a' can't be imported as a module"),
            (
                {"a.py": "import verifiers.v1 as vf\nclass Sums(vf.Taskset[vf.Task, vf.TasksetConfig]): ...\n"},
                [],
                "Sums is a taskset of verifiers' v1 interface",
            ),
        ],
    )
    def test_what_is_no_environment(
        self, tmp_path: Path, files: dict[str, str], options: list[str], message: str
    ) -> None:
        (tmp_path / "source").mkdir()
        assert message in refused(write_files(tmp_path / "source", files), *options)

    def test_what_is_no_folder(self, tmp_path: Path) -> None:
        file = tmp_path / "riddle.py"
        assert "riddle.py is not there; expected the folder of a project" in refused(file)
        file.write_text(RIDDLE)
        assert "riddle.py is no folder" in refused(file)
        (tmp_path / "new\nline").mkdir()
        assert "can't be written into the files; rename the folder" in refused(tmp_path / "new\nline")


def test_lists_are_read_in_the_project_alone(tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("outside\n")
    source = write_files(
        tmp_path / "riddles",
        {
            "server.py": RIDDLE,
            "requirements.txt": "-r more/list.txt\n-r ../outside.txt\n-r link.txt\n-c /dev/zero\nnumpy\n",
            "more/list.txt": "scipy\n",
        },
    )
    (source / "link.txt").symlink_to("../outside.txt")
    folder = imported(source, "riddle_env")
    assert (folder / "server" / "requirements.txt").read_text().splitlines()[2:] == ["scipy", "numpy"]


def test_the_requirements_of_a_project_that_are_no_list(tmp_path: Path) -> None:
    source = write_files(
        tmp_path / "riddles", {"server.py": RIDDLE, "pyproject.toml": "[project]\nname = 'x y'\ndependencies = 5\n"}
    )
    folder = imported(source, "riddle_env")
    assert len((folder / "server" / "requirements.txt").read_text().splitlines()) == 2


class TestNames:
    @pytest.mark.parametrize("name", ["my-env", "../up", "class", "server", "json", "yaml", "1st", "", "é", "a;b"])
    def test_names_that_no_environment_may_have(self, tmp_path: Path, name: str) -> None:
        ended = importing(ors_project(tmp_path), name)
        assert ended.exit_code == 2
        assert not (tmp_path / "made").exists()

    def test_a_name_that_yaml_reads_as_something_else(self, tmp_path: Path) -> None:
        folder = imported(ors_project(tmp_path), "yes")
        assert yaml.safe_load((folder / "openenv.yaml").read_text())["name"] == "yes"

    def test_a_folder_that_is_there(self, tmp_path: Path) -> None:
        folder = imported(ors_project(tmp_path), "riddle_env")
        before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
        assert importing(tmp_path / "riddles", "riddle_env").exit_code == 2
        assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before

    def test_odd_names_of_sources(self, tmp_path: Path) -> None:
        """Quotes, dollars and brackets in names of folders and projects stay texts."""
        source = ors_project(tmp_path, """it's "a" $name {x} `y` é 🎮""")
        (source / "pyproject.toml").write_text("[project]\nname = 'x\"; y'\n")
        folder = imported(source, "riddle_env")
        assert not_passed(folder) == []
        with_project = write_files(source, {"pyproject.toml": PYPROJECT.format(name="riddles")})
        assert not_passed(imported(with_project, "other_env")) == []
        for _ in playing(folder):
            pass


def test_a_source_that_is_gone_or_lacks_something(tmp_path: Path) -> None:
    source = verifiers_project(tmp_path)
    folder = imported(source, "sums_env")
    (source / "verifiers.py").rename(source / "other.py")
    ended = served(folder)
    assert ended.returncode == 1
    assert "sums.py imports 'verifiers', which is not installed" in ended.stderr
    (source / "sums.py").unlink()
    ended = served(folder)
    assert ended.returncode == 1
    assert "The project's module sums is neither in" in ended.stderr


def test_arguments_that_the_project_does_not_take(tmp_path: Path) -> None:
    source = write_files(tmp_path / "sums", {"sums.py": SUMS.replace(", **kwargs", ""), "verifiers.py": VERIFIERS})
    folder = imported(source, "sums_env")
    module = folder / "server" / "sums_env_environment.py"
    module.write_text(module.read_text().replace("ARGUMENTS = {}", 'ARGUMENTS = {"stop": 3}'))
    ended = served(folder)
    assert ended.returncode == 1
    assert "load_environment can't be called with {'stop': 3}" in ended.stderr
