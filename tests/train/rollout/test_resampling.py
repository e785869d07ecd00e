"""Groups without variance: other tasks instead of them, and what these cost."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from openenv.train.rollout.resampling import play_resampled
from openenv.train.settings.config import TrainConfig

ROWS = [{"prompt": f"task {number}"} for number in range(6)]


class Player:
    """Gives the rewards of each task, and notes what was played."""

    def __init__(self, rewards: dict[str, list[float | None]]) -> None:
        self._rewards = rewards
        self.played: list[str] = []

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, list[Any]]:
        self.played += prompts[::2]
        rewards = [self._rewards.get(prompt, [0.0, 1.0])[number % 2] for number, prompt in enumerate(prompts)]
        return {"training_reward": rewards, "text": list(prompts), "env_mask": [[1, 0, 1]] * len(prompts)}


def resampled(player: Player, step: int = 0, **settings: Any) -> dict[str, list[Any]]:
    config = TrainConfig(environment="catch", steps=3, rollouts=4, group_size=2, **settings)
    trainer: Any = SimpleNamespace(state=SimpleNamespace(global_step=step))
    prompts = [row["prompt"] for row in ROWS[2 * step : 2 * step + 2] for _ in range(2)]
    return play_resampled(player, prompts, trainer, config, ROWS, [""] * len(ROWS))


def test_a_flat_group_gives_way_to_one_of_another_step() -> None:
    player = Player({"task 0": [1.0, 1.0]})
    fields = resampled(player, resample=1)
    assert player.played[:2] == ["task 0", "task 1"]
    (other,) = player.played[2:]
    assert other in ("task 2", "task 3", "task 4", "task 5")
    assert fields["text"] == [other, other, "task 1", "task 1"]
    assert fields["training_reward"] == [0.0, 1.0, 0.0, 1.0]
    assert (fields["resampled_episodes"], fields["resampled_tokens"]) == ([1, 1, 0, 0], [2, 2, 0, 0])


def test_groups_that_stay_flat_stay_and_every_round_is_counted() -> None:
    player = Player({f"task {number}": [0.0, None] for number in range(6)})
    fields = resampled(player, resample=2)
    assert len(player.played) == 6
    assert len(set(player.played)) == 6, "no task is drawn twice"
    assert fields["text"] == ["task 0", "task 0", "task 1", "task 1"]
    assert fields["resampled_episodes"] == [2, 2, 2, 2]


def test_nothing_more_is_played_without_a_flat_group_or_without_another_task() -> None:
    player = Player({})
    assert resampled(player, resample=3)["resampled_episodes"] == [0, 0, 0, 0]
    assert player.played == ["task 0", "task 1"]
    player = Player({"task 0": [0.0, 0.0]})
    curriculum = [{"steps": 1, "reset": {"level": 1}}]
    assert resampled(player, resample=3, curriculum=curriculum)["resampled_episodes"] == [0, 0, 0, 0]
    assert player.played == ["task 0", "task 1"], "tasks of another stage are other ones"


def test_the_same_step_draws_the_same_tasks() -> None:
    flat: dict[str, list[float | None]] = {"task 2": [0.0, 0.0], "task 3": [1.0, 1.0]}
    one, other = Player(flat), Player(flat)
    assert resampled(one, step=1, resample=2) == resampled(other, step=1, resample=2)
    assert one.played == other.played
