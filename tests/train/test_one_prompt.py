"""One prompt everywhere: what a model reads first is the same, token by token, wherever and however it plays."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.support.environments.training import ButtonsEnvironment
from tests.support.models.chat_models import CHATML, chat_model, chat_tokenizer, save_chat_model
from tests.support.models.model_server import Message, ModelServer
from tests.support.models.trainers import IGNORED, make_trainer
from tests.support.servers import RunningServer
from tests.train.trl.test_rollout_function import QWEN3
from transformers import AutoTokenizer

from openenv import make, traces
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.generic_client import GenericEnvClient
from openenv.records.answers import AnswerRule
from openenv.train.agents.agent import play
from openenv.train.agents.api_agent import ApiAgent
from openenv.train.agents.opening import open_agent
from openenv.train.dataset.collecting import collect
from openenv.train.dataset.play_traces import PlayTraces
from openenv.train.inspect_task import _Arena
from openenv.train.settings.play_settings import PlaySettings
from openenv.train.tasks.task_dataset import unnumbered
from openenv.train.tools.contents import joined
from openenv.train.trl.env_spec import EnvSpec
from openenv.train.trl.rollout_function import RolloutFunction

pytestmark = pytest.mark.filterwarnings(IGNORED)

SYSTEM = "Be quick."
TASK = {"seed": 3}


@pytest.fixture(scope="module")
def buttons() -> Iterator[RunningServer]:
    with RunningServer(create_fastapi_app(ButtonsEnvironment, max_concurrent_envs=24)) as server:
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_chat_model(tmp_path_factory.mktemp("model"), CHATML)


class Tokens:
    """Tokens of conversations in a chat template, up to the first answer."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __call__(self, messages: Sequence[Mapping[str, Any]], tools: Any = None) -> list[int]:
        roles = [message["role"] for message in messages]
        before = list(messages[: roles.index("assistant")] if "assistant" in roles else messages)
        rendered = self.tokenizer.apply_chat_template(
            before, tools=tools or None, add_generation_prompt=True, tokenize=False
        )
        return list(self.tokenizer.encode(rendered, add_special_tokens=False))


def quiet() -> Console:
    return Console(file=StringIO(), width=100)


def give_up(messages: list[Message], tools: list[dict[str, Any]]) -> Message:
    return {"role": "assistant", "content": "stay"}


def requested(target: str, tokens: Tokens, **settings: Any) -> list[int]:
    """Return the tokens of what a model behind an address is sent first, as settings have it."""
    server = ModelServer(give_up)
    with RunningServer(server.app) as running:
        played = PlaySettings(environment=target, model="any", llm_endpoint=f"{running.url}/v1", **settings)
        with open_agent(played, 1) as (agent, sessions):
            list(play(agent, [(0, TASK)], sessions))
    first = server.requests[0]
    return tokens(first["messages"], first.get("tools"))


def rolled_out(spec: EnvSpec, actions: Any, tokenizer: Any, folder: Path) -> list[int]:
    trainer = make_trainer(
        folder,
        chat_model(tokenizer),
        tokenizer,
        train_dataset=spec.train_dataset,
        rollout_func=RolloutFunction(spec, actions=actions),
    )
    (prompt,) = spec.train_dataset["prompt"]
    fields = RolloutFunction(spec, actions=actions, max_action_tokens=3)([prompt, prompt], trainer)
    assert fields["prompt_ids"][0] == fields["prompt_ids"][1]
    return list(fields["prompt_ids"][0])


def test_actions_as_texts(folder: str, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = Tokens(tokenizer)
    found: dict[str, list[int]] = {}
    found["address"] = requested("catch", tokens, form="text", system_prompt=SYSTEM, max_turns=1)

    local = PlaySettings(environment="catch", model=folder, form="text", system_prompt=SYSTEM, max_turns=2)
    with PlayTraces(tmp_path / "traces.db", local) as recorder, open_agent(local, 1) as (agent, sessions):
        (played,) = play(agent, [(0, TASK)], sessions, recorder)
    found["folder"] = played.episode.prompt_ids
    found["record of the folder"] = tokens(played.messages)

    scripted = PlaySettings(environment="catch", player="scripted", form="text", system_prompt=SYSTEM)
    with open_agent(scripted, 1) as (agent, sessions):
        (shown,) = play(agent, [(0, TASK)], sessions)
    found["player"] = tokens(shown.messages)

    server = ModelServer(give_up)
    with RunningServer(server.app) as running, make("catch").sync() as client:
        own = ApiAgent("any", f"{running.url}/v1", actions="text", system_prompt=SYSTEM, max_turns=1)
        list(own.episodes(client, [TASK]))
    found["client alone"] = tokens(server.requests[0]["messages"])

    with EnvSpec("catch", tasks=[TASK], system_prompt=SYSTEM) as spec:
        found["rollout_func"] = rolled_out(spec, "text", tokenizer, tmp_path)
    texts = {name: tokenizer.decode(ids) for name, ids in found.items()}
    assert set(texts.values()) == {texts["address"]}
    assert all(ids == found["address"] for ids in found.values())
    assert "You act in the environment catch. " in texts["address"]


def test_actions_as_calls(buttons: RunningServer, tmp_path: Path) -> None:
    tokenizer = chat_tokenizer(QWEN3)
    tokens = Tokens(tokenizer)
    found: dict[str, list[int]] = {}
    found["address"] = requested(buttons.url, tokens, system_prompt=SYSTEM)

    played = PlaySettings(environment=buttons.url, player="random", system_prompt=SYSTEM, tasks=None, seed=3)
    with open_agent(played, 1) as (agent, sessions):
        (shown,) = play(agent, [(0, TASK)], sessions)
    found["player"] = tokens(shown.messages, shown.tools)

    with GenericEnvClient(base_url=buttons.url, capacity_wait_s=30.0).sync() as client:
        server = ModelServer(give_up)
        with RunningServer(server.app) as running:
            list(ApiAgent("any", f"{running.url}/v1", system_prompt=SYSTEM).episodes(client, [TASK]))
    found["client alone"] = tokens(server.requests[0]["messages"], server.requests[0]["tools"])

    with EnvSpec(buttons.url, tasks=[TASK], system_prompt=SYSTEM) as spec:
        found["rollout_func"] = rolled_out(spec, "tools", tokenizer, tmp_path)
        environment = spec.environment_factory()
        (prompt,) = spec.train_dataset["prompt"]
        *before, last = unnumbered(prompt)
        # As TRL's own loop adds what `reset` returns.
        begun = [*before, {**last, "content": joined(last["content"], environment.reset(prompt=prompt))}]
        found["environment_factory"] = tokens(begun, spec.tools.schemas())

    arena = _Arena(buttons.url, 2, SYSTEM, AnswerRule())
    form = asyncio.run(arena.form())
    first = arena.sessions().client.reset(**TASK)
    found["Inspect"] = tokens(form.opening_messages(form.shown(first)), form.tools)
    arena.sessions().close()
    texts = {name: tokenizer.decode(ids) for name, ids in found.items()}
    assert set(texts.values()) == {texts["address"]}
    assert all(ids == found["address"] for ids in found.values())
    assert "You act in the environment ButtonsEnvironment. " in texts["address"]


def test_the_prompt_of_an_exported_conversation_is_that_of_its_rollout(folder: str, tmp_path: Path) -> None:
    tokens = Tokens(AutoTokenizer.from_pretrained(folder))
    settings = PlaySettings(environment="catch", model=folder, form="text", system_prompt=SYSTEM, max_turns=2)
    result = collect(settings, 2, tmp_path / "collected", sessions=2, console=quiet())
    with traces.open(result.collection.traces) as file:
        recorded = [record.conversation for record in file.records()]
    assert len(recorded) == len(result.collection.read()) == 2
    by_index = {conversation.extra["index"]: conversation for conversation in recorded if conversation is not None}
    for line in result.collection.read():
        conversation = by_index[line["index"]]
        assert tokens(line["messages"]) == tokens(conversation.messages) == list(conversation.prompt_ids)
        texts = [conversation.token_texts[str(token)] for token in conversation.prompt_ids]
        assert "".join(texts).startswith("<|im_start|>system\nBe quick.")
