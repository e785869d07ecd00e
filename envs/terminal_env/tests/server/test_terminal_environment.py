import copy
import json
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from openenv.core.exceptions import (
    ConfigurationError,
    IllegalActionError,
    InvalidRequestError,
    ResetNeededError,
    SandboxError,
    TaskNotFoundError,
)
from terminal_env import ReadFileAction, RunAction, SubmitAction, TerminalObservation, WriteFileAction
from terminal_env.models import DIFFICULTIES, FAMILIES, Difficulty, Family
from terminal_env.server.boxes import READY
from terminal_env.server.terminal_environment import TerminalEnvironment

pytestmark = pytest.mark.needs("sandbox")

Make = Callable[[str], TerminalEnvironment]
CHECKS = [
    {"type": "file", "name": "a", "path": "a.txt", "text": "1"},
    {"type": "file", "name": "b", "path": "b.txt", "text": "2"},
    {"type": "file", "name": "kept", "path": "kept.txt", "text": "3", "required": True},
]
TASK: dict[str, Any] = {"prompt": "Write a.txt and b.txt.", "files": {"kept.txt": "3"}, "checks": CHECKS}


def run(environment: TerminalEnvironment, command: str) -> TerminalObservation:
    return environment.step(RunAction(command=command))


def test_the_reward_is_the_share_of_checks_and_nothing_where_what_must_stay_does_not(environment_with: Make) -> None:
    environment = environment_with(json.dumps([TASK]))
    for command, reward, checks in (
        ("true", 0.0, {"a": False, "b": False}),
        ("echo 1 > a.txt", 0.5, {"a": True, "b": False}),
        ("echo 1 > a.txt; echo 2 > b.txt", 1.0, {"a": True, "b": True}),
        ("echo 1 > a.txt; echo 2 > b.txt; rm kept.txt", 0.0, {"a": True, "b": True, "kept": False}),
    ):
        environment.reset()
        assert run(environment, command).reward is None
        last = environment.step(SubmitAction())
        assert (last.reward, last.checks, last.done) == (reward, checks, True)
        assert last.text.endswith(f"The episode is over. Reward: {reward:.2f}.")
        assert environment.render() == last.text
        with pytest.raises(ResetNeededError):
            run(environment, "true")


def test_the_last_step_ends_the_episode_with_the_checks(environment_with: Make) -> None:
    environment = environment_with(json.dumps([TASK]))
    environment.reset(max_steps=2)
    assert run(environment, "pwd").text == "/work\nSteps left: 1."
    last = environment.step(WriteFileAction(path="a.txt", text="1"))
    assert (last.done, last.reward, last.steps_left) == (True, 0.5, 0)
    assert last.output == "1 characters written to a.txt"


def test_what_commands_write_is_told(environment: TerminalEnvironment) -> None:
    environment.reset(seed=1)
    seen = run(environment, "echo out; echo err >&2; exit 3")
    assert (seen.output, seen.error, seen.exit_code, seen.truncated) == ("out\n", "err\n", 3, False)
    assert seen.text == "out\nerr\n(exit code 3)"
    assert run(environment, "true").text == "(no output)"
    flood = run(environment, "yes | head -c 1000000")
    assert flood.truncated
    assert len(flood.output) < 40_000
    assert flood.text.endswith("(There was more, which is left out.)")


def test_files_are_read_and_written_without_following_links(environment: TerminalEnvironment) -> None:
    environment.reset(seed=1)
    run(environment, "ln -s /etc/passwd link; ln -s / out")
    for path in ("link", "out/etc/passwd", "../etc/passwd", "/etc/passwd", "missing"):
        seen = environment.step(ReadFileAction(path=path))
        assert (seen.output, seen.exit_code, seen.done) == ("", None, False)
        assert seen.error.startswith(f"The file {path!r} in the sandbox can't be used")
    assert environment.step(WriteFileAction(path="link", text="x")).error
    run(environment, "head -c 100000 /dev/zero | tr '\\0' a > long")
    seen = environment.step(ReadFileAction(path="long"))
    assert (len(seen.output), seen.truncated) == (65536, True)


def test_a_nul_is_refused_and_not_counted(environment: TerminalEnvironment) -> None:
    environment.reset(seed=1)
    before = environment.state.model_copy()
    for action in (RunAction(command="echo \0"), ReadFileAction(path="\0"), WriteFileAction(path="a\0", text="")):
        with pytest.raises(IllegalActionError, match="without the character NUL"):
            environment.step(action)
    assert environment.state == before
    assert environment.step(WriteFileAction(path="a", text="\0")).error == ""


def test_a_task_comes_back_where_the_sandbox_was_replaced(environment_with: Make) -> None:
    environment = environment_with(json.dumps([TASK]))
    environment.reset()
    run(environment, "echo 1 > a.txt")
    seen = run(environment, "for i in $(seq 20000); do : > f$i; done")
    assert "All files are as they were at the start." in seen.error
    assert run(environment, "ls").output == "kept.txt\n"


def test_a_setup_may_run_commands_and_is_said_to_fail(environment_with: Make) -> None:
    environment = environment_with(json.dumps([TASK | {"setup": "mkdir deep && cp kept.txt deep/"}]))
    environment.reset()
    assert run(environment, "cat deep/kept.txt").output == "3"
    failing = environment_with(json.dumps([TASK | {"setup": "echo no >&2; exit 5"}]))
    with pytest.raises(ConfigurationError, match="setup failed with exit code 5: no"):
        failing.reset()
    outside = environment_with(json.dumps([TASK | {"files": {"../a": ""}}]))
    with pytest.raises(ConfigurationError, match="files can't be made"):
        outside.reset()


def test_what_reset_refuses_leaves_the_episode(environment: TerminalEnvironment) -> None:
    environment.reset(seed=2)
    run(environment, "echo mine > mine.txt")
    before = environment.state.model_copy()
    with pytest.raises(InvalidRequestError):
        environment.reset(seed="x")  # type: ignore[arg-type]
    for refused in ({"split": "none"}, {"index": -1}):
        with pytest.raises(TaskNotFoundError):
            environment.reset(**refused)
    assert environment.state == before
    assert run(environment, "cat mine.txt").output == "mine\n"


def test_a_reset_leaves_nothing_of_the_last_episode(environment: TerminalEnvironment) -> None:
    environment.reset(seed=1)
    run(environment, "touch left; export LEFT=1; cd /tmp; touch left; sleep 1000 &")
    environment.reset(seed=1)
    assert run(environment, "pwd; ls /work/left /tmp; echo $LEFT").output == "/work\n/tmp:\n\n"


def sandboxes() -> int:
    return [process.name() for process in psutil.Process().children()].count("bwrap")


def test_closed_environments_leave_no_processes() -> None:
    before = sandboxes()  # which may be those of other environments
    for seed in range(12):
        environment = TerminalEnvironment()
        environment.reset(seed=seed, family="tables")
        run(environment, "echo started; sleep 1000 &")
        environment.reset(seed=seed, family="tables")
        environment.close()
        environment.close()
    # Those that the pool keeps ready, and one that it may be starting.
    assert sandboxes() <= before + READY + 1


def test_the_same_commands_give_the_same(environment: TerminalEnvironment) -> None:
    seen = []
    for _ in range(2):
        first = environment.reset(seed=5, family="repository", difficulty="medium")
        steps = [run(environment, "cd project; git log --format='%H %s'"), run(environment, "git status; ls -R")]
        seen.append([one.model_dump() for one in (first, *steps)])
    assert seen[0] == seen[1]


def test_neither_state_nor_tasks_tell_the_checks(environment: TerminalEnvironment) -> None:
    for family in ("script", "config"):
        first = environment.reset(seed=6, family=family)
        told = repr(environment.state) + repr(environment.get_task("train", 6)) + repr(first)
        assert "checks={}" in told
        assert "other.csv" not in told
    assert environment.num_tasks("test") == 10_000


def test_it_can_not_be_copied_but_played_again(environment: TerminalEnvironment) -> None:
    with pytest.raises(TypeError, match="make another one that goes on alike"):
        copy.deepcopy(environment)


def test_a_snapshot_goes_on_alike_and_apart(environment: TerminalEnvironment) -> None:
    environment.reset(seed=7, family="files", difficulty="easy", max_steps=9)
    run(
        environment,
        "mkdir -p 'a b'; cd 'a b'; export TWO=$'1\n2'; ln -s x link; echo 1 > f; chmod 640 f; mv ../inbox .",
    )
    snapshot = json.loads(json.dumps(environment.snapshot()))
    other = TerminalEnvironment()
    try:
        other.restore(snapshot)
        assert (other.state, other.render()) == (environment.state, environment.render())
        looking = 'pwd; echo "$TWO"; stat -c "%n %a %F %Y" * ; ls -aR /work'
        assert run(other, looking) == run(environment, looking)
        run(other, "mv inbox ..; rm -rf ../inbox/archive; touch mine")
        assert "mine" not in run(environment, "ls").output
        assert (other.state.steps_left, environment.state.steps_left) == (6, 6)
        assert other.step(SubmitAction()).checks.keys() == environment.step(SubmitAction()).checks.keys()
        other.restore(json.loads(json.dumps(environment.snapshot())))
        with pytest.raises(ResetNeededError):
            run(other, "ls")
    finally:
        other.close()


def test_what_is_too_much_for_a_snapshot_is_said(environment: TerminalEnvironment) -> None:
    environment.reset(seed=7)
    run(environment, "head -c 25000000 /dev/zero > large")
    with pytest.raises(SandboxError):
        environment.snapshot()
    run(environment, "rm large")
    assert run(environment, "echo fine").output == "fine\n"


def test_an_unknown_kind_of_sandbox_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="expected one of 'auto', 'bubblewrap', 'none'"):
        TerminalEnvironment(sandbox="jail")  # type: ignore[arg-type]


EMPTIED: dict[str, Any] = {
    "prompt": "Move in/a.txt to out and empty the folder in.",
    "files": {"in/a.txt": "1", "in/b.txt": "2"},
    "checks": [
        {"type": "folder", "name": "moved", "path": "out", "files": {"a.txt": "1"}},
        {"type": "folder", "name": "emptied", "path": "in", "files": {}},
    ],
}


def test_an_empty_folder_counts_only_where_all_else_is_right(environment_with: Make) -> None:
    environment = environment_with(json.dumps([EMPTIED]))
    for command, reward in (
        ("rm -rf in", 0.0),
        ("mkdir out; mv in/a.txt out", 0.5),
        ("mkdir out; mv in/a.txt out; rm in/b.txt", 1.0),
    ):
        environment.reset()
        run(environment, command)
        assert environment.step(SubmitAction()).reward == reward


DESTRUCTION = (
    "rm -rf -- * .[!.]*",
    "find . -type f -delete",
    "find . -type f -exec truncate -s 0 {} +",
    r"find . -type f -exec sh -c 'echo {} > \"$1\"' _ {} \;",
    "mkdir /tmp/away; mv * /tmp/away",
)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_destruction_earns_nothing(environment: TerminalEnvironment, family: Family, difficulty: Difficulty) -> None:
    for index, command in enumerate(DESTRUCTION):
        environment.reset(index=index, family=family, difficulty=difficulty)
        run(environment, command)
        last = environment.step(SubmitAction())
        assert last.reward == 0.0, (command, last.checks)
