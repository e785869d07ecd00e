"""From SkyRL-Gym's id to its environment, here and in other processes."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from openenv.adapters.skyrl import ReplyAction, environment_for
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError

COUNTDOWN = "tests.support.environments.skyrl:countdown"
ROOT = Path(__file__).parents[3]


def test_another_process_registers_it_too() -> None:
    program = (
        "import pickle, sys\n"
        "env = pickle.load(sys.stdin.buffer)()\n"
        "print(env.reset(prompt='Go.', start=5).text.split('\\n')[-1], env.close())"
    )
    sent = pickle.dumps(environment_for(f"{COUNTDOWN}?step_by=2"))
    ended = subprocess.run([sys.executable, "-c", program], input=sent, capture_output=True, cwd=ROOT)
    assert ended.stdout.decode() == "5 left None\n", ended.stderr.decode()


@pytest.mark.parametrize("env_id", ["lcb", "searchcode", "text2sql"])
def test_what_a_model_writes_is_not_run_outside_of_a_sandbox(env_id: str) -> None:
    with pytest.raises(ConfigurationError, match=f"skyrl:{env_id} runs (Python|SQL).*sandbox=none"):
        environment_for(env_id)
    assert environment_for(f"{env_id}?sandbox=none").args[0] == env_id
    with pytest.raises(ConfigurationError, match="got 'docker'"):
        environment_for(f"{env_id}?sandbox=docker")


def test_an_unknown_environment_lists_close_ones() -> None:
    with pytest.raises(EnvironmentNotFoundError, match=r"'gsm8'\. Did you mean gsm8k"):
        environment_for("gsm8")
    with pytest.raises(EnvironmentNotFoundError, match="imports the module no_such_module"):
        environment_for("no_such_module:countdown")


def test_the_file_of_tasks_is_read_at_once() -> None:
    with pytest.raises(ConfigurationError, match="can't be read from"):
        environment_for("gsm8k?tasks=no-such-file.jsonl")


def test_settings_are_the_environments() -> None:
    env = environment_for(f"{COUNTDOWN}?step_by=3")()
    env.reset(prompt="Go.", start=3)
    assert env.step(ReplyAction(text="x")).done is True


@pytest.mark.parametrize("max_turns", ["many", "0", "1.5", "true"])
def test_turns_are_counted(max_turns: str) -> None:
    with pytest.raises(ConfigurationError, match="Expected max_turns of skyrl:gsm8k to be a whole number from 1"):
        environment_for(f"gsm8k?max_turns={max_turns}")
