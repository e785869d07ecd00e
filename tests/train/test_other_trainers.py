"""The examples for other trainers: what runs here is run; of the others, all that is ours runs in place.

Where a library is not installed, a few lines stand in for what it would do with the example. What was tried with the
libraries themselves is told in docs/trainers.md.
"""

import asyncio
import json
import re
import runpy
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import skyrl_gym
import torch
import yaml
from datasets import load_dataset  # type: ignore[import-untyped]
from openai import AsyncOpenAI
from peft import LoraConfig, get_peft_model
from tests.support.models.model_server import Message, ModelServer
from tests.support.servers import RunningServer
from typer.testing import CliRunner

from catch_env.models import CatchAction, CatchObservation
from catch_env.server.catch_environment import CatchEnvironment
from openenv import GenericEnvClient
from openenv.cli.__main__ import build_app
from openenv.core.env_server.app import create_app
from openenv.train import EnvSpec
from openenv.train.agents.tiny_tool_model import tiny_tool_model
from openenv.train.agents.tiny_tools import build_tool_tokenizer
from openenv.train.quiet import quiet_libraries

EXAMPLES = Path(__file__).parents[2] / "examples"
TRAINERS = EXAMPLES / "trainers"
Example = dict[str, Any]
Load = Callable[..., Example]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Run an example's module, with stand-ins for the modules that are not installed."""

    def load(name: str, **modules: Any) -> Example:
        for module, members in modules.items():
            stand_in = ModuleType(module)
            stand_in.__dict__.update(members)
            monkeypatch.setitem(sys.modules, module.replace("__", "."), stand_in)
        return runpy.run_path(str(TRAINERS / f"{name}.py"))

    return load


@pytest.fixture(scope="module")
def catch() -> Iterator[RunningServer]:
    app = create_app(CatchEnvironment, CatchAction, CatchObservation, max_concurrent_envs=32)
    with RunningServer(app) as server:
        yield server


def best_move(text: str) -> str:
    """Say where the paddle goes, from an observation as a model sees it."""
    numbers = {name: int(value) for name, value in re.findall(r'(\w+)"?:? (\d+)', text)}
    ball, paddle = numbers["ball"], numbers["paddle"]
    return "left" if ball < paddle else "right" if ball > paddle else "stay"


# --- Lightning: installed, and run -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::FutureWarning:lightning.*", "ignore::UserWarning:lightning.*")
def test_lightning(load: Load, catch: RunningServer) -> None:
    example = load("lightning_catch")
    trainer = example["train"](catch.url, games=32, batches=60)

    assert trainer.global_step == 60
    assert trainer.callback_metrics["reward"].item() > 0.8  # at random about -0.4
    catch.wait_for_sessions(0)


# --- Unsloth: TRL's own trainer, with another model ------------------------------------------------------------------


def test_unsloth(load: Load, catch: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    asked: dict[str, Any] = {}
    example = load("unsloth_catch", unsloth={"FastLanguageModel": _fast_language_model(catch.url, asked)})
    asked["prompt"] = example["PROMPT"]  # the tiny model knows no other words than it has seen
    on_cpu = {"use_cpu": True, "bf16": False, "activation_checkpointing": False, "disable_tqdm": True}
    small = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "num_generations": 4, "max_steps": 1}
    with quiet_libraries():
        trainer = example["train"](catch.url, "tiny", str(tmp_path), save_strategy="no", **on_cpu, **small)

    assert asked["model"] == "tiny"
    (logged,) = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert logged["tools/call_frequency"] > 5
    assert logged["episode/reward"] == logged["reward"]
    assert any("lora" in name for name, weight in trainer.model.named_parameters() if weight.requires_grad)


def _fast_language_model(url: str, asked: dict[str, Any]) -> Any:
    """Stand in for Unsloth's loader: a tiny model that can call tools, and PEFT's adapters."""

    def from_pretrained(name: str, *, max_seq_length: int, load_in_4bit: bool) -> Any:
        asked.update(model=name, length=max_seq_length, four_bit=load_in_4bit)
        with EnvSpec(url, system_prompt=asked["prompt"]) as spec:
            return tiny_tool_model([spec])

    def with_adapters(model: Any, **settings: Any) -> Any:
        return get_peft_model(model, LoraConfig(**settings))

    return SimpleNamespace(from_pretrained=from_pretrained, get_peft_model=with_adapters)


# --- SkyRL: its environments are installed, its trainer is not -------------------------------------------------------


def test_skyrl(load: Load, catch: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[Any] = []
    config = SimpleNamespace(from_cli_overrides=lambda options: dict(option.split("=", 1) for option in options))
    example = load(
        "skyrl_catch",
        ray={"remote": lambda **_: _remote, "get": lambda result: result},
        skyrl={},
        skyrl__train={},
        skyrl__train__config={"SkyRLTrainConfig": config},
        skyrl__train__entrypoints={},
        skyrl__train__entrypoints__main_base={
            "BasePPOExp": lambda settings: SimpleNamespace(run=lambda: trained.append(_skyrl_games(settings))),
            "validate_cfg": lambda settings: None,
        },
        skyrl__train__utils={"initialize_ray": lambda settings: None},
    )
    small = example["write_tasks"].__globals__
    monkeypatch.setitem(small, "write_tasks", lambda url, folder: example["write_tasks"](url, folder, 4, 2))
    monkeypatch.setattr(sys, "argv", ["skyrl_catch.py", catch.url, str(tmp_path), "generator.max_turns=20"])
    example["main"]()

    ((training, validation),) = trained
    assert training == [1.0] * 4, "each game is won by who goes where the ball is"
    assert validation == [1.0] * 2
    catch.wait_for_sessions(0)


def _remote(function: Callable[..., Any]) -> Any:
    return SimpleNamespace(remote=function)


def _skyrl_games(settings: dict[str, str]) -> list[list[float]]:
    """Play every task as SkyRL's generator does; return the rewards of the games in each file."""
    return [
        [_skyrl_game(dict(row), int(settings["generator.max_turns"])) for row in _skyrl_rows(settings[name])]
        for name in ("data.train_data", "data.val_data")
    ]


def _skyrl_rows(listed: str) -> Any:
    (path,) = yaml.safe_load(listed)
    return load_dataset("json", data_files=path, split="train")


def _skyrl_game(row: dict[str, Any], max_turns: int) -> float:
    prompt, env_class = row.pop("prompt"), row.pop("env_class")
    env = skyrl_gym.make(env_class, env_config={}, extras={**row, "max_turns": max_turns})
    try:
        conversation, _ = env.init(prompt)
        earned, done = 0.0, False
        while not done:
            step = env.step(best_move(conversation[-1]["content"]))
            conversation += step["observations"]
            earned, done = earned + step["reward"], step["done"]
        return earned
    finally:
        env.close()


# --- ART: its rollouts need nothing but its classes of data ----------------------------------------------------------


class Trajectory:
    """What ART's own holds of a game."""

    def __init__(self, messages_and_choices: list[Any], reward: float) -> None:
        self.messages_and_choices = messages_and_choices
        self.reward = reward
        self.metrics: dict[str, float] = {}

    def messages(self) -> list[Message]:
        return [
            item if isinstance(item, dict) else {"role": "assistant", "content": item.message.content}
            for item in self.messages_and_choices
        ]

    def finish(self) -> "Trajectory":
        return self


class TrainableModel:
    """A model behind an address, as ART's is once it is registered."""

    made: "list[TrainableModel]"

    def __init__(self, **settings: str) -> None:
        self.settings = settings
        TrainableModel.made.append(self)

    async def register(self, backend: "LocalBackend") -> None:
        self.api = AsyncOpenAI(base_url=f"{backend.url}/v1", api_key="none")

    async def get_step(self) -> int:
        return 1

    def openai_client(self) -> AsyncOpenAI:
        return self.api

    def get_inference_name(self) -> str:
        return "tiny"

    async def log(self, groups: Any, **fields: Any) -> None:
        assert fields["split"] == "train"


class LocalBackend:
    """Takes what it is given to learn from."""

    url = ""
    learned: list[list[list[Trajectory]]]

    async def train(self, model: TrainableModel, groups: list[list[Trajectory]], *, learning_rate: float) -> Any:
        LocalBackend.learned.append(groups)
        return SimpleNamespace(metrics={}, step=len(LocalBackend.learned))


async def gather_groups(groups: Any) -> list[list[Trajectory]]:
    """Play the games of each group at once."""
    return [list(await asyncio.gather(*group)) for group in groups]


def test_art(load: Load, catch: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ModelServer(lambda messages, tools: {"role": "assistant", "content": _mostly_best(messages)})
    monkeypatch.setattr(LocalBackend, "learned", [], raising=False)
    monkeypatch.setattr(TrainableModel, "made", [], raising=False)
    data = {"Trajectory": Trajectory, "TrajectoryGroup": list, "TrainableModel": TrainableModel}
    example = load(
        "art_catch", art={**data, "gather_trajectory_groups": gather_groups}, art__local={"LocalBackend": LocalBackend}
    )
    with RunningServer(server.app) as model_server:
        monkeypatch.setattr(LocalBackend, "url", model_server.url)
        asyncio.run(_train_with_art(example, catch.url))

    assert [[len(group) for group in groups] for groups in LocalBackend.learned] == [[3, 3], [3, 3]], "from step 1 on"
    for game in (game for groups in LocalBackend.learned for group in groups for game in group):
        assert game.reward == 1.0
        assert game.metrics == {"illegal_actions": 1}
        assert len([item for item in game.messages_and_choices if not isinstance(item, dict)]) == 9
    assert all(request["logprobs"] for request in server.requests)
    catch.wait_for_sessions(0)


async def _train_with_art(example: Example, url: str) -> None:
    await example["train"](url, "tiny", steps=3, games=2, group_size=3)
    (model,) = TrainableModel.made
    assert model.settings["base_model"] == "tiny"
    await model.api.close()


def _mostly_best(messages: list[Message]) -> str:
    """Waste the last move, which no longer counts where the paddle is in place."""
    text = messages[-1]["content"]
    return "hm" if "row 8" in text else best_move(text)


# --- torchforge: its actors are classes with endpoints ---------------------------------------------------------------


@pytest.mark.needs("reasoning-gym")
def test_torchforge(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    template = SimpleNamespace(
        from_pretrained=lambda name: SimpleNamespace(
            apply_chat_template=lambda messages, **_: json.dumps(messages), pad_token_id=None, eos_token_id=7
        )
    )
    monkeypatch.setattr("transformers.AutoTokenizer", template)
    example = load(
        "torchforge_reasoning",
        forge={},
        forge__controller={},
        forge__controller__actor={"ForgeActor": object},
        monarch={},
        monarch__actor={"endpoint": lambda method: method},
    )
    monkeypatch.setenv("REASONING_GYM_DATASET", "chain_sum")
    from reasoning_gym_env.models import AnswerAction, ReasoningObservation
    from reasoning_gym_env.server.reasoning_gym_environment import ReasoningGymEnvironment

    app = create_app(ReasoningGymEnvironment, AnswerAction, ReasoningObservation, max_concurrent_envs=8)
    with RunningServer(app) as server:
        judged = asyncio.run(_ask_and_judge(example, server.url))

    assert [reward for _, reward in judged["right"]] == [1.0] * 3
    assert all(parts == {"environment_reward": reward} for parts, reward in judged["right"])
    assert all(reward < 0.5 for _, reward in judged["wrong"] + judged["none"])
    assert judged["pad"] == 7


async def _ask_and_judge(example: Example, url: str) -> dict[str, Any]:
    questions, verdicts = example["Questions"](url, "tiny", seed=5), example["Verdicts"](url)
    await questions.setup()
    await verdicts.setup()
    asked = [await questions.sample() for _ in range(3)]
    assert len({question["request"] for question in asked}) == 3
    right = [eval(_sum_in(question["request"])) for question in asked]  # digits, plus and minus
    answers = {"right": [f"So it is\n#### {value}" for value in right], "wrong": ["#### 99999"] * 3, "none": ["?"] * 3}
    judged: dict[str, Any] = {"pad": await questions.pad_token()}
    for kind, texts in answers.items():
        pairs = zip(asked, texts, strict=True)
        judged[kind] = await asyncio.gather(
            *(verdicts.evaluate_response(question["request"], text, question["target"]) for question, text in pairs)
        )
    await questions._session.close()
    await verdicts._client.close()
    return judged


def _sum_in(request: str) -> str:
    found = re.search(r"[\d+\- ]*\d [+-] [\d+\- ]*\d", json.loads(request)[1]["content"])
    assert found is not None
    return found[0]


# --- Axolotl and Oumi: episodes that were collected ------------------------------------------------------------------


def collect(folder: Path, *options: str) -> list[dict[str, Any]]:
    """Collect episodes with the command that an example names."""
    result = CliRunner().invoke(build_app(), ["collect", "catch", "--output", str(folder), *options])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in (folder / "episodes.jsonl").read_text(encoding="utf-8").splitlines()]


def collecting_command(example: str) -> list[str]:
    """Return the options of the command by which an example has its episodes, but for how many."""
    found = re.search(r"#   openenv collect catch (.*)", (TRAINERS / example).read_text(encoding="utf-8"))
    assert found is not None
    return found[1].replace("--episodes 2000", "--episodes 4").split()


def test_axolotl(tmp_path: Path) -> None:
    config = yaml.safe_load((TRAINERS / "axolotl_catch.yaml").read_text(encoding="utf-8"))
    (dataset,) = config["datasets"]
    *options, output_option, output = collecting_command("axolotl_catch.yaml")
    assert output_option == "--output"
    assert dataset["path"] == f"{output}/episodes.jsonl"
    episodes = collect(tmp_path, *options)

    rows = load_dataset("json", data_files=str(tmp_path / "episodes.jsonl"), split="train")
    words = [message["content"] for episode in episodes for message in episode["messages"]]
    tokenizer = build_tool_tokenizer(episodes[0]["tools"], words, ["left", "stay", "right"])
    for row in rows:  # as Axolotl's strategy chat_template does
        tools, messages = row[dataset["field_tools"]], row[dataset["field_messages"]]
        text = str(tokenizer.apply_chat_template(messages, tools=tools, tokenize=False))
        assert text.count('{"name": "catch", "arguments": {"move": ') == 9
        assert row["reward"] == 1.0


def test_oumi(tmp_path: Path) -> None:
    config = yaml.safe_load((TRAINERS / "oumi_catch.yaml").read_text(encoding="utf-8"))
    (dataset,) = config["data"]["train"]["datasets"]
    *options, _, output = collecting_command("oumi_catch.yaml")
    assert dataset["dataset_path"] == f"{output}/episodes.jsonl"
    for episode in collect(tmp_path, *options):  # the form that Oumi calls "oumi"
        roles = [message["role"] for message in episode["messages"]]
        assert roles == ["user", "assistant"] * 9
        assert all(message.keys() == {"role", "content"} for message in episode["messages"])
        assert episode["reward"] == 1.0


# --- verifiers: it knows OpenEnv's servers by itself -----------------------------------------------------------------


async def test_verifiers(catch: RunningServer) -> None:
    config = tomllib.loads((TRAINERS / "verifiers_catch.toml").read_text(encoding="utf-8"))
    taskset = config["env"]["taskset"]
    assert taskset.keys() == {"id", "base_url", "resets"}
    with catch.http() as http:  # which is how its taskset learns what an action is
        schema = http.get("/schema").json()["action"]
    assert schema["required"] == ["move"], "a reply that is no JSON counts as the one field that is required"
    for reset in taskset["resets"]:
        async with GenericEnvClient(base_url=catch.url) as client:
            result = await client.reset(**reset)
            total = 0.0
            while not result.done:
                result = await client.step({"move": best_move(json.dumps(result.observation))})
                total += result.reward or 0.0
            assert total == 1.0


def test_every_trainer_has_its_part_of_the_page() -> None:
    page = (TRAINERS.parents[1] / "docs" / "trainers.md").read_text(encoding="utf-8")
    for example in TRAINERS.iterdir():
        if example.is_file():
            assert f"`examples/trainers/{example.name}`" in page, f"docs/trainers.md does not name {example.name}"


@pytest.fixture(autouse=True)
def _torch_as_it_was() -> Iterator[None]:
    """Lightning seeds torch for the whole process."""
    state = torch.random.get_rng_state()
    yield
    torch.random.set_rng_state(state)
