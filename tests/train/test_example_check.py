"""What a run lacks to learn from is known before the libraries of training are loaded."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.public_folders import PUBLIC_FOLDERS

from openenv.core.exceptions import ConfigurationError
from openenv.train.example_check import check_examples_named
from openenv.train.settings.config import load_config


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"environment": "terminal", "sft": "nowhere"}, "There is no nowhere to learn from"),
        ({"environment": "gymnasium:CartPole-v1", "sft": 8}, "gymnasium:CartPole-v1 has no scripted player"),
        ({"environment": "http://localhost:9", "sft": 8}, "localhost has no scripted player"),
    ],
)
def test_examples_that_are_not_there(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        check_examples_named(load_config(**given))


@pytest.mark.parametrize("given", [{"environment": "catch"}, {"environment": "catch", "sft": 8}])
def test_examples_that_are_there_or_not_needed(given: dict[str, Any]) -> None:
    check_examples_named(load_config(**given))


@pytest.mark.level("process")
def test_a_tiny_policy_has_to_learn_calls_first(tmp_path: Path) -> None:
    folder = str(PUBLIC_FOLDERS["notes_env"](tmp_path))
    with pytest.raises(ConfigurationError, match="--sft N takes episodes of the scripted player"):
        check_examples_named(load_config(environment=folder))
    check_examples_named(load_config(environment=folder, model="Qwen/Qwen3-0.6B"))
    program = (
        "import sys\nfrom openenv.cli.__main__ import main\n"
        "try:\n    main()\nfinally:\n    assert not {'torch', 'transformers', 'trl'} & set(sys.modules)"
    )
    command = [sys.executable, "-c", program, "train", folder]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert ended.returncode == 1
    assert "Let it learn calls first: --sft N" in ended.stderr
    assert "AssertionError" not in ended.stderr
