"""``openenv validate``: what is shown, what is written, and how it ends."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.broken_environments import Broken
from tests.support.environment_folders import scaffold, with_manifest_keys, write_files
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.packages import declarations, package
from tests.support.public_folders import diary_env
from tests.support.servers import RunningServer, eventually

from openenv.cli.commands.validate import EXIT_FAIL, EXIT_INTERNAL, EXIT_PASS, EXIT_UNSUPPORTED
from openenv.core.env_server.app import create_app
from openenv.validation import Level

RUN = ("--level", "runtime")
PATIENCE_S = 300
"""Seconds in which a machine under load starts and plays an environment some times."""


def test_a_scaffold_passes(openenv: Any, tmp_path: Path) -> None:
    ended = openenv("validate", scaffold(tmp_path, "my_env"), *RUN, timeout_s=PATIENCE_S)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.rstrip().endswith("Verdict: PASS")


def test_the_working_directory_is_the_default(openenv: Any, tmp_path: Path) -> None:
    write_files(tmp_path, {"openenv.yaml": "name: my_env"})
    ended = openenv("validate")
    assert ended.returncode == 1
    assert str(tmp_path) in ended.stdout


def test_a_warning_still_passes(openenv: Any, tmp_path: Path) -> None:
    folder = write_files(scaffold(tmp_path, "my_env"), {"README.md": "# My env [not markup]\n\n- **End**: never"})
    ended = openenv("validate", folder, *RUN, timeout_s=PATIENCE_S)
    assert ended.returncode == 0
    assert "README.md has no front matter" in ended.stdout
    assert "remediation: " in ended.stdout
    assert ended.stdout.rstrip().endswith("Verdict: WARN")


def test_a_fault_fails(openenv_here: Any, tmp_path: Path) -> None:
    folder = write_files(scaffold(tmp_path, "my_env"), {"client.py": "def (", "a[b].py": "def ("})
    ended = openenv_here("validate", folder)
    assert ended.returncode == 1
    assert "client.py:1:" in ended.stdout
    assert "a[b].py:1:" in ended.stdout
    assert ended.stdout.rstrip().endswith("Verdict: FAIL")


def test_many_findings_are_cut_short_but_not_in_json(openenv: Any, tmp_path: Path) -> None:
    folder = write_files(scaffold(tmp_path, "my_env"), {f"m{number}.py": "def (" for number in range(15)})
    assert "and 5 more; --verbose lists all" in openenv("validate", folder, "--no-run").stdout
    results = json.loads(openenv("validate", folder, "--no-run", "--json").stdout)["results"]
    assert len(next(each for each in results if each["check_id"] == "static.syntax")["evidence"]) == 15


def test_the_report_goes_to_a_file_too(openenv: Any, tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    ended = openenv("validate", folder, "--no-run", "--output", tmp_path / "report.json")
    assert "Verdict: PASS" in ended.stdout
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["verdict"] == "pass"
    shown = json.loads(openenv("validate", folder, "--no-run", "--json").stdout)
    assert {key: shown[key] for key in ("target", "source_digest", "manifest")} == {
        key: report[key] for key in ("target", "source_digest", "manifest")
    }


@pytest.mark.level("process")
def test_the_statistical_level_has_its_reasons_where_no_player_is_brought_along(openenv: Any, tmp_path: Path) -> None:
    folder = with_manifest_keys(scaffold(tmp_path, "my_env"), player=None)
    options = ["--level", "statistical", "--learning-steps", "0", "--json"]
    report = json.loads(openenv("validate", folder, *options, timeout_s=PATIENCE_S).stdout)
    found = {each["check_id"]: each for each in report["results"] if each["check_id"].startswith("statistical.")}
    assert report["levels_run"] == [1, 2, 3, 4]
    assert len(found) == 8
    assert {each["status"] for each in found.values()} == {"skip"}
    assert "scripted player" in found["statistical.difficulty_separation"]["evidence"][0]
    assert found["statistical.learnability"]["evidence"] == ["--learning-steps 0 leaves the training out"]


def test_installed_environments_go_by_their_names(openenv: Any) -> None:
    assert openenv("validate", "wordle", *RUN, timeout_s=PATIENCE_S).returncode == 0


@pytest.mark.parametrize("target", [".", "no-such-environment", "./nothing"])
def test_no_environment_ends_with_2(openenv_here: Any, target: str) -> None:
    ended = openenv_here("validate", target)
    assert ended.returncode == 2
    assert "openenv.yaml" in ended.stderr or "There is no folder" in ended.stderr


def test_a_report_that_cannot_be_written_is_told(openenv_here: Any, tmp_path: Path) -> None:
    ended = openenv_here(
        "validate", scaffold(tmp_path, "my_env"), "--no-run", "--output", tmp_path / "no" / "report.json"
    )
    assert ended.returncode == 3
    assert ended.stderr.startswith("Internal error: report output directory does not exist")


def test_another_worlds_environment_is_made_and_reset(openenv: Any) -> None:
    ended = openenv("validate", "gymnasium:Blackjack-v1")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[0] == "Validation report for gymnasium:Blackjack-v1 (signature: none)"
    assert ended.stdout.rstrip().endswith("Verdict: PASS")


def test_another_worlds_unknown_environment_ends_with_2(openenv_here: Any) -> None:
    ended = openenv_here("validate", "gymnasium:Blackjock-v1")
    assert ended.returncode == 2
    assert "Did you mean Blackjack-v1" in ended.stderr


class TestPackages:
    """A folder with declarations is checked by the public policies, with their text and exit codes."""

    def shown(self, openenv_here: Any, *arguments: Any) -> tuple[int, list[str]]:
        ended = openenv_here("validate", *arguments)
        return ended.returncode, (ended.stdout + ended.stderr).splitlines()

    def test_one_that_passes(self, openenv_here: Any, tmp_path: Path) -> None:
        folder = package(tmp_path / "catch", declarations())
        assert self.shown(openenv_here, folder, "--level", "static") == (
            EXIT_PASS,
            [
                f"Validation report for {folder} (signature: openenv.yaml)",
                "  policy v1 · levels run: static",
                "  PASS  static.manifest (0.00s)",
                "Verdict: PASS",
            ],
        )

    def test_one_that_fails(self, openenv_here: Any, tmp_path: Path) -> None:
        folder = package(tmp_path / "catch", declarations(reward={"floor_margin": 0.0}))
        status, lines = self.shown(openenv_here, folder, "--skip-build")
        assert (status, lines[-1]) == (EXIT_FAIL, "Verdict: FAIL")
        at = lines.index("  FAIL  static.manifest (0.00s)")
        assert lines[at + 1] == "          declared floor_margin 0.0 is below the policy minimum 0.1"
        assert lines[at + 2].startswith("          remediation: ")
        assert "  SKIP  runtime.startup (0.00s)" in lines
        assert "          --skip-build: build-dependent runtime checks skipped" in lines

    def test_our_policy_can_be_chosen(self, openenv_here: Any, tmp_path: Path) -> None:
        folder = package(tmp_path / "catch", declarations(policy="openenv-v1", rewards={}))
        _, lines = self.shown(openenv_here, folder, "--no-run")
        assert lines[1] == "  policy openenv-v1 · levels run: static"
        assert "          `rewards` is no key of `validation` of openenv.yaml; did you mean `reward`?" in lines
        _, lines = self.shown(openenv_here, folder, "--no-run", "--policy", "v2")
        assert lines[1:] == [
            "  policy v2 · levels run: static",
            "  PASS  static.manifest (0.00s)",
            "Verdict: PASS",
        ]

    @pytest.mark.parametrize("validation", [None, declarations()])
    def test_the_evidence_lies_beside_the_report(
        self, openenv_here: Any, tmp_path: Path, validation: dict[str, Any] | None
    ) -> None:
        folder = package(tmp_path / "catch", validation)
        openenv_here("validate", folder, "--level", "static", "--output", tmp_path / "report.json")
        bundle = tmp_path / "report.artifacts"
        assert (bundle / "report.json").read_text() == (tmp_path / "report.json").read_text()
        assert "report.json" in (bundle / "SHA256SUMS").read_text()

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (("--level", "x"), "Error: unknown level 'x'; expected one of ['runtime', 'semantic', 'static', "),
            (("--policy", "v9"), "Internal error: no severity policy for version 'v9'"),
            (("--policy", "v1"), "Internal error: runtime validation requires policy v2; v1 supports --level static"),
        ],
    )
    def test_what_can_not_be_made_ends_with_3(
        self, openenv_here: Any, tmp_path: Path, options: tuple[str, str], expected: str
    ) -> None:
        status, lines = self.shown(openenv_here, package(tmp_path, declarations()), *options)
        assert (status, len(lines)) == (EXIT_INTERNAL, 1)
        assert lines[0].startswith(expected)

    def test_what_is_no_package_ends_with_2(self, openenv_here: Any, tmp_path: Path) -> None:
        (tmp_path / "task.toml").touch()
        status, lines = self.shown(openenv_here, tmp_path)
        assert (status, lines[0].startswith("Error: unrecognized package: ")) == (EXIT_UNSUPPORTED, True)
        status, lines = self.shown(openenv_here, package(tmp_path, declarations()))
        assert (status, lines[0].startswith("Error: ambiguous package: ")) == (EXIT_UNSUPPORTED, True)

    def test_a_policy_is_for_folders(self, openenv_here: Any) -> None:
        status, lines = self.shown(openenv_here, "gymnasium:Blackjack-v1", "--policy", "v2")
        assert (status, lines) == (1, ["Error: --policy v2 is for folders, and gymnasium:Blackjack-v1 is none."])


TOP = '"""The environment itself'
RESET = 'return MyObservation(echoed_message="'


class TestRunning:
    """The environment is started and reset, unless that is left out."""

    def checks(self, openenv: Any, *arguments: Any) -> dict[str, dict[str, Any]]:
        report = json.loads(openenv("validate", *arguments, *RUN, "--json", timeout_s=PATIENCE_S).stdout)
        return {result["check_id"].removeprefix("runtime."): result for result in report["results"]}

    def broken(self, tmp_path: Path, old: str, new: str) -> Path:
        folder = scaffold(tmp_path, "my_env")
        file = folder / "server" / "my_env_environment.py"
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))
        return folder

    def test_it_is_part_of_the_report(self, openenv: Any, tmp_path: Path) -> None:
        folder = scaffold(tmp_path, "my_env")
        report = json.loads(openenv("validate", folder, *RUN, "--json", timeout_s=PATIENCE_S).stdout)
        assert report["levels_run"] == [Level.STATIC, Level.RUNTIME]
        checks = ["startup", "reset", "seed_control", "tool_declaration_accuracy", "play", "episode_end"]
        checks += [
            "recorded_episodes",
            "state_contract",
            "seed_effect",
            "process_isolation",
            "episode_determinism",
            "episode_isolation",
            "endurance",
            "hostile_actions",
            "floods",
        ]
        ids = [result["check_id"] for result in report["results"]]
        assert ids[-len(checks) :] == [f"runtime.{check}" for check in checks]

    def test_it_can_be_left_out(self, openenv: Any, tmp_path: Path) -> None:
        ended = openenv("validate", "--no-run", self.broken(tmp_path, TOP, f'raise RuntimeError("run")\n{TOP}'))
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "runtime." not in ended.stdout

    def test_a_server_that_does_not_start(self, openenv: Any, tmp_path: Path) -> None:
        found = self.checks(openenv, self.broken(tmp_path, TOP, f'raise RuntimeError("run")\n{TOP}'))
        assert found["startup"]["evidence"][0].endswith("The end of its log: RuntimeError: run")
        assert "reset" not in found

    def test_a_reset_that_raises(self, openenv: Any, tmp_path: Path) -> None:
        found = self.checks(openenv, self.broken(tmp_path, RESET, '{}["a"]("'))
        assert found["startup"]["status"] == "pass"
        assert "KeyError: 'a' (" in found["reset"]["evidence"][0]
        assert "play" not in found

    def test_a_reset_that_ends_its_process(self, openenv: Any, tmp_path: Path) -> None:
        found = self.checks(openenv, self.broken(tmp_path, RESET, f"import os; os._exit(3); {RESET}"))
        assert "exited with status 3, and its sessions with it" in found["reset"]["evidence"][0]

    def test_a_seed_that_is_not_used(self, openenv: Any, tmp_path: Path) -> None:
        found = self.checks(openenv, self.broken(tmp_path, RESET, RESET[:-1] + 'str(uuid4()) + "'))
        assert found["seed_control"]["status"] == "fail"

    @pytest.mark.parametrize(
        ("root", "check", "evidence"),
        [
            ("list[int]", "startup", "Error: Expected actions that are objects in JSON, got Move."),
            ("str", "startup", "Error: Expected actions that are objects in JSON, got Move."),
            ("dict[str, int]", "tool_declaration_accuracy", "the action Move is no object with fields, so agents get"),
        ],
    )
    def test_an_action_that_is_no_object_with_fields(
        self, openenv: Any, tmp_path: Path, root: str, check: str, evidence: str
    ) -> None:
        file = tmp_path / "mine.py"
        move = f"from pydantic import RootModel\nclass Move(RootModel[{root}]): pass\n"
        file.write_text(move + FILE.replace("Environment[Action", "Environment[Move"))
        found = self.checks(openenv, f"{file}:MyEnvironment")
        assert found[check]["status"] == "fail"
        assert evidence in found[check]["evidence"][0]

    def test_a_file(self, openenv: Any, tmp_path: Path) -> None:
        file = tmp_path / "mine.py"
        file.write_text(f"{FILE}\n")
        report = json.loads(openenv("validate", f"{file}:MyEnvironment", *RUN, "--json", timeout_s=PATIENCE_S).stdout)
        assert (report["levels_run"], report["verdict"]) == ([Level.RUNTIME], "pass")
        ended = openenv("validate", "--no-run", file)
        assert ended.returncode == 2
        assert "--no-run leaves the checks of a folder" in " ".join(ended.stderr.replace("│", "").split())


FILE = """
from openenv import Action, Environment, Observation, State

class MyEnvironment(Environment[Action, Observation, State]):
    def reset(self, seed=None):
        return Observation()

    def step(self, action):
        return Observation(done=True)

    @property
    def state(self):
        return State()
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of a running server."""
    with RunningServer(create_app(CounterEnvironment, Add, Total)) as server:
        yield server.url


class TestServers:
    """A running server is checked by its routes."""

    def test_by_its_address(self, openenv_here: Any, url: str) -> None:
        ended = openenv_here("validate", url, "--timeout", "30", "-v")
        assert ended.returncode == 0, ended.stderr
        assert "✓ health_endpoint" in ended.stdout
        assert 'found    {"status_code": 200, "status": "healthy"}' in ended.stdout
        assert ended.stdout.rstrip().endswith(f"{url}, in simulation mode: passed")
        assert json.loads(openenv_here("validate", "--url", url, "--json").stdout)["passed"] is True
        bare = url.removeprefix("http://")
        assert openenv_here("validate", bare).returncode == 0
        assert json.loads(openenv_here("validate", "--url", bare, "--json").stdout)["passed"] is True

    def test_one_that_is_not_there_fails(self, openenv_here: Any) -> None:
        ended = openenv_here("validate", "--url", "http://127.0.0.1:9")
        assert ended.returncode == 1
        assert "✗ health_endpoint" in ended.stdout

    def test_settings_that_contradict_each_other(self, openenv_here: Any, url: str) -> None:
        for arguments, said in (
            ((".", "--url", url), "Cannot combine a local path argument with --url runtime validation"),
            (("http://127.0.0.1:9", "--url", url), "Conflicting runtime targets provided via argument and --url"),
            ((url, "--local"), "--local checks a folder"),
        ):
            ended = openenv_here("validate", *arguments)
            assert ended.returncode == 1
            assert said in ended.stderr


TOOL_SERVER = """
from fastmcp import FastMCP

from openenv.core.env_server import create_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Observation, State


class DoorEnvironment(MCPEnvironment):
    def __init__(self):
        server = FastMCP("door")

        @server.tool
        def knock() -> str:
            return "who is there?"

        super().__init__(server)

    def reset(self, seed=None, episode_id=None, **kwargs):
        return Observation(metadata={"status": "ready"})

    def _step_impl(self, action, timeout_s=None, **kwargs):
        return Observation()

    @property
    def state(self):
        return State()


app = create_app(DoorEnvironment, CallToolAction, CallToolObservation, env_name="door_env")
"""


@pytest.mark.level("process")  # three passes of tool calls
def test_a_reset_of_a_tool_environment_need_not_give_a_result_of_a_tool(openenv_here: Any, tmp_path: Path) -> None:
    manifest = "name: door_env\napp: door_env.server.app:app\n"
    files = {"openenv.yaml": manifest, "__init__.py": "", "server/__init__.py": "", "server/app.py": TOOL_SERVER}
    folder = write_files(tmp_path / "door_env", files)
    shown = openenv_here("validate", folder, *RUN, "--json").stdout
    found = {each["check_id"]: each for each in json.loads(shown)["results"]}
    for check in ("startup", "reset", "seed_control"):
        assert found[f"runtime.{check}"]["status"] == "pass"
    assert not [line for line in found["static.classes"]["evidence"] if "`app:" in line]  # named from the folder above


def test_the_static_level_runs_nothing(openenv_here: Any, tmp_path: Path) -> None:
    folder = write_files(scaffold(tmp_path, "my_env"), {"server/app.py": "raise SystemExit('run')\n"})
    shown = openenv_here(
        "validate", folder, "--level", "static", "--skip-build", "--policy", "v1", "--local", "--json"
    ).stdout
    assert json.loads(shown)["levels_run"] == [Level.STATIC]


def test_a_server_without_a_websocket_is_a_warning_where_it_resets_over_http(openenv: Any, tmp_path: Path) -> None:
    shown = openenv("validate", diary_env(tmp_path), *RUN, "--json", timeout_s=PATIENCE_S).stdout
    found = {each["check_id"]: each for each in json.loads(shown)["results"]}
    assert json.loads(shown)["verdict"] != "pass"
    assert "no WebSocket at /ws" in found["runtime.startup_advice"]["evidence"][0]
    assert "runtime.reset" not in found


class TestMutants:
    """``--mutants``: what it needs, what it writes, and that an interrupt leaves nothing."""

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["http://localhost:1"], "http://localhost:1 is a server"),
            (["gymnasium:Blackjack-v1"], "gymnasium:Blackjack-v1 is none"),
            ([".", "--policy", "v1"], "leave --policy out"),
            ([".", "--no-run"], "got static"),
        ],
    )
    def test_bad_input_is_refused(self, openenv_here: Any, tmp_path: Path, arguments: list[str], message: str) -> None:
        write_files(tmp_path, {"openenv.yaml": "name: my_env"})
        ended = openenv_here("validate", *arguments, "--mutants")
        assert ended.returncode != 0
        assert message in " ".join(ended.stderr.split())

    def test_no_environment_ends_with_2(self, openenv_here: Any) -> None:
        assert openenv_here("validate", "no-such-environment", "--mutants").returncode == 2

    @pytest.mark.level("process")
    def test_a_run_writes_the_report(self, openenv_here: Any, tmp_path: Path) -> None:
        folder = Broken("", "", "", []).write(tmp_path)
        ended = openenv_here("validate", folder, *RUN, "--mutants", "--max-mutants", "1", "--output", "report.json")
        assert ended.returncode == 0
        report = json.loads((tmp_path / "report.json").read_text())
        assert len(report["mutants"]) == sum(report["totals"].values()) == 1
        assert ended.stdout.rstrip().endswith(report["worth"])

    @pytest.mark.level("process")
    def test_an_interrupt_ends_all_and_leaves_nothing(self, tmp_path: Path) -> None:
        folder, temporary = Broken("", "", "", []).write(tmp_path), tmp_path / "temporary"
        temporary.mkdir()
        command = [sys.executable, "-m", "openenv.cli", "validate", str(folder), "--mutants", "--jobs", "2"]
        process = subprocess.Popen(
            command, env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stderr is not None
        process.stderr.readline()  # the first mutant has its result, and others are under way
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode != 0
        assert list(temporary.glob("openenv-*")) == []
        eventually(lambda: not _with_text(str(temporary)), "no process works in the folder", PATIENCE_S)


def _with_text(text: str) -> list[list[str]]:
    """Return the command lines that have a text."""
    lines = (process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"]))
    return [line for line in lines if any(text in word for word in line)]
