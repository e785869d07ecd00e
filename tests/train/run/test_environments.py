"""Several environments in one run."""

import re
import shlex
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console
from tests.support.models.chat_models import save_chat_model
from tests.support.servers import RunningServer, ServerProcess
from tests.train.run.test_training import Interruption, assert_same_outcome
from transformers import AutoTokenizer
from typer.testing import CliRunner

from openenv.cli.__main__ import build_app
from openenv.core.exceptions import ConfigurationError
from openenv.records.scores import AFTER, BEFORE, RANDOM, WARMED_UP, figure_name, sampled, score_name
from openenv.train.run.environments import open_sessions, training_spec
from openenv.train.run.training import TrainResult, resume, train
from openenv.train.settings.config import TrainConfig, load_config
from openenv.train.trl.spec_tasks import SpecTasks


def quiet() -> Console:
    return Console(file=StringIO(), width=100)


def test_a_task_is_cut_to_what_reset_takes_while_the_server_is_away() -> None:
    """Else a run would end with a server that is only starting again, whose sessions go on."""
    with ServerProcess("counter_server.py", "8", "0", "60") as server:
        config = TrainConfig(environment=server.url, steps=1, rollouts=2, group_size=2)
        with open_sessions(config) as sessions:
            spec_tasks = SpecTasks(target=sessions[""])
            server.kill()
            assert spec_tasks.parameters_of({"seed": 1, "split": "train", "colour": "red"}) == {"seed": 1}


FIGURES = (RANDOM, BEFORE, sampled(BEFORE), AFTER, sampled(AFTER))


@pytest.fixture(scope="module")
def settings(stairs_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A small run's on low and on high stairs, with twice as many episodes on the high ones."""
    return {
        "environments": {
            "low": {"environment": stairs_server.url, "reset": {"height": 1}, "max_turns": 2},
            "high": {"environment": stairs_server.url, "reset": {"height": 5}, "share": 2, "fallback": "up"},
        },
        "output_dir": tmp_path_factory.mktemp("runs"),
        "steps": 6,
        "rollouts": 8,
        "group_size": 4,
        "max_turns": 6,
        "eval_episodes": 10,
        "checkpoint_every": 2,
    }


@pytest.fixture(scope="module")
def whole(settings: dict[str, Any]) -> TrainResult:
    """A run that nothing disturbed."""
    return train(TrainConfig(**settings, name="whole"), quiet())


def test_groups_are_played_by_share_each_with_its_own_resets(settings: dict[str, Any]) -> None:
    environments = {**settings["environments"]}
    environments["high"] = {**environments["high"], "curriculum": [{"steps": 2, "reset": {"height": 2}}]}
    config = TrainConfig(**settings | {"environments": environments})
    with open_sessions(config) as sessions:
        dataset = training_spec(config, sessions).train_dataset
    assert dataset["environment"] == ["high", "low", "high"] * 4
    assert dataset["height"] == [2, 1, 2, 2, 1, 5, 5, 1, 5, 5, 1, 5]
    assert len(set(dataset["seed"])) == 12


def test_metrics_tell_of_each_environment(whole: TrainResult) -> None:
    rows = whole.folder.read_metrics()
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6]
    for number, row in enumerate(rows):
        # By turns: high low, high high, low high.
        low = 0.0 if number % 3 == 1 else 0.5
        assert ("episode/low/reward" in row) == (low > 0)
        for metric in ("reward", "length", "illegal_actions", "failed"):
            parts = low * row.get(f"episode/low/{metric}", 0.0) + (1 - low) * row[f"episode/high/{metric}"]
            assert row[f"episode/{metric}"] == pytest.approx(parts)
        assert row["episode/high/length"] > 4
        assert row.get("episode/low/length", 1) <= 2
        assert row["reward"] == pytest.approx(row["episode/reward"] - 0.1 * row["episode/illegal_actions"])


def test_every_player_is_scored_in_each_environment(whole: TrainResult) -> None:
    assert whole.environment == "low+high"
    assert list(whole.scores) == [f"{name}: {player}" for player in FIGURES for name in ("low", "high")]
    for name, first in (("low", "step of 1"), ("high", "step of 5")):
        before, after = (whole.scores[score_name(player, name)] for player in (BEFORE, AFTER))
        assert {before.sample[0]["observation"], after.sample[0]["observation"]} == {first}
        assert before.sample_seed == after.sample_seed
        assert before.mean_length <= (2 if name == "low" else 6)
    page = whole.folder.report.read_text()
    for name in ("low", "high"):
        first, last = (whole.scores[score_name(player, name)].figure for player in (BEFORE, AFTER))
        assert f"in {name} {first} before and {last}" in page
        assert f"{name}: {AFTER}, greedy: reward" in page
    assert whole.folder.curve.stat().st_size > 10_000


def test_the_model_knows_the_words_of_all(whole: TrainResult) -> None:
    assert AutoTokenizer.from_pretrained(str(whole.folder.model)).tokenize("fall asleep 1 5") == ["fall asleep", *"15"]


@pytest.mark.parametrize("step", [1, 5])
def test_an_interrupted_run_ends_as_if_it_had_not_been(settings: dict[str, Any], whole: TrainResult, step: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(TrainConfig(**settings, name=f"cut{step}"), quiet(), [Interruption(step)])
    assert_same_outcome(resume(settings["output_dir"] / f"cut{step}", quiet()), whole)


def test_samplers_of_each_environment_go_on_after_an_interruption(settings: dict[str, Any]) -> None:
    environments = {name: {**own, "tasks": 5} for name, own in settings["environments"].items()}
    drawn = {**settings, "environments": environments, "steps": 4, "eval_episodes": 2}
    drawn["sampler"] = {"kind": "pools", "success_threshold": 0.25}
    whole = train(TrainConfig(**drawn, name="drawn"), quiet())
    rows = whole.folder.read_metrics()
    assert [row["sampler/high/groups"] + row["sampler/low/groups"] for row in rows] == [2, 4, 6, 8]
    with pytest.raises(KeyboardInterrupt):
        train(TrainConfig(**drawn, name="drawn and cut"), quiet(), [Interruption(3)])
    resumed = resume(drawn["output_dir"] / "drawn-and-cut", quiet())
    assert_same_outcome(resumed, whole)
    for step in (1, 2, 3, 4):
        lines = [run.folder.rollouts_at(step)[1] for run in (whole, resumed)]
        tasks = [[note["task"] for line in each for note in line["episodes"]] for each in lines]
        assert [{**task, "episode_id": None} for task in tasks[0]] == [
            {**task, "episode_id": None} for task in tasks[1]
        ]


def test_one_environment_under_two_names_draws_other_numbers_in_each(settings: dict[str, Any]) -> None:
    one = {"environment": settings["environments"]["high"]["environment"], "reset": {"height": 5}}
    twins = settings | {"environments": {"a": one, "b": one}, "steps": 1}
    (row,) = train(TrainConfig(**twins), quiet()).folder.read_metrics()
    assert row["episode/a/illegal_actions"] != row["episode/b/illegal_actions"]


def test_a_chat_model_plays_several_too(settings: dict[str, Any], tmp_path: Path) -> None:
    chat = {"model": save_chat_model(tmp_path / "model"), "max_action_tokens": 3, "steps": 3, "micro_batch": 4}
    limits = {"max_context": 600, "eval_episodes": 2, "threads": 1, "name": "chat", "checkpoint_every": 2}
    whole = train(TrainConfig(**settings | chat | limits), quiet())
    rows = whole.folder.read_metrics()
    assert ["episode/low/reward" in row for row in rows] == [True, False, True]
    with pytest.raises(KeyboardInterrupt):
        train(TrainConfig(**settings | chat | limits | {"name": "cut chat"}), quiet(), [Interruption(3)])
    assert_same_outcome(resume(settings["output_dir"] / "cut-chat", quiet()), whole)


def test_examples_are_played_in_each(settings: dict[str, Any], tmp_path: Path) -> None:
    console = quiet()
    taught = {
        **{key: settings[key] for key in ("rollouts", "group_size", "eval_episodes")},
        "environments": {"catch": {"environment": "catch"}, "short": {"environment": "catch", "max_turns": 3}},
        "output_dir": tmp_path,
        "steps": 1,
        "sft": 24,
    }
    result = train(TrainConfig(**taught), console)
    assert f"short: {WARMED_UP}" in result.scores
    assert result.scores[f"short: {WARMED_UP}"].mean_length == 3
    assert isinstance(console.file, StringIO)
    assert "warm-up on 48 episodes" in console.file.getvalue()


def test_the_tiny_policy_cannot_choose_here_and_write_there(settings: dict[str, Any], tmp_path: Path) -> None:
    mixed = {"stairs": settings["environments"]["low"], "echo": {"environment": "echo"}}
    with pytest.raises(ConfigurationError, match=r"answers with one token in stairs, .* and with several in echo; it"):
        train(TrainConfig(**settings | {"environments": mixed, "output_dir": tmp_path / "none"}), quiet())
    assert not (tmp_path / "none").exists()


CATCH = {"environment": "catch"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"environment": "catch", "environments": {"a": CATCH}}, "expected environment or environments, not both; got"),
        ({"environments": {}}, "environment is missing"),
        ({"environments": ["catch"]}, "environments: Input should be a valid dictionary"),
        ({"environments": {"a": {}}}, r"environments\.a\.environment is missing"),
        ({"environments": {"a": "catch"}}, r"environments\.a: Input should be a valid dictionary"),
        ({"environments": {"a/b": CATCH}}, "environments: expected names of letters, digits.*; got 'a/b'"),
        (
            {"environments": {"a": {**CATCH, "share": 0}}},
            r"environments\.a\.share: .*greater than or equal to 1; got 0",
        ),
        ({"environments": {"a": {**CATCH, "shar": 2}}}, r"no setting 'environments\.a\.shar'; did you .*\.a\.share'"),
        ({"environments": {"a": {**CATCH, "reset": {"seed": 1}}}}, "resets get their seeds from the run's seed"),
        ({"environments": {"a": CATCH}, "reset": {"x": 1}}, "with environments, reset belongs to each of them; move"),
        ({"environments": {"a": CATCH}, "fallback": "up"}, "with environments, fallback belongs to each of them"),
        (
            {"environments": {"a": CATCH}, "sft": "data"},
            "with environments, sft must be a number .* not data",
        ),
    ],
)
def test_faults_are_told(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load_config(**fields)


def test_the_sections_survive_the_file(settings: dict[str, Any], tmp_path: Path) -> None:
    config = load_config(**settings)
    config.save(tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml") == config
    assert config.environment == "low+high"
    parts = config.parts
    assert [(part.max_turns, part.fallback, part.reset) for part in parts.values()] == [
        (2, None, {"height": 1}),
        (6, "up", {"height": 5}),
    ]
    assert load_config(environment="catch").parts == {"": load_config(environment="catch")}


def test_the_ending_names_all_and_commands_that_go_on(settings: dict[str, Any], tmp_path: Path) -> None:
    recipe = tmp_path / "several.yaml"
    small = {"steps": 1, "eval_episodes": 4, "output_dir": str(tmp_path), "name": "told"}
    recipe.write_text(yaml.safe_dump({**settings, **small}, sort_keys=False))
    result = CliRunner().invoke(build_app(), ["train", "--config", str(recipe)])
    assert result.exit_code == 0
    for name in ("low", "high"):
        for player in map(figure_name, FIGURES):
            assert re.search(rf"{name}: {player} +[+-]\d\.\d\d\d +\d+% *\n", result.output)
    commands = [shlex.split(line) for line in result.output.partition("Next:\n")[2].splitlines()]
    assert commands[0] == ["openenv", "view", str(tmp_path / "told")]
    assert commands[1] == [
        *("openenv", "train", "--config", str(tmp_path / "told" / "config.yaml")),
        *("--name", "told-seed-2", "--seed", "2"),
    ]
    assert [command[:2] for command in commands[2:]] == [["openenv", "play"]] * 2
    again = load_config(tmp_path / "told" / "config.yaml", name="again", seed=2)
    assert list(again.environments) == ["low", "high"]
