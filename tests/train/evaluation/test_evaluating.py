"""Evaluations: what is played, what is counted, and what is written."""

import json
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from rich.console import Console
from tests.support.environments.graded import Arrival, GradedWalk, ShortWalk, Spot
from tests.support.environments.training import CRASHING_SEEDS, FAILING_RESET_SEEDS
from tests.support.models.chat_models import save_chat_model
from tests.support.models.judge_server import JudgeServer
from tests.support.models.malformed_answers import MALFORMED
from tests.support.models.model_server import Answer, ScriptedModel
from tests.support.servers import RunningServer

from openenv import traces
from openenv.adapters.targets import find_adapted
from openenv.agents import ParticipantUsage
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import ConfigurationError, OpenEnvError
from openenv.core.rubrics import Rubric, WeightedSum
from openenv.records.collection import Collection
from openenv.records.episodes import EpisodeFolder
from openenv.records.evaluation import read_evaluation
from openenv.train.dataset.collecting import collect
from openenv.train.evaluation.evaluating import Evaluation, evaluate
from openenv.train.evaluation.intervals import mean_estimate, share_estimate
from openenv.train.evaluation.pass_at_k import pass_at_k
from openenv.train.run.training import train
from openenv.train.settings.config import TrainConfig, load_config
from openenv.train.settings.play_settings import PlaySettings
from openenv.train.tasks.seeds import evaluation_seeds, training_seeds


def run(settings: PlaySettings, output: Path, **others: Any) -> Evaluation:
    return evaluate(settings, output, console=Console(file=StringIO()), **{"sessions": 6, **others})


def random_player(server: RunningServer, **settings: Any) -> PlaySettings:
    return PlaySettings(environment=server.url, player="random", **{"max_turns": 3, **settings})


def test_it_counts_what_was_played(stairs_server: RunningServer, tmp_path: Path) -> None:
    evaluation = run(
        random_player(stairs_server), tmp_path / "e", num_tasks=8, samples=5, ks=[1, 2, 5], success_reward=0.75
    )
    lines = sorted(Collection(tmp_path / "e").read(), key=lambda line: int(line["index"]))
    assert [line["task"]["seed"] for line in lines[::5]] == evaluation_seeds(1, 8)
    rewards = [[line["reward"] for line in lines[start : start + 5]] for start in range(0, 40, 5)]
    assert [task.rewards for task in evaluation.tasks] == rewards
    assert len({tuple(each) for each in rewards}) > 1
    wins = [sum(reward >= 0.75 for reward in each) for each in rewards]
    assert 0 < sum(wins) < 40
    assert [task.successes for task in evaluation.tasks] == wins
    assert evaluation.mean_reward == mean_estimate([fmean(each) for each in rewards])
    for k, attempts in ((1, 40), (2, 16), (5, 8)):
        assert evaluation.pass_at[k] == share_estimate([pass_at_k(5, won, k) for won in wins], attempts)
    assert evaluation.mean_length == fmean(line["length"] for line in lines)
    assert (evaluation.episodes, evaluation.failed) == (40, 0)


def test_episodes_that_a_limit_ends_count_under_it(stairs_server: RunningServer, tmp_path: Path) -> None:
    evaluation = run(random_player(stairs_server, max_turns=9, max_answers=2), tmp_path / "e", num_tasks=8)
    lines = Collection(tmp_path / "e").read()
    ended = [line for line in lines if not line["done"]]
    assert ended, "some stairs are higher"
    assert {(line["cut_by"], line["length"]) for line in ended} == {("max_answers", 2)}
    assert (evaluation.limits, evaluation.episodes, evaluation.failed) == ({"max_answers": len(ended)}, 8, 0)
    with pytest.raises(ConfigurationError, match="were played with max_answers 2, not 3"):
        run(random_player(stairs_server, max_turns=9, max_answers=3), tmp_path / "e", num_tasks=8)


def test_a_game_by_two_models_has_what_each_used_apart(tmp_path: Path) -> None:
    """The opponent fails in the second game, which counts for nothing but what it cost."""
    agent = ScriptedModel(lambda messages: str(sum(message["role"] == "assistant" for message in messages)))
    opponent = JudgeServer(["8", "7", "8", 500])
    server = RunningServer(find_adapted(f"pettingzoo:classic/tictactoe-v3?opponents=other@{opponent.server.url}").app())
    prices = tmp_path / "prices.yaml"
    prices.write_text("models: {other: {input: 1.0, output: 2.0}}")
    with agent.server, opponent.server, server:
        settings = PlaySettings(environment=server.url, model="climber", llm_endpoint=agent.url, form="text")
        evaluation = run(settings, tmp_path / "e", num_tasks=2, sessions=1)
        priced = run(settings.model_copy(update={"prices": prices}), tmp_path / "e", num_tasks=2, sessions=1)
        collected = collect(settings, 1, tmp_path / "c", console=Console(file=StringIO()), sessions=1)
    assert (evaluation.episodes, evaluation.failed, evaluation.mean_reward.value) == (1, 1, 1.0)
    assert evaluation.failures == {"participant": 1}
    (line,), (left_out,) = Collection(tmp_path / "e").read(), Collection(tmp_path / "e").read_left_out()
    usage = {"replies": 2, "input_tokens": 20, "output_tokens": 10, "cost_usd": None, "model": "other"}
    assert line["participants"] == {"player_2": usage}
    assert left_out["participants"] == {"player_2": {**usage, "replies": 1, "input_tokens": 10, "output_tokens": 5}}
    assert evaluation.participants == {"player_2": ParticipantUsage(3, 30, 15, None, "other")}
    assert evaluation.spending is not None
    assert evaluation.spending.input_tokens == line["input_tokens"] + left_out["input_tokens"] != 30
    assert priced.participants["player_2"].cost_usd == pytest.approx(6e-5)
    assert read_evaluation(tmp_path / "e")[0] == priced
    assert (collected.kept, collected.failed, collected.participant_failed) == (0, 0, 1)


def test_attempts_at_a_task_differ_and_come_again(stairs_server: RunningServer, tmp_path: Path) -> None:
    one = run(random_player(stairs_server), tmp_path / "one", num_tasks=3, samples=4)
    assert any(len(set(task.rewards)) > 1 for task in one.tasks)
    other = run(random_player(stairs_server), tmp_path / "other", num_tasks=3, samples=4, sessions=2)
    assert one == other


def test_a_cut_off_evaluation_goes_on(stairs_server: RunningServer, tmp_path: Path) -> None:
    whole = run(random_player(stairs_server), tmp_path / "whole", num_tasks=4, samples=3)
    lines = (tmp_path / "whole" / "episodes.jsonl").read_bytes()
    cut = Collection.open(tmp_path / "cut", json.loads((tmp_path / "whole" / "settings.json").read_text()))
    cut.episodes.write_bytes(lines[: len(lines) // 2])
    assert run(random_player(stairs_server), tmp_path / "cut", num_tasks=4, samples=3) == whole
    assert cut.episodes.read_bytes() == lines
    stricter = run(random_player(stairs_server), tmp_path / "cut", num_tasks=2, samples=3, success_reward=99)
    assert stricter.pass_at[1].value == 0
    assert stricter.tasks[0].rewards == whole.tasks[0].rewards
    assert cut.episodes.read_bytes() == lines, "another threshold needs no new episodes"
    with pytest.raises(ConfigurationError, match="were played with samples 3, not 2"):
        run(random_player(stairs_server), tmp_path / "cut", num_tasks=4, samples=2)


def test_tasks_that_have_changed_are_not_credited_with_old_episodes(
    stairs_server: RunningServer, tmp_path: Path
) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"seed": 0}\n{"seed": 1}\n')
    settings = random_player(stairs_server, tasks=str(file))
    run(settings, tmp_path / "e", samples=2)
    file.write_text('{"seed": 0}\n{"seed": 3}\n')
    with pytest.raises(ConfigurationError, match=r"Episode 2 .* was played with the task {'seed': 1}"):
        run(settings, tmp_path / "e", samples=2)


def test_results_are_json(stairs_server: RunningServer, tmp_path: Path) -> None:
    evaluation = run(random_player(stairs_server), tmp_path / "e", num_tasks=3, samples=2)
    written = json.loads((tmp_path / "e" / "results.json").read_text())
    assert written["mean_reward"]["value"] == evaluation.mean_reward.value
    assert written["pass_at"]["2"]["low"] == evaluation.pass_at[2].low
    assert [task["rewards"] for task in written["tasks"]] == [task.rewards for task in evaluation.tasks]
    assert all(0 <= reward <= 1 for task in evaluation.tasks for reward in task.rewards)
    estimates = [asdict(mean_estimate(task.rewards, (0.0, 1.0))) for task in evaluation.tasks]
    assert [task["mean_reward"] for task in written["tasks"]] == estimates
    assert (written["player"], written["samples"], written["episodes"], written["failed"]) == ("random player", 2, 6, 0)


def tasks_file(folder: Path, *seeds: int) -> str:
    file = folder / "tasks.jsonl"
    file.write_text("".join(f'{{"seed": {seed}}}\n' for seed in seeds))
    return str(file)


def test_where_the_environment_failed_nothing_is_counted(stairs_server: RunningServer, tmp_path: Path) -> None:
    tasks = tasks_file(tmp_path, 0, CRASHING_SEEDS + 3, 1, 2)
    settings = random_player(stairs_server, tasks=tasks, max_turns=40)
    evaluation = run(settings, tmp_path / "e", samples=2, sessions=8)
    assert [len(task.rewards) for task in evaluation.tasks] == [2, 0, 2, 2]
    assert [task.failed for task in evaluation.tasks] == [0, 2, 0, 0]
    counted = [task.mean for task in evaluation.tasks if task.rewards]
    assert evaluation.mean_reward == mean_estimate(counted)
    assert (evaluation.episodes, evaluation.failed) == (6, 2)


def test_one_task_has_no_interval(stairs_server: RunningServer, tmp_path: Path) -> None:
    tasks = tasks_file(tmp_path, 0, 1)
    evaluation = run(random_player(stairs_server, tasks=tasks), tmp_path / "e", num_tasks=1, samples=4)
    assert evaluation.mean_reward.low is None
    assert [task.task for task in evaluation.tasks] == [{"seed": 0}]


def wake(messages: Any) -> Answer:
    """Climb, but give up on what has four steps."""
    return "I give up." if "of 4" in str(messages[0]["content"]) else ("climb", {"move": "up"})


def test_a_model_behind_an_address(stairs_server: RunningServer, tmp_path: Path) -> None:
    model = ScriptedModel(wake)
    settings = PlaySettings(
        environment=stairs_server.url,
        model="climber",
        llm_endpoint=model.url,
        tasks=tasks_file(tmp_path, 0, 3, 1, FAILING_RESET_SEEDS),
    )
    with model.server:
        evaluation = run(settings, tmp_path / "e", samples=2, success_reward=0.25)
    assert [task.rewards for task in evaluation.tasks] == [[0.25, 0.25], [0, 0], [0.75, 0.75], []]
    assert evaluation.pass_at[1].value == pytest.approx(2 / 3)
    assert (evaluation.player, evaluation.failed) == ("climber", 2)
    failing = settings.model_copy(update={"tasks": tasks_file(tmp_path, FAILING_RESET_SEEDS)})
    model = ScriptedModel(wake)
    with model.server, pytest.raises(OpenEnvError, match=r"No episode came to an end\. The environment failed: "):
        run(failing.model_copy(update={"llm_endpoint": model.url}), tmp_path / "f")


def test_a_models_server_that_fails_counts_for_nothing(stairs_server: RunningServer, tmp_path: Path) -> None:
    """Beside an environment that does: both are counted by their kind, and none is a reward of 0."""
    model = ScriptedModel(lambda messages: MALFORMED["HTML"] if "of 4" in str(messages) else ("climb", {"move": "up"}))
    tasks = tasks_file(tmp_path, 0, 3, 1, CRASHING_SEEDS + 2)
    settings = PlaySettings(environment=stairs_server.url, model="climber", llm_endpoint=model.url, tasks=tasks)
    with model.server:
        evaluation = run(settings, tmp_path / "e")
        collected = collect(settings, 4, tmp_path / "c", console=Console(file=StringIO()))
    assert [task.rewards for task in evaluation.tasks] == [[0.25], [], [0.75], []]
    assert evaluation.mean_reward.value == 0.5
    assert evaluation.failures == {"model_answer": 1, "environment": 1}
    assert read_evaluation(tmp_path / "e")[0] == evaluation
    assert (collected.kept, collected.failed, collected.model_failed, collected.below) == (2, 1, 1, 0)
    assert collected.failures == evaluation.failures
    left_out = collected.collection.read_left_out()
    assert not [line for line in left_out if "reward" in line], "what was reached before a failure is no reward"
    summary = EpisodeFolder(tmp_path / "e").summary()
    assert (summary["failures"], summary["left_out"]) == ({"model_answer": 1, "environment": 1}, 2)
    reasons = [line["reason"] for line in left_out]
    assert [reason for reason in reasons if reason.startswith("the model failed: climber at http://127.0.0.1:")]


def test_a_trained_model(stairs_server: RunningServer, tmp_path: Path) -> None:
    """A run's folder, with its own settings; and what has not been trained to its end."""
    config = TrainConfig(
        environment=stairs_server.url,
        output_dir=tmp_path,
        name="run",
        steps=1,
        rollouts=4,
        group_size=2,
        eval_episodes=2,
        max_turns=2,
        reset={"height": 4},
    )
    folder = train(config, Console(file=StringIO())).folder
    own = PlaySettings(environment=stairs_server.url, model=str(folder.path), form="text")
    run(own, tmp_path / "own", num_tasks=6)
    lines = Collection(tmp_path / "own").read()
    assert [line["task"] for line in lines] == [{"height": 4, "seed": seed} for seed in evaluation_seeds(1, 6)]
    assert {line["length"] for line in lines} == {2}, "as long as in the training, whose stairs are higher"
    with traces.open(tmp_path / "own" / "traces.db") as file:
        said = [conversation for record in file.records() for conversation in record.conversations]
    assert [(each.model_version, len(each.messages)) for each in said] == [("step 1", 5)] * 6
    assert {len(each.completion_ids) - len(each.logprobs) for each in said} == {0}
    assert [each.output_tokens for each in said] == [sum(each.env_mask) for each in said]
    assert all(each.prompt_ids and each.sampling["temperature"] == 1.0 for each in said)
    bound = json.loads((tmp_path / "own" / "settings.json").read_text())
    assert (bound["max_turns"], bound["reset"]) == (2, {"height": 4})
    settings = own.model_copy(update={"max_turns": 5, "reset": {"height": 3}})
    evaluation = run(settings, tmp_path / "e", num_tasks=5, samples=3)
    assert evaluation == run(settings, tmp_path / "again", num_tasks=5, samples=3), "the same seed samples the same"
    assert 0 < evaluation.mean_length <= 5
    line = Collection(tmp_path / "e").read()[0]
    assert line["messages"][0]["content"].startswith("step of 3")
    with pytest.raises(ConfigurationError, match="does not know tools"):
        run(settings.model_copy(update={"form": "tools"}), tmp_path / "f")
    folder.model.rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="has not ended, so there is no model in it yet"):
        run(settings, tmp_path / "f")


def test_a_run_of_several_environments_lends_the_settings_of_the_one(tmp_path: Path) -> None:
    several = {"a": {"environment": "catch", "max_turns": 3, "reset": {"x": 1}}, "b": {"environment": "wordle"}}
    load_config(environments=several, max_turns=7).save(tmp_path / "config.yaml")
    played = [
        PlaySettings(environment=name, model=str(tmp_path), form="text").with_defaults()
        for name in ("catch", "wordle", "sudoku")
    ]
    assert [(each.max_turns, each.reset) for each in played] == [(3, {"x": 1}), (7, {}), (7, {})]
    behind = PlaySettings(
        environment="catch", model=str(tmp_path), llm_endpoint="http://localhost:1/v1"
    ).with_defaults()
    assert (behind.max_turns, behind.reset) == (32, {}), "a name at an address is no folder"


def test_a_model_in_a_folder(stairs_server: RunningServer, tmp_path: Path) -> None:
    settings = PlaySettings(
        environment=stairs_server.url,
        model=save_chat_model(tmp_path / "model"),
        form="text",
        max_turns=2,
        max_tokens=3,
        temperature=0,
    )
    evaluation = run(settings, tmp_path / "e", num_tasks=4)
    assert evaluation.episodes == 4
    with pytest.raises(ConfigurationError, match=r"There is no model .*none"):
        run(settings.model_copy(update={"model": str(tmp_path / "none")}), tmp_path / "f")


def test_what_cannot_be_measured_is_told(stairs_server: RunningServer, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="pass@3 needs 3 samples of each task, and there are 2"):
        run(random_player(stairs_server), tmp_path / "e", samples=2, ks=[1, 3])
    tasks = tasks_file(tmp_path, 0, 1)
    with pytest.raises(ConfigurationError, match=r"Expected 3 tasks in .*; there are 2"):
        run(random_player(stairs_server, tasks=tasks), tmp_path / "e", num_tasks=3)
    assert not (tmp_path / "e").exists()


def test_no_evaluation_has_a_task_that_was_trained_on() -> None:
    assert set(evaluation_seeds(1, 1000)).isdisjoint(training_seeds(1, 1000))


class ThriceArrived(GradedWalk):
    """Rewards the arrival by three weights, whose sum is 0.9999999999999999."""

    @staticmethod
    def make_rubric() -> Rubric:
        return WeightedSum([Arrival(), Arrival(), Arrival()], [0.6, 0.3, 0.1])


def test_rounding_fails_no_attempt_and_an_interval_stays_within_the_rewards(tmp_path: Path) -> None:
    app = create_fastapi_app(ThriceArrived, ShortWalk, Spot, max_concurrent_envs=8)
    with RunningServer(app) as server:
        evaluation = run(random_player(server, max_turns=3), tmp_path / "e", num_tasks=8, samples=3)
    rewards = {reward for task in evaluation.tasks for reward in task.rewards}
    assert rewards <= {0.0, 0.6 + 0.3 + 0.1}
    assert evaluation.pass_at[1].value == pytest.approx(evaluation.mean_reward.value)
    assert evaluation.pass_at[1].value > 0.5
    written = json.loads((tmp_path / "e" / "results.json").read_text())
    components = list(written["reward_components"].values())
    estimates = [written["mean_reward"], *(task["mean_reward"] for task in written["tasks"]), *components]
    assert len(estimates) == 12
    for estimate in estimates:
        assert 0 <= estimate["low"] <= estimate["value"] <= estimate["high"] <= 1


def test_components_have_means_and_intervals(tmp_path: Path) -> None:
    app = create_fastapi_app(GradedWalk, ShortWalk, Spot, max_concurrent_envs=8)
    with RunningServer(app) as server:
        evaluation = run(random_player(server, max_turns=2), tmp_path / "e", num_tasks=3, samples=2)
    lines = sorted(Collection(tmp_path / "e").read(), key=lambda line: int(line["index"]))
    totals = [line["reward_components"]["stride"] for line in lines]
    means = [fmean(totals[start : start + 2]) for start in (0, 2, 4)]
    assert list(evaluation.reward_components) == ["stride", "arrival"]
    assert evaluation.reward_components["stride"] == mean_estimate(means)
    written = json.loads((tmp_path / "e" / "results.json").read_text())
    assert written["reward_components"]["stride"]["low"] == evaluation.reward_components["stride"].low
