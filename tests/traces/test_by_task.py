"""Tasks of stored episodes, and pairs of episodes of one task."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.stored_episodes import entries, episode

from openenv import traces
from openenv.traces import Conversation, Filter, TraceFile


@pytest.fixture
def file(tmp_path: Path) -> Iterator[TraceFile]:
    with traces.open(tmp_path / "traces.db", create=True) as opened:
        yield opened


def add(file: TraceFile, number: int, *, begins: str = "Go.", **changes: Any) -> None:
    messages = [{"role": "user", "content": begins}, {"role": "assistant", "content": f"move {number}"}]
    file.add(episode(number, **changes), entries(), [Conversation(f"e{number}", messages=messages)])


def test_tasks_have_their_figures_and_those_with_signal_are_chosen(file: TraceFile) -> None:
    for number, (seed, reward) in enumerate([("7", 0.0), ("7", 1.0), ("8", 0.5), ("8", 0.5), (None, 1.0), ("x", None)]):
        add(file, number, seed=seed, reward=reward)
    add(file, 6, seed=None, split="train", index="3", environment="other")
    found = traces.tasks(file)
    assert [task.task for task in found] == [{"split": "train", "index": 3}, {"seed": "x"}, {"seed": 8}, {"seed": 7}]
    (task,) = traces.tasks(file, with_signal=True)
    assert (task.environment, task.task, task.episodes, task.mean_reward, task.spread) == (
        "counter",
        {"seed": 7},
        2,
        0.5,
        1,
    )
    assert traces.tasks(file, Filter(min_reward=0.5), with_signal=True) == []


def test_episodes_that_failed_are_counted_by_themselves(file: TraceFile) -> None:
    for number, (reward, error) in enumerate([(0.5, None), (0.0, "EXECUTION_ERROR"), (9.0, "TIMEOUT"), (None, None)]):
        add(file, number, seed="7", reward=reward, error=error)
    add(file, 4, seed="8", reward=1.0, error="EXECUTION_ERROR")
    failed, task = traces.tasks(file)
    assert (task.episodes, task.failed, task.mean_reward, task.spread) == (4, 2, 0.5, 0.0)
    assert (failed.episodes, failed.failed, failed.mean_reward, failed.has_signal) == (1, 1, None, False)
    assert [group.rewarded for group in file.groups("seed")] == [0, 1]
    assert traces.tasks(file, with_signal=True) == []


def test_pairs_are_the_best_and_the_worst_episode_of_a_task(file: TraceFile) -> None:
    for number, reward in enumerate([0.2, 1.0, 0.6]):
        add(file, number, seed="1", reward=reward)
    for number, reward in enumerate([0.2, 0.3], 3):
        add(file, number, seed="2", reward=reward)
    for number, reward in enumerate([0.0, 1.0], 5):
        add(file, number, seed="3", reward=reward, begins=f"Go {number}.")
    (pair,) = traces.preference_pairs(file, min_spread=0.5)
    assert pair == {
        "prompt": [{"role": "user", "content": "Go."}],
        "chosen": [{"role": "assistant", "content": "move 1"}],
        "rejected": [{"role": "assistant", "content": "move 0"}],
        "chosen_reward": 1.0,
        "rejected_reward": 0.2,
        "tools": [],
    }
    assert len(list(traces.preference_pairs(file))) == 2
    add(file, 7, seed="1", reward=9.0, episode_id="evaluation-7")
    assert next(iter(traces.preference_pairs(file, min_spread=0.5)))["chosen_reward"] == 1.0
    add(file, 8, seed="1", reward=1.0, episode_id="evaluation-8")
    (tested,) = traces.preference_pairs(file, Filter(evaluation=True))
    assert (tested["chosen_reward"], tested["rejected_reward"]) == (9.0, 1.0)
    assert list(traces.preference_pairs(file, Filter(max_reward=0.7), min_spread=0.5)) == []


def test_rewards_that_differ_by_rounding_are_no_signal(file: TraceFile) -> None:
    add(file, 0, seed="1", reward=1.0)
    add(file, 1, seed="1", reward=0.6 + 0.3 + 0.1)
    assert traces.tasks(file, with_signal=True) == []
    assert list(traces.preference_pairs(file)) == []


def test_episodes_of_one_seed_in_two_splits_are_no_pair(file: TraceFile) -> None:
    add(file, 0, seed="1", split="train", reward=0.0)
    add(file, 1, seed="1", reward=1.0)
    assert list(traces.preference_pairs(file)) == []
    assert [task.episodes for task in traces.tasks(file)] == [1, 1]


def test_a_task_without_rewards_makes_no_pair_and_a_seed_of_many_digits_is_text(file: TraceFile) -> None:
    add(file, 0, seed="9" * 5000, reward=None)
    add(file, 1, seed="9" * 5000, reward=None)
    assert list(traces.preference_pairs(file, min_spread=-1.0)) == []
    assert [task.task for task in traces.tasks(file)] == [{"seed": "9" * 5000}]


def pairs(file: TraceFile, **options: Any) -> list[tuple[str, str]]:
    found = traces.preference_pairs(file, **options)
    return [(pair["chosen"][0]["content"], pair["rejected"][0]["content"]) for pair in found]


def labelled(file: TraceFile, *labels: str | None, reward: float | None = 1.0) -> None:
    """Add episodes of one task with equal rewards and these labels."""
    for number, label in enumerate(labels):
        add(file, number, seed="1", reward=reward, label=label)


@pytest.mark.parametrize(
    ("labels", "pair"),
    [
        ((None, "good", "odd", "bad"), [("move 1", "move 3")]),
        (("bad", None), [("move 1", "move 0")]),
        ((None, "good"), [("move 1", "move 0")]),
        (("good", "good"), []),
        (("bad", "bad"), []),
        ((None, "odd"), []),
    ],
)
def test_labels_make_a_pair_of_episodes_with_equal_rewards(
    file: TraceFile, labels: tuple[str | None, ...], pair: list[tuple[str, str]]
) -> None:
    labelled(file, *labels)
    assert pairs(file) == pair


def test_of_episodes_without_rewards_those_with_labels_make_a_pair(file: TraceFile) -> None:
    labelled(file, None, "bad", None, "good", reward=None)
    assert pairs(file) == [("move 3", "move 1")]


def test_labels_count_more_than_rewards_and_whatever_the_spread_is(file: TraceFile) -> None:
    for number, (reward, label) in enumerate([(0.0, "good"), (1.0, None), (2.0, "bad")]):
        add(file, number, seed="1", reward=reward, label=label)
    assert pairs(file, min_spread=100.0) == [("move 0", "move 2")]
    for number, reward in enumerate([0.0, 1.0], 3):
        add(file, number, seed="2", reward=reward, label="good")
    assert pairs(file) == [("move 0", "move 2")]
