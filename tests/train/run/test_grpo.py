"""GRPO through TRL's trainer."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from tests.support.dataset_folders import dataset_folder
from tests.support.environments.training import Climb, Stairs, StairsEnvironment
from tests.support.models.chat_models import save_chat_model
from tests.support.servers import RunningServer
from transformers import TrainerCallback

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import ConfigurationError, ParticipantFailedError
from openenv.records.run_folder import RunFolder
from openenv.train.agents.policy import Policy, make_policy
from openenv.train.dataset.rollout_traces import RunRecorder
from openenv.train.episodes.spending import participants_in, spending_in
from openenv.train.quiet import quiet_libraries
from openenv.train.rollout.sessions import Sessions
from openenv.train.run.environments import OpenRun
from openenv.train.run.grpo import episode_reward, make_trainer
from openenv.train.settings.config import TrainConfig
from openenv.train.tasks.seeds import training_seeds


class Watched(Sessions):
    """Notes the seeds of every batch."""

    batches: list[list[int]]

    def try_reset(self, tasks: Any) -> Any:
        self.batches.append([task["seed"] for task in tasks])
        return super().try_reset(tasks)


@pytest.fixture
def watched(stairs_server: RunningServer) -> Any:
    with Watched.open(stairs_server.url, 8) as sessions:
        sessions.batches = []
        yield sessions


def train(
    sessions: Sessions, folder: Path, callbacks: list[TrainerCallback] | None = None, **settings: Any
) -> tuple[Policy, RunFolder]:
    """Train for a few steps; return the policy and the run's folder."""
    defaults = {"environment": "stairs", "rollouts": 8, "group_size": 4, "steps": 4, "max_turns": 5, "fallback": "up"}
    config = TrainConfig(**{**defaults, "output_dir": folder, **settings})
    with quiet_libraries():
        policy = make_policy(config, sessions)
        run = config.make_folder("stairs")
        opened = OpenRun(config, run, None, {"": sessions}, RunRecorder(config, run), Console(quiet=True))
        make_trainer(opened, {"": policy}, callbacks or []).train()
    return policy, run


def weights(policy: Policy) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in policy.model.parameters()])


def gradients(run: RunFolder) -> torch.Tensor:
    """A run's first gradient, scaled: what Adam's first moment is after one step.

    The weights would not do: Adam's first step is as long for a gradient of 1e-9 as for one of 1, so that the last bit
    of a sum decides where some weights go.
    """
    checkpoint = run.last_checkpoint()
    assert checkpoint is not None
    moments = torch.load(checkpoint / "optimizer.pt", weights_only=True)["state"]
    return torch.cat([moments[index]["exp_avg"].flatten() for index in sorted(moments)])


def test_every_step_plays_fresh_groups_that_share_a_seed(watched: Watched, tmp_path: Path) -> None:
    train(watched, tmp_path, steps=5)
    played = watched.batches[-5:]
    assert all(sorted(Counter(batch).values()) == [4, 4] for batch in played)
    assert all(batch[:4] == [batch[0]] * 4 for batch in played), "the trainer takes neighbours for a group"
    assert len({seed for batch in played for seed in batch}) == 10


def test_metrics_tell_each_step(watched: Watched, tmp_path: Path) -> None:
    _, run = train(watched, tmp_path, learning_rate=1e-3)
    rows = run.read_metrics()
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert [row["learning_rate"] for row in rows] == pytest.approx([1e-3, 7.5e-4, 5e-4, 2.5e-4])
    for row in rows:
        assert row["reward"] == pytest.approx(row["episode/reward"] - 0.1 * row["episode/illegal_actions"])
        assert 1 <= row["episode/length"] <= 5
        assert row["episode/failed"] == 0
        assert row["episode/worst_reward"] <= row["episode/reward"] <= row["episode/best_reward"]
        assert row["episode/flat_groups"] in (0, 0.5, 1), "the share of two groups"
        assert sum(row.get("episode/illegal_texts", {}).values()) <= 8 * row["episode/illegal_actions"]
    assert any(row.get("episode/illegal_texts") for row in rows)


class Accompanied(StairsEnvironment):
    """Stairs with a user, whose model fails with one seed of the training."""

    def _seen(self) -> Stairs:
        seen = super()._seen()
        used = {"replies": self._steps, "input_tokens": 10 * self._steps, "output_tokens": self._steps, "model": "user"}
        seen.metadata = {"participants": {"user": used}}
        if self._steps and self._seed == training_seeds(1, 2)[1]:
            raise ParticipantFailedError("user", "it wrote nothing", used)
        return seen


def test_a_step_has_what_its_episodes_cost_and_what_participants_used(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("models: {user: {input: 1, output: 2}}\nsandbox_hour: 3600\ncpu_hour: 3600\n")
    app = create_fastapi_app(Accompanied, Climb, Stairs, max_concurrent_envs=8, measure_cpu=True)
    with RunningServer(app) as server, Sessions.open(server.url, 8) as sessions:
        _, run = train(sessions, tmp_path, steps=1, prices=prices)
    (row,) = run.read_metrics()
    replies = row["participants/user/replies"]
    assert (row["participants/user/failed"], row["episode/failures/participant"]) == (4, 4)
    assert replies > 4
    assert row["participants/user/input_tokens"] == 10 * replies
    assert row["participants/user/cost_usd"] == pytest.approx(12e-6 * replies)
    assert row["cost/episodes"] == 8
    assert 0 < row["cost/cpu_s"] < row["cost/seconds"]
    assert row["cost/price_usd"] == pytest.approx(row["cost/cpu_s"] + row["cost/seconds"])
    assert row["cost/output_tokens"] > 0
    assert (spending_in([row]), participants_in([row])["user"][1]) != (None, 0)


def test_a_run_is_repeatable_and_its_seed_matters(watched: Watched, tmp_path: Path) -> None:
    one, same, other = (weights(train(watched, tmp_path, seed=seed)[0]) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_small_batches_add_up_to_the_same_step(watched: Watched, tmp_path: Path) -> None:
    whole, in_parts = (train(watched, tmp_path, steps=1, micro_batch=size) for size in (None, 2))
    assert [row["episode/reward"] for row in whole[1].read_metrics()] == [
        row["episode/reward"] for row in in_parts[1].read_metrics()
    ]
    torch.testing.assert_close(gradients(whole[1]), gradients(in_parts[1]), rtol=1e-4, atol=1e-6)
    assert not torch.equal(weights(whole[0]), weights(make_policy(TrainConfig(environment="stairs"), watched)))


def test_the_reward_rises(watched: Watched, tmp_path: Path) -> None:
    _, run = train(watched, tmp_path, steps=40, learning_rate=1e-2, fallback="wait", max_turns=4)
    rewards = [row["episode/reward"] for row in run.read_metrics()]
    assert sum(rewards[-10:]) / 10 > sum(rewards[:10]) / 10 + 0.3


def test_checkpoints_come_when_due_and_the_oldest_go(watched: Watched, tmp_path: Path) -> None:
    _, run = train(watched, tmp_path, steps=5, checkpoint_every=2)
    assert sorted(path.name for path in run.checkpoints.glob("checkpoint-*")) == ["checkpoint-4", "checkpoint-5"]
    assert run.last_checkpoint() == run.checkpoints / "checkpoint-5"


def test_failed_episodes_teach_nothing() -> None:
    logged: dict[str, float] = {}
    rewards = episode_reward(
        training_reward=[0.5, None, -0.3, None],
        episode_reward=[1.0, 7.0, 0.0, 0.0],
        episode_length=[3, 1, 2, 0],
        illegal_actions=[5, 0, 3, 0],
        log_metric=logged.__setitem__,
        prompts=["1"] * 4,
    )
    assert rewards == [0.5, None, -0.3, None]
    assert logged["episode/failed"] == 0.5
    assert (logged["episode/reward"], logged["episode/length"]) == (0.5, 2.5)
    assert (logged["episode/best_reward"], logged["episode/worst_reward"]) == (1.0, 0.0)


def test_a_step_in_which_every_episode_failed_has_no_means() -> None:
    logged: dict[str, float] = {}
    rewards = episode_reward([None, None], [0.0, 0.0], [1, 1], [0, 0], logged.__setitem__, prompts=["1", "1"])
    assert (rewards, logged) == ([None, None], {"episode/failed": 1.0})


def test_groups_without_variance_are_counted_and_so_are_limits() -> None:
    logged: dict[str, float] = {}
    episode_reward(
        training_reward=[0.5, 0.5, 1.0, 0.0, None, 1.0],
        episode_reward=[0.5, 0.5, 1.0, 0.0, 7.0, 1.0],
        episode_length=[1] * 6,
        illegal_actions=[0] * 6,
        log_metric=logged.__setitem__,
        prompts=["1", "1", "2", "2", "3", "3"],
        environment_name=["a", "a", "b", "b", "a", "a"],
        cut_by=["max_turns", "", "", "max_context", "", "max_turns"],
        cut_answers=[0, 0, 0, 2, 0, 1],
    )
    assert logged["episode/flat_groups"] == pytest.approx(3 / 5), "of those that count"
    assert (logged["episode/a/flat_groups"], logged["episode/b/flat_groups"]) == (1, 0)
    assert logged["episode/cut_by_max_turns"] == pytest.approx(2 / 5)
    assert (logged["episode/a/cut_by_max_context"], logged["episode/b/cut_by_max_context"]) == (0, 0.5)
    assert (logged["episode/b/cut_answers"], logged["episode/b/best_reward"]) == (1, 1.0)


def test_a_chat_model_is_trained_the_same_way(stairs_server: RunningServer, tmp_path: Path) -> None:
    with Sessions.open(stairs_server.url, 4) as sessions:
        policy, run = train(
            sessions,
            tmp_path,
            model=save_chat_model(tmp_path / "model"),
            rollouts=4,
            group_size=2,
            micro_batch=2,
            steps=2,
            max_action_tokens=3,
            learning_rate=1e-3,
            threads=1,
        )
    assert [row["step"] for row in run.read_metrics()] == [1, 2]
    assert policy.model.training


def test_tasks_are_rows_of_a_dataset(watched: Watched, tmp_path: Path) -> None:
    rows = {"train": [{"seed": 4}, {"seed": 1}], "test": [{"seed": 9}]}
    words = dataset_folder(tmp_path / "words", rows=rows)
    _, run = train(watched, tmp_path, tasks=f"{words}?split=train", steps=1)
    (step,) = run.rollouts.read_text().splitlines()
    assert {episode["task"]["seed"] for episode in json.loads(step)["episodes"]} == {4, 1}


def test_a_tracker_whose_callback_misses_its_package_is_told(watched: Watched, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="report_to comet_ml: "):
        train(watched, tmp_path, report_to=["comet_ml"])


def test_components_have_means_of_their_own() -> None:
    logged: dict[str, float] = {}
    fields = {"training_reward": [1.0] * 3, "episode_reward": [1.0] * 3, "episode_length": [1] * 3}
    episode_reward(
        **fields,  # type: ignore[arg-type]
        illegal_actions=[0] * 3,
        log_metric=logged.__setitem__,
        environment_name=["a", "a", "b"],
        reward_components=[{"format": 1.0}, {"format": 0.0, "answer": 0.5}, {}],
    )
    named = {name: value for name, value in logged.items() if "components" in name}
    assert named == {
        "episode/reward_components/format": 0.5,
        "episode/reward_components/answer": 0.5,
        "episode/a/reward_components/format": 0.5,
        "episode/a/reward_components/answer": 0.5,
    }


def test_groups_without_variance_are_played_anew_and_their_cost_is_counted(watched: Watched, tmp_path: Path) -> None:
    _, run = train(watched, tmp_path, steps=3, max_turns=1, fallback="wait", resample=2, illegal_penalty=0.0)
    rows = run.read_metrics()
    episodes = sum(row["episode/resampled_episodes"] for row in rows)
    assert episodes > 0
    assert sum(map(len, watched.batches[-8:])) >= episodes
    assert all(row["episode/resampled_tokens"] == row["episode/resampled_episodes"] for row in rows), "a token each"
    played = [len(line["episodes"]) for step in (1, 2, 3) for line in run.rollouts_at(step)[1]]
    assert sum(played) == 3 * 8 + episodes


def test_a_sampler_chooses_the_tasks_of_each_step_and_is_in_the_metrics(watched: Watched, tmp_path: Path) -> None:
    _, run = train(watched, tmp_path, tasks=3, sampler={"kind": "uniform"})
    rows = run.read_metrics()
    assert [(row["sampler/groups"], row["sampler/episodes"]) for row in rows] == [(2, 8), (4, 16), (6, 24), (8, 32)]
    assert rows[-1]["sampler/cost"] == 8 * sum(row["episode/length"] for row in rows), "a token each"
    lines = [line for step in (1, 2, 3, 4) for line in run.rollouts_at(step)[1]]
    groups = [[note["task"]["seed"] for note in line["episodes"]] for line in lines]
    assert all(seeds[:4] == seeds[:1] * 4 and seeds[4:] == seeds[4:5] * 4 for seeds in groups)
    assert all(seeds[0] != seeds[4] for seeds in groups), "there are other tasks"
    assert {seed for seeds in groups for seed in seeds} <= set(training_seeds(1, 3))


def test_other_tasks_for_groups_without_variance_are_the_sampler_s(watched: Watched, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"steps": 3, "max_turns": 1, "fallback": "wait", "resample": 2, "illegal_penalty": 0.0}
    _, run = train(watched, tmp_path, tasks=3, sampler={"kind": "sequential"}, **settings)
    rows = run.read_metrics()
    assert rows[-1]["sampler/episodes"] == 3 * 8 + sum(row["episode/resampled_episodes"] for row in rows) > 3 * 8


def test_without_resampling_nothing_is_counted(watched: Watched, tmp_path: Path) -> None:
    _, run = train(watched, tmp_path, steps=1)
    assert not [name for name in run.read_metrics()[0] if "resampled" in name or "no_calls" in name]
