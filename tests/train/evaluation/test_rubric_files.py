"""Files that decide the rewards of an environment and nothing else."""

from pathlib import Path

import pytest
from tests.support.rated_folder import ENVIRONMENT, rated_environment

from openenv.train.evaluation.rubric_files import rubric_files

CALL = "turned.reward = self._apply_rubric(action, turned)"


def found(folder: Path) -> list[str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [str(file.relative_to(folder)) for file in rubric_files(files)]


def test_a_file_of_rubrics_is_told_from_the_rest(tmp_path: Path) -> None:
    folder = rated_environment(tmp_path)
    assert found(folder) == ["server/rewards.py"]
    (folder / "client.py").write_text("def show(result):\n    print(result.reward)\n")
    assert found(folder) == ["server/rewards.py"], "what a client shows is no part of the play"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (CALL, f"{CALL}\n            turned.done = turned.reward > 0"),
        (CALL, "turned.done = (score := self._apply_rubric(action, turned)) > 0\n            turned.reward = score"),
        (CALL, f"{CALL}\n            turned.last = str(self.rubric.last_score)"),
        ("import turn_reward", "import First, turn_reward\n    print(First.forward)"),
        ("from .rewards import turn_reward", "from .rewards import *"),
        ("from .rewards import turn_reward", "from .rewards import turn_reward as made"),
        ("from .rewards import turn_reward", "from . import rewards\n    turn_reward = rewards.turn_reward"),
        ("from .rewards import turn_reward", "from .rewards import turn_reward\n    made = turn_reward()"),
        ("class Turn(Action)", "class Turn(("),
    ],
)
def test_where_the_play_may_depend_on_it_there_is_none(tmp_path: Path, before: str, after: str) -> None:
    folder = rated_environment(tmp_path)
    file = folder / "server" / "turn_environment.py"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))
    assert found(folder) == []


@pytest.mark.parametrize("text", ["LIMIT = 3\nprint(LIMIT)\n", "class Turn:\n    pass\n"])
def test_a_file_that_has_more_than_rubrics_is_none(tmp_path: Path, text: str) -> None:
    folder = rated_environment(tmp_path)
    with (folder / "server" / "rewards.py").open("a") as file:
        file.write(text)
    assert found(folder) == []


def test_rubrics_in_the_environment_s_own_file_are_part_of_it(tmp_path: Path) -> None:
    folder = rated_environment(tmp_path)
    rewards = folder / "server" / "rewards.py"
    file = folder / "server" / "turn_environment.py"
    file.write_text(rewards.read_text() + file.read_text().replace("from .rewards import turn_reward", ""))
    rewards.unlink()
    assert "class TurnEnvironment" in ENVIRONMENT
    assert found(folder) == []
