"""One object for all that TRL's trainer takes: its slots, filled, and the trainer run."""

import copy
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset  # type: ignore[import-untyped]
from tests.support.environments.tasked import ListingEnvironment
from tests.support.models.bigram_models import bigram_model
from tests.support.servers import RunningServer, eventually
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError
from openenv.train.agents.tiny_tools import build_tool_tokenizer
from openenv.train.trl.env_spec import EnvSpec, EnvSpecs

# Of transformers, for what TRL uses.
pytestmark = pytest.mark.filterwarnings(r"ignore:`(is_)?gradient_checkpointing\w*` is deprecated:FutureWarning")

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def spec(stairs_server: RunningServer) -> Iterator[EnvSpec]:
    with EnvSpec(stairs_server.url, num_tasks=4, system_prompt="You climb.", instructions="Go.") as made:
        yield made


# --- The dataset -----------------------------------------------------------------------------------------------------


def test_the_dataset_needs_no_server() -> None:
    spec = EnvSpec(NOWHERE, num_tasks=3, system_prompt="You climb.", instructions="Go.")

    dataset = spec.train_dataset

    assert dataset.column_names == ["prompt", "seed"]
    assert dataset["seed"] == [row["seed"] for row in spec.rows]
    system, user = dataset[2]["prompt"]
    assert (system["role"], system["content"]) == ("system", "You climb.")
    assert user == {"role": "user", "content": "Go.\n\n", "task": 2}


def test_a_prompt_finds_its_task_wherever_it_went() -> None:
    tasks = [{"level": number, "map": {"rows": [number]}} for number in range(5)]
    spec = EnvSpec(NOWHERE, tasks=tasks, reset={"difficulty": "hard"}, instructions="")

    for row in spec.train_dataset.shuffle(seed=1).select(range(3)):
        prompt = copy.deepcopy(row["prompt"])
        assert spec.task_of(prompt) == {**tasks[row["level"]], "difficulty": "hard"}


@pytest.mark.parametrize("prompt", ["text", [], [{"role": "user", "content": "?"}], [{"task": 9}], [{"task": None}]])
def test_another_prompt_has_no_task(prompt: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"Expected a prompt of the train_dataset.*tasks=dataset"):
        EnvSpec(NOWHERE, num_tasks=3).task_of(prompt)


def test_a_dataset_of_ones_own_keeps_its_prompts() -> None:
    conversation = [{"role": "system", "content": "Climb."}, {"role": "user", "content": "Up?"}]
    rows = [{"prompt": conversation, "level": 1, "image": "x"}, {"prompt": conversation[:1], "level": 2, "image": "y"}]
    spec = EnvSpec(NOWHERE, tasks=Dataset.from_list(rows), instructions="Go.")
    prompts = spec.train_dataset["prompt"]
    assert [message["content"] for message in prompts[0]] == ["Climb.", "Go.\n\nUp?\n\n"]
    assert [message["content"] for message in prompts[1]] == ["Go.\n\nClimb.\n\n"]
    assert [spec.task_of(prompt) for prompt in prompts] == [{"level": 1}, {"level": 2}]

    spec = EnvSpec(NOWHERE, tasks=Dataset.from_dict({"prompt": ["Up?", ""], "level": [1, 2]}), system_prompt="Climb.")
    prompts = spec.train_dataset["prompt"]
    assert [message["content"] for message in prompts[0]] == ["Climb.", "Up?\n\n"]
    assert [message["content"] for message in prompts[1]] == ["Climb.", ""]

    spec = EnvSpec(NOWHERE, tasks=Dataset.from_dict({"level": [1, 2]}), instructions="")
    assert [prompt[0]["content"] for prompt in spec.train_dataset["prompt"]] == ["", ""]
    with pytest.raises(ConfigurationError, match="Expected each prompt as a text, or as a list of messages; got 7"):
        _ = EnvSpec(NOWHERE, tasks=Dataset.from_dict({"prompt": [7]})).train_dataset


def test_values_that_make_no_column_are_left_to_the_task() -> None:
    tasks = [{"goal": 1, "prompt": "a", "level": 1}, {"goal": "two", "prompt": "b", "level": 2}]

    spec = EnvSpec(NOWHERE, tasks=tasks, instructions="")

    assert spec.train_dataset.column_names == ["prompt", "level"]
    assert spec.task_of(spec.train_dataset[1]["prompt"]) == tasks[1]


def test_a_split_of_the_environment_is_played() -> None:
    with RunningServer(create_fastapi_app(ListingEnvironment)) as server, EnvSpec(server.url, tasks="train") as spec:
        assert spec.train_dataset["index"] == [0, 1, 2]
        game = spec.environment_factory()

        assert game.reset(**spec.train_dataset[2]) == "total 3"


# --- Targets and life ------------------------------------------------------------------------------------------------


def test_an_installed_environment_is_served_when_it_is_needed_and_ends() -> None:
    with EnvSpec("catch", num_tasks=2) as spec:
        assert spec.name == "catch"
        assert spec.client.base_url is None  # nothing has been started
        game: Any = spec.environment_factory()
        game.reset(seed=1)
        game.catch(move="stay")
        assert game.last_result.observation.row == 1  # an object of the environment's own class
        provider: Any = spec.client.async_client._provider
        assert provider.pid is not None

    assert provider.pid is None


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("wordle", "wordle"),
        ("wordle-env", "wordle"),
        (Path(__file__).parents[3] / "envs" / "catch_env" / "server" / "..", "catch"),
        ("./some/my_env", "my_env"),
        (Path("/envs/chess"), "chess"),
        ("http://host:8000/game", "host"),
        ("docker:echo-env:latest", "echo-env:latest"),
        ("gymnasium:CartPole-v1", "gymnasium:CartPole-v1"),
    ],
)
def test_a_spec_is_named_after_its_target(target: str | Path, name: str) -> None:
    assert EnvSpec(target).name == name


def test_an_unknown_environment_is_one_when_it_is_needed() -> None:
    spec = EnvSpec("no such environment")

    with pytest.raises(EnvironmentNotFoundError):
        spec.environment_factory()


@pytest.mark.parametrize("setting", ["max_turns", "sessions"])
def test_limits_are_at_least_one(setting: str) -> None:
    given: dict[str, Any] = {setting: 0}

    with pytest.raises(ConfigurationError, match=f"{setting} to be 1 or more, got 0"):
        EnvSpec("catch", **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"system_promt": "You climb."},
            "EnvSpec has no option 'system_promt'; did you mean 'system_prompt'? What every reset is passed goes into "
            "reset={'system_promt': 'You climb.'}.",
        ),
        (
            {"difficulty": "hard", "level": 2},
            "EnvSpec has no option 'difficulty'. What every reset is passed goes into "
            "reset={'difficulty': 'hard', 'level': 2}.",
        ),
    ],
)
def test_an_option_that_does_not_exist_is_an_error(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        EnvSpec(NOWHERE, **given)
    assert str(caught.value) == message


def test_a_closed_spec_says_so(stairs_server: RunningServer) -> None:
    spec = EnvSpec(stairs_server.url, instructions="")
    spec.close()
    spec.close()

    with pytest.raises(ConfigurationError, match="was closed"):
        spec.environment_factory()
    assert len(spec.train_dataset) == 1000


def test_sessions_of_a_spec_that_nobody_holds_end(stairs_server: RunningServer) -> None:
    spec = EnvSpec(stairs_server.url)
    game = spec.environment_factory()
    game.reset(seed=1)
    vector = spec.client.vector(3)
    vector.reset(seeds=[1, 2, 3])
    stairs_server.wait_for_sessions(4)

    del spec, game, vector

    def ended() -> bool:
        gc.collect()
        return stairs_server.sessions.active_sessions == 0

    eventually(ended, "sessions that nobody holds end")


# --- TRL's trainer ---------------------------------------------------------------------------------------------------


def climber(*specs: EnvSpec) -> dict[str, Any]:
    """A policy that calls the tools of stairs, each time with a random move, and its tokenizer."""
    schemas = [schema for spec in specs for schema in spec.tools.schemas()]
    tokenizer = build_tool_tokenizer(schemas, ["You climb. Go. step and of"])
    opening = '<tool_call>\n{"name": "climb", "arguments": {'
    table = {
        "<|im_start|>assistant\n": [opening],
        opening: ['"move": '],
        '"move": ': ['"up"', '"wait"', '"fall asleep"'],
        **{move: ["}}\n</tool_call>"] for move in ('"up"', '"wait"', '"fall asleep"')},
    }
    return {"model": bigram_model(tokenizer, table), "processing_class": tokenizer}


def settings(folder: Path, **given: Any) -> GRPOConfig:
    return GRPOConfig(
        output_dir=str(folder),
        per_device_train_batch_size=8,
        num_generations=4,
        max_steps=2,
        max_completion_length=200,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        activation_checkpointing=False,
        **given,
    )


@pytest.fixture(autouse=True)
def _silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL warns of what it calls experimental."""
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")


class Watch:
    """A reward function that keeps what it was passed."""

    __name__ = "watch"

    def __init__(self) -> None:
        self.batches: list[dict[str, Any]] = []

    def __call__(self, *, environments: Any, completions: Any, **columns: Any) -> list[float]:
        told = [(game.task, list(game.trajectory), game.reward) for game in environments]
        self.batches.append({"played": told, "completions": completions, **columns})
        return [0.0] * len(environments)


def test_trl_trains_with_an_environment_s_own_loop(spec: EnvSpec, tmp_path: Path) -> None:
    watch: Any = Watch()
    trainer = GRPOTrainer(
        **climber(spec),
        args=settings(tmp_path),
        train_dataset=spec.train_dataset,
        environment_factory=spec.environment_factory,
        reward_funcs=[*spec.reward_funcs, watch],
    )

    trainer.train()

    logs = trainer.state.log_history[0]
    assert len(watch.batches) == 2
    batch = watch.batches[0]
    assert len(batch["played"]) == 8
    for (task, trajectory, reward), completion, seed in zip(
        batch["played"], batch["completions"], batch["seed"], strict=True
    ):
        shown = [message["content"] for message in completion if message["role"] == "tool"]
        assert task == {"seed": seed}
        assert shown[: len(trajectory)] == [step.observation for step in trajectory]
        assert set(shown[len(trajectory) :]) <= {"The episode is over. No further action is taken."}
        assert trajectory
        assert reward == sum(step.reward or 0 for step in trajectory)
    rewards = [reward for _, _, reward in batch["played"]]
    lengths = [len(trajectory) for _, trajectory, _ in batch["played"]]
    refused = [sum(step.problem is not None for step in trajectory) for _, trajectory, _ in batch["played"]]
    assert logs["rewards/environment_reward/mean"] == pytest.approx(sum(rewards) / 8)
    assert logs["episode/length"] == pytest.approx(sum(lengths) / 8)
    assert logs["episode/illegal_actions"] == pytest.approx(sum(refused) / 8)
    assert logs["tools/failure_frequency"] == 0


def test_trl_counts_a_reward_that_environments_give_once(stairs_server: RunningServer, tmp_path: Path) -> None:
    with EnvSpec(stairs_server.url, num_tasks=2, gives_reward=True) as spec:
        trainer = GRPOTrainer(
            **climber(spec),
            args=settings(tmp_path),
            train_dataset=spec.train_dataset,
            environment_factory=spec.environment_factory,
            reward_funcs=spec.reward_funcs,
        )
        trainer.train()

    logs = trainer.state.log_history[0]
    names = [name for name in logs if name.startswith("rewards/") and name.endswith("/mean")]
    assert len(names) == 1
    assert logs["reward"] == pytest.approx(logs[names[0]])


def test_trl_trains_on_several_environments(stairs_server: RunningServer, tmp_path: Path) -> None:
    one, two = EnvSpec(stairs_server.url, num_tasks=2), EnvSpec(stairs_server.url, num_tasks=4, max_turns=1)
    watch: Any = Watch()
    with EnvSpecs({"stairs": one, "short": two}) as specs:
        trainer = GRPOTrainer(
            **climber(one),
            args=settings(tmp_path, shuffle_dataset=False),
            train_dataset=specs.train_dataset,
            environment_factory=specs.environment_factory,
            reward_funcs=[*specs.reward_funcs, watch],
        )
        trainer.train()

    names = [name for batch in watch.batches for name in batch["environment"]]
    lengths = [len(trajectory) for batch in watch.batches for _, trajectory, _ in batch["played"]]
    assert set(names) == {"stairs", "short"}
    assert {length for name, length in zip(names, lengths, strict=True) if name == "short"} == {1}
    assert {"rewards/stairs_reward/mean", "rewards/short_reward/mean"} <= trainer.state.log_history[0].keys()


def test_several_environments_are_interleaved_evenly() -> None:
    silent: dict[str, Any] = {"instructions": ""}
    levels = [{"level": 1}, {"level": 2}]
    specs = EnvSpecs({"a": EnvSpec(NOWHERE, num_tasks=4, **silent), "b": EnvSpec(NOWHERE, tasks=levels, **silent)})

    dataset = specs.train_dataset

    assert dataset["environment"] == ["a", "b", "a", "a", "b", "a"]
    assert dataset["level"] == [None, 1, None, None, 2, None]
    counts = {"a": 1, "b": 1, "c": 3}
    three = EnvSpecs({name: EnvSpec(NOWHERE, num_tasks=count, **silent) for name, count in counts.items()})
    assert three.train_dataset["environment"] == ["c", "a", "c", "b", "c"], "the order of a run of several"
    assert [function.__name__ for function in specs.reward_funcs] == ["a_reward", "b_reward"]
    with pytest.raises(ConfigurationError, match="at least one EnvSpec"):
        EnvSpecs({})


def test_a_dataset_of_one_s_own_is_played(spec: EnvSpec) -> None:
    rows = Dataset.from_list([{"prompt": [{"role": "user", "content": "?"}], "seed": 3}])

    game = spec.environment_factory()

    assert game.reset(**rows[0]) == "step of 4"
