"""Statistics of attempts at tasks."""

from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.train.episodes.episode import Episode, Turn
from openenv.train.evaluation.intervals import mean_estimate
from openenv.train.evaluation.statistics import Statistics, TaskAttempt

ATTEMPTS = st.builds(
    TaskAttempt,
    reward=st.floats(0, 1),
    length=st.integers(0, 50),
    illegal_actions=st.integers(0, 5),
    components=st.dictionaries(st.sampled_from(["format", "answer"]), st.floats(0, 1)),
)


@given(tasks=st.lists(st.lists(ATTEMPTS, max_size=3), min_size=1).filter(any))
def test_a_task_counts_once_however_often_it_was_tried(tasks: list[list[TaskAttempt]]) -> None:
    found = Statistics.of(tasks)
    means = [fmean(attempt.reward for attempt in each) for each in tasks if each]
    assert found.mean_reward == mean_estimate(means, (0.0, 1.0))
    attempts = [attempt for each in tasks for attempt in each]
    assert found.mean_length == fmean(attempt.length for attempt in attempts)
    assert found.illegal_actions == fmean(attempt.illegal_actions for attempt in attempts)
    assert [each is None for each in found.tasks] == [not each for each in tasks]
    assert set(found.components) == {name for attempt in attempts for name in attempt.components}


def test_a_component_counts_where_it_was_called() -> None:
    tasks = [
        [TaskAttempt(1.0, 1, 0, {"format": 1.0}), TaskAttempt(1.0, 1, 0, {})],
        [TaskAttempt(0.0, 1, 0, {"format": 0.0})],
    ]
    assert Statistics.of(tasks).components == {"format": mean_estimate([1.0, 0.0], (0.0, 1.0))}


def test_an_episode_and_its_line_are_one_attempt() -> None:
    turns = [Turn("shown", "done", 0.5, None, {"format": 1.0}), Turn("shown", "jump", 0.25, "no")]
    attempt = TaskAttempt.of_episode(Episode(1, turns=turns))
    assert attempt == TaskAttempt(0.75, 2, 1, {"format": 1.0})
    line = {"reward": 0.75, "length": 2, "illegal_actions": 1, "reward_components": {"format": 1.0}}
    assert attempt == TaskAttempt.of_line(line)
    assert TaskAttempt.of_line({"reward": 0.0, "length": 0, "illegal_actions": 0}).components == {}


def test_without_attempts_there_is_nothing_to_compute() -> None:
    with pytest.raises(ValueError, match="expected the value of at least one task"):
        Statistics.of([[], []])
