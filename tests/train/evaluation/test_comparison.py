"""Comparison of evaluations, on results made by hand and by play."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tests.support.servers import RunningServer

from openenv.core.exceptions import ConfigurationError
from openenv.records.answers import AnswerRule
from openenv.records.evaluation import Estimate, Evaluation, TaskResult, read_evaluation
from openenv.train.evaluation.comparison import check_common, comparison, earlier_evaluation
from openenv.train.evaluation.evaluating import evaluate
from openenv.train.settings.play_settings import PlaySettings


def evaluation(rewards: Mapping[int, Sequence[float]], player: str = "a", **others: Any) -> Evaluation:
    tasks = [
        TaskResult({"seed": seed}, list(each), sum(reward >= 1 for reward in each), failed=0 if each else 2)
        for seed, each in rewards.items()
    ]
    settings: dict[str, Any] = {"environment": "catch", "samples": 2, "success_reward": 1.0, **others}
    return Evaluation(
        player=player,
        mean_reward=Estimate(0.0),
        pass_at={},
        mean_length=1.0,
        illegal_actions=0.0,
        tasks=tasks,
        **settings,
    )


def test_what_is_fixed_and_what_regressed() -> None:
    before = evaluation({1: [0, 0], 2: [1, 1], 3: [1, 0], 4: [0, 0], 5: [0.0, 0.0]})
    after = evaluation({1: [1, 1], 2: [0, 0], 3: [1, 1], 4: [0, 0], 5: [1.0, 0.0], 6: [1, 1]}, player="b")
    found = comparison(before, after)
    assert found.fixed == [{"seed": 1}, {"seed": 5}]
    assert found.regressed == [{"seed": 2}]
    assert (found.before, found.common, found.other) == ("a on catch", 5, 1)
    assert found.reward_difference is not None
    assert found.reward_difference.value == pytest.approx((1 - 1 + 0.5 + 0 + 0.5) / 5)
    assert found.chance == 1.0
    assert found.settings == {}


def test_attempts_that_failed_are_no_zeros() -> None:
    found = comparison(evaluation({1: [1, 1], 2: []}), evaluation({1: [], 2: [0, 0], 3: [1, 1]}))
    assert (found.common, found.other, found.reward_difference) == (0, 3, None)


def test_the_later_evaluation_tells_what_a_success_is() -> None:
    before, after = evaluation({1: [0.4], 2: [0.6]}), evaluation({1: [0.6], 2: [0.6]}, success_reward=0.5)
    assert comparison(before, after).fixed == [{"seed": 1}]
    assert comparison(before, replace(after, success_reward=0.7)).fixed == []


def test_settings_that_differ_are_named() -> None:
    before = evaluation({1: [1]}, temperature=0.0, rule=AnswerRule())
    after = evaluation({1: [1]}, temperature=1.0, rule=AnswerRule(lenient=True), samples=4, environment="other")
    assert {
        name: values for name, values in comparison(before, after).settings.items() if name != "illegal answers"
    } == {
        "environment": ("catch", "other"),
        "attempts": (2, 4),
        "temperature": (0.0, 1.0),
    }
    assert "illegal answers" in comparison(before, after).settings
    assert "temperature" not in comparison(replace(before, temperature=None), after).settings  # of a player


@given(st.integers(0, 40), st.integers(0, 40))
def test_the_chance_is_that_of_a_fair_coin(fixed: int, regressed: int) -> None:
    from scipy.stats import binomtest  # type: ignore[import-untyped]

    before = evaluation({seed: [0 if seed < fixed else 1] for seed in range(fixed + regressed)} | {99: [1]})
    after = evaluation({seed: [1 if seed < fixed else 0] for seed in range(fixed + regressed)} | {99: [1]})
    expected = binomtest(fixed, fixed + regressed).pvalue if fixed + regressed else 1.0
    assert comparison(before, after).chance == pytest.approx(expected)


def test_an_evaluation_without_a_common_task_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"None of the 1 tasks .* like \{'seed': 1\}, .* like \{'seed': 7\}"):
        check_common([{"seed": 7}], evaluation({1: [1]}))
    check_common([{"seed": "1"}], evaluation({1: [1]}))


def test_two_evaluations_that_were_played(stairs_server: RunningServer, tmp_path: Path) -> None:
    tasks: dict[str, Any] = {"num_tasks": 6, "samples": 2, "success_reward": 0.75, "console": Console(file=StringIO())}
    settings = PlaySettings(environment=stairs_server.url, player="random", max_turns=3)
    first = evaluate(settings, tmp_path / "first", **tasks)
    other = settings.model_copy(update={"max_turns": 1})
    for path in (tmp_path / "first", tmp_path / "first" / "results.json"):
        later = evaluate(other, tmp_path / "later", compared=earlier_evaluation(path), **tasks)
        found = later.comparison
        assert found is not None
        assert found.reward_difference is not None
        assert found == comparison(first, later)
        assert found.common == 6
        assert found.reward_difference.value == pytest.approx(later.mean_reward.value - first.mean_reward.value)
        assert len(found.regressed) > 0
        assert read_evaluation(tmp_path / "later") == (later, None)
    strange = PlaySettings(environment=stairs_server.url, player="random", max_turns=3, seed=5)
    with pytest.raises(ConfigurationError, match="with the same --seed"):
        evaluate(strange, tmp_path / "strange", compared=first, **tasks)
    assert not (tmp_path / "strange" / "episodes.jsonl").exists()


@pytest.mark.parametrize("content", [None, "", "[]", '{"tasks": 3}'])
def test_a_folder_without_results_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "results.json").write_text(content)
    with pytest.raises(ConfigurationError, match=r"results\.json"):
        earlier_evaluation(tmp_path)
