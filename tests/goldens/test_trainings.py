"""Short trainings are those that were recorded, and a prefix is the beginning of a whole run."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from tests.goldens import training
from tests.goldens.golden import check, normalised, stored
from tests.goldens.table import GOLDENS
from tests.goldens.training import CATCH, CHAT_MODEL, EXAMPLES, TWO_ENVIRONMENTS, Training, machine

ELSEWHERE = {"torch": "another"}


@pytest.mark.parametrize("run", [EXAMPLES, TWO_ENVIRONMENTS, CHAT_MODEL], ids=lambda run: run.golden)
def test_a_training_is_the_one_that_was_recorded(run: Training, tmp_path: Path) -> None:
    check(run.golden, GOLDENS[run.golden], tmp_path)


def recorded_here() -> dict[str, Any]:
    return {**stored(CATCH.golden), "machine": machine()}


def test_a_prefix_is_the_beginning_of_the_run_that_goes_to_the_end_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    small = {"environment": "catch", "steps": 4, "rollouts": 8, "group_size": 4, "eval_episodes": 2}
    run = Training(CATCH.golden, small, prefix=2)
    monkeypatch.setattr(training, "stored", lambda name: recorded_here())
    prefix = normalised(run.make(tmp_path / "prefix"))
    monkeypatch.setattr(training, "stored", lambda name: {"machine": ELSEWHERE})
    whole = normalised(run.make(tmp_path / "whole"))
    assert [row["step"] for row in prefix["metrics"]] == [1, 2]
    assert prefix["metrics"][1]["learning_rate"] == pytest.approx(0.003 * 3 / 4), "that of a run with four steps"
    final = whole.pop("final scores")
    assert prefix == whole
    assert {"before training", "after training"} <= final.keys()
    assert "after training" not in prefix["scores"]


def test_on_the_same_machine_a_last_digit_is_a_difference() -> None:
    recorded, made = recorded_here(), recorded_here()
    del made["final scores"]
    assert CATCH.differences(recorded, made) == []
    loss = recorded["metrics"][7]["loss"]
    made["metrics"][7]["loss"] = loss + 1e-15
    assert CATCH.differences(recorded, made) == [
        f"- metrics[7] / loss: {loss}",
        f"+ metrics[7] / loss: {loss + 1e-15}",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda run: run["metrics"].pop(), "steps[29]: 30"),
        (lambda run: run["metrics"][3].pop("episode/length"), ': "episode/length"'),
        (lambda run: run["tasks"][5]["tasks"][0].update(seed=1), "tasks[5] / tasks[0] / seed"),
        (lambda run: run["tasks"][5].update(episodes=127), "tasks[5] / episodes"),
        (lambda run: run["scores"].pop("scripted player"), "players / scripted player"),
        (lambda run: run["scores"]["before training"].update(mean_reward=0.5), "before training: 0.5"),
        (lambda run: run["scores"]["random player"]["rewards"].reverse(), "players / random player / rewards"),
    ],
)
def test_on_another_machine_what_holds_everywhere_is_compared(change: Any, said: str) -> None:
    recorded = recorded_here()
    made = deepcopy(recorded) | {"machine": ELSEWHERE}
    made["metrics"][7]["loss"] += 1e-3
    made["scores"]["before training"]["mean_reward"] += 0.1
    assert CATCH.differences(recorded, made) == []
    change(made)
    assert said in "\n".join(CATCH.differences(recorded, made))


@pytest.mark.parametrize(("name", "mean"), [("before training", 0.0), ("after training", 0.96)])
def test_a_run_that_was_not_solved_is_none(name: str, mean: float) -> None:
    outcome = recorded_here()
    CATCH.check_solved(outcome)
    outcome["final scores"][name]["mean_reward"] = mean
    with pytest.raises(AssertionError):
        CATCH.check_solved(outcome)
