import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs("sandbox")

COMMAND = [sys.executable, "-m", "code_feedback_env.server.app", "--port", "0"]


def why_it_ended(**variables: str) -> str:
    done = subprocess.run(COMMAND, env=os.environ | variables, capture_output=True, encoding="utf-8", timeout=100)
    assert done.returncode != 0
    return done.stderr


def test_it_refuses_to_start_without_a_sandbox(tmp_path: Path) -> None:
    assert "apt-get install bubblewrap" in why_it_ended(PATH=str(tmp_path))


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"CODE_FEEDBACK_SANDBOX": "jail"}, "CODE_FEEDBACK_SANDBOX is 'jail'; expected 'auto', 'bubblewrap' or 'none'"),
        ({"CODE_FEEDBACK_TASKS": "missing.jsonl"}, "The tasks can't be read from"),
    ],
)
def test_it_refuses_to_start_with_wrong_variables(variables: dict[str, str], message: str) -> None:
    assert message in why_it_ended(**variables)
