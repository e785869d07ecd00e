"""Names that nothing has are refused at once."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.models.chat_models import save_chat_model
from tests.support.servers import RunningServer

from openenv.core.exceptions import ConfigurationError, OpenEnvError
from openenv.train.settings.config import TrainConfig, load_config
from openenv.train.settings.names import check_model, check_names, check_run

MISTAKES = [
    ("train", "catchh"),
    ("train", "catch", "--model", "tinny"),
    ("train", "catch", "--model", "./no-such-folder"),
    ("train", "catch", "--tasks", "none.jsonl"),
    ("train", "catch", "--tasks", "train"),
    ("train", "--config", "recipe.yaml"),
    ("train", "--resume", "nowhere"),
    ("eval", "catchh", "--model", "run"),
    ("eval", "catch", "--model", "./no-such-folder"),
]
PROGRAM = """
import sys
from typer.testing import CliRunner
from openenv.cli.__main__ import build_app
for line in sys.argv[1:]:
    ended = CliRunner().invoke(build_app(), line.split())
    assert ended.exit_code == (2 if "catchh" in line else 1), (line, ended.output)
    print(ended.output.strip().removeprefix("Error: "))
print([name for name in ("torch", "transformers", "trl", "datasets") if name in sys.modules])
"""


def test_they_are_refused_before_torch_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("environment: catch\nsteppes: 3\n")
    (tmp_path / "run" / "model").mkdir(parents=True)
    load_config(environment="catch").save(tmp_path / "run" / "config.yaml")
    command = [sys.executable, "-c", PROGRAM, *map(" ".join, MISTAKES)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    *messages, loaded = ended.stdout.splitlines()
    assert loaded == "[]"
    expected = (
        "No environment is called 'catchh'. Did you mean catch?",
        "There is no model 'tinny'. Expected 'tiny'",
        "There is no model './no-such-folder'",
        "The tasks can't be read from",
        "The environment lists no tasks",
        "there is no setting 'steppes'; did you mean 'steps'?",
        "nowhere is no run's folder",
        "No environment is called 'catchh'. Did you mean catch?",
        "There is no folder ./no-such-folder, and it is no id of a model on the Hub",
    )
    for message, beginning in zip(messages, expected, strict=True):
        assert message.startswith(beginning)


def test_models_that_may_be_there_are_let_through(tmp_path: Path) -> None:
    check_model("tiny")
    check_model(save_chat_model(tmp_path / "chat"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match=r"got .*empty: no config\.json"):
        check_model(str(tmp_path / "empty"))
    with pytest.raises(ConfigurationError, match="There is no model 'a model/of mine'"):
        check_model("a model/of mine")


def test_a_server_is_asked_for_its_schema_alone(stairs_server: RunningServer, tmp_path: Path) -> None:
    """Its sessions are all free for the run."""
    check_names(TrainConfig(environment=stairs_server.url))
    with pytest.raises(OpenEnvError, match="Connection refused"):
        check_names(TrainConfig(environment="http://127.0.0.1:1"))
    TrainConfig(environment="no_such_environment").save(tmp_path / "config.yaml")
    with pytest.raises(OpenEnvError, match="No environment is called 'no_such_environment'"):
        check_run(tmp_path)
