"""Scripts written for an older TRL find what they import."""

import subprocess
import sys

IMPORT = "from trl.experimental.openenv import generate_rollout_completions as found"


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)


def test_the_name_is_there_after_the_import_and_only_then() -> None:
    assert "No module named 'trl.experimental.openenv'" in run(IMPORT).stderr
    program = (
        f"import openenv.train.compat\n{IMPORT}\n"
        "from openenv.train.generation import generate_rollout_completions\n"
        "import trl.experimental.openenv as module\n"
        "assert found is generate_rollout_completions is module.generate_rollout_completions\n"
    )
    ended = run(program)
    assert ended.returncode == 0, ended.stderr


def test_a_trl_that_has_it_keeps_its_own() -> None:
    program = (
        "import sys, types, trl.experimental\n"
        "module = types.ModuleType('trl.experimental.openenv')\n"
        "module.generate_rollout_completions = 'its own'\n"
        "sys.modules[module.__name__] = module\n"
        f"import openenv.train.compat\n{IMPORT}\n"
        "assert found == 'its own'\n"
    )
    ended = run(program)
    assert ended.returncode == 0, ended.stderr
