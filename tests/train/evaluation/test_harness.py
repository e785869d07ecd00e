"""``EnvEvalHarness`` and what goes with it, under their public names."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.servers import RunningServer

from openenv.core.evals import EnvEvalHarness, EvalConfig, EvalResult, EvalSchedule, compare_eval_results
from openenv.core.exceptions import ConfigurationError
from openenv.records.evaluation import read_evaluation


def config(server: RunningServer, **parameters: Any) -> EvalConfig:
    return EvalConfig(
        harness_name="EnvEvalHarness",
        harness_version="1",
        library_versions={},
        dataset=server.url,
        eval_parameters={"player": "random", "sessions": 4, "max_turns": 3, **parameters},
    )


def test_scores_are_those_of_the_evaluation(stairs_server: RunningServer, tmp_path: Path) -> None:
    harness = EnvEvalHarness(tmp_path)
    given = config(stairs_server, seeds=[0, 1, 2, 3], samples_per_task=2, success_threshold=0.25)
    result = harness.run_from_config(given)
    evaluation, _ = read_evaluation(tmp_path / "run-1")
    assert evaluation is not None
    scores = result.scores
    assert [task["task"] for task in scores["per_task"]] == [{"seed": seed} for seed in range(4)]
    assert [task["rewards"] for task in scores["per_task"]] == [task.rewards for task in evaluation.tasks]
    assert (scores["mean_reward"], scores["mean_turns"]) == (evaluation.mean_reward.value, evaluation.mean_length)
    assert scores["success_rate"] == pytest.approx(evaluation.pass_at[1].value)
    assert scores["success_rate_stderr"] > 0
    assert scores["pass@2"] == evaluation.pass_at[2].value
    assert (scores["error_rate"], scores["mean_completion_tokens"], scores["price_usd"]) == (0.0, None, None)
    assert scores["folder"] == str(tmp_path / "run-1")
    assert EvalResult.model_validate_json(result.model_dump_json()) == result


def test_two_results_are_compared_as_their_folders_are(stairs_server: RunningServer, tmp_path: Path) -> None:
    harness = EnvEvalHarness(tmp_path)
    low, high = (
        harness.run_from_config(config(stairs_server, limit=6, max_turns=turns, success_threshold=0.25))
        for turns in (1, 6)
    )
    compared = compare_eval_results(low, high)
    assert compared == compare_eval_results(tmp_path / "run-1", tmp_path / "run-2" / "results.json")
    assert compared.common == 6
    assert compared.reward_difference is not None
    assert compared.reward_difference.value == pytest.approx(high.scores["mean_reward"] - low.scores["mean_reward"])
    won = [task["task"] for task in high.scores["per_task"] if task["successes"]]
    missed = [task["task"] for task in low.scores["per_task"] if not task["successes"]]
    assert compared.fixed == [task for task in won if task in missed]
    other = EvalResult(config=low.config, scores={"accuracy": 1.0})
    with pytest.raises(ConfigurationError, match="with per_task in its scores"):
        compare_eval_results(low, other)


def test_a_schedule_runs_every_so_many_steps(stairs_server: RunningServer, tmp_path: Path) -> None:
    ended: list[int] = []
    schedule = EvalSchedule(
        EnvEvalHarness(tmp_path), config(stairs_server, limit=1), 2, lambda step, result: ended.append(step)
    )
    results = [schedule.maybe_run(step) for step in range(1, 5)]
    assert [result is not None for result in results] == [False, True, False, True]
    assert ended == [2, 4]
    assert {folder.name for folder in tmp_path.iterdir()} == {"run-1", "run-2"}, "a model in training is played anew"
    with pytest.raises(ConfigurationError, match="every_n_steps to be 1 or more, got 0"):
        EvalSchedule(EnvEvalHarness(tmp_path), config(stairs_server), 0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"speed": 1}, "Unknown eval_parameters: speed"), ({"split": "test", "seeds": [1]}, "either a split or seeds")],
)
def test_what_can_t_be_run_is_refused(
    stairs_server: RunningServer, tmp_path: Path, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        EnvEvalHarness(tmp_path / "e").run_from_config(config(stairs_server, **parameters))
    assert not (tmp_path / "e").exists()
