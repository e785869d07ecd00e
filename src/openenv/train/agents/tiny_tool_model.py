"""Tiny model that calls an environment's tools, to try a training out on a CPU.

Its weights are random at first. It learns from some episodes of a scripted player, for some seconds, which is enough to
call tools and far from enough to play well: the beginning that a training needs.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from datasets import Dataset  # type: ignore[import-untyped]
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from openenv.auto.discovery import find_environment
from openenv.core.generic_client import GenericEnvClient
from openenv.train.agents.players import Player, RandomToolPlayer
from openenv.train.agents.tiny import build_model
from openenv.train.agents.tiny_tools import build_tool_tokenizer
from openenv.train.episodes.played_episode import Message
from openenv.train.forms.moves import Move, MoveResult
from openenv.train.forms.tool_form import call_message, tool_messages
from openenv.train.tools.environment_tools import EnvironmentTools
from openenv.train.trl.env_spec import EnvSpec
from openenv.train.trl.tool_environment import ToolEnvironment

__all__ = ["make_tiny_model", "play_episode", "tiny_tool_model"]

Call = tuple[str, dict[str, Any]]
Choose = Callable[[], Call | None]

EPISODES = 16
MAX_CALLS = 12
BATCHES = 80


def play_episode(
    environment: Any, prompt: Sequence[Message], task: Mapping[str, Any], choose: Choose, max_calls: int
) -> list[Message]:
    """Play one episode as TRL's loop does, with ``choose`` instead of the model, and return the conversation."""
    messages = [{"role": message["role"], "content": message["content"]} for message in prompt]
    messages[-1]["content"] += environment.reset(**task) or ""
    for _ in range(max_calls):
        call = choose()
        if call is None:
            break
        name, arguments = call
        move = Move("", tool=name, arguments=arguments)
        answer = call_message(move)
        result = MoveResult(move, str(getattr(environment, name)(**arguments)))
        messages += [answer, *tool_messages(answer["tool_calls"], [result])]
    return [*messages, {"role": "assistant", "content": ""}]


def tiny_tool_model(specs: Sequence[EnvSpec]) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerFast]:
    """Make a model that knows some environments' tools, and its tokenizer, from play of scripted and random players."""
    episodes = [episode for spec in specs for episode in _scripted_episodes(spec)]
    with tempfile.TemporaryDirectory() as folder:
        return make_tiny_model(episodes, Path(folder), BATCHES * len(specs))


def _scripted_episodes(spec: EnvSpec) -> Iterator[tuple[list[Message], list[dict[str, Any]]]]:
    environment = spec.environment_factory()
    for number, row in enumerate(spec.train_dataset.select(range(min(EPISODES, len(spec.rows))))):
        player = _player(spec, number)
        choose = partial(_next_call, environment, player, spec.tools)
        yield play_episode(environment, row["prompt"], row, choose, spec.max_turns or MAX_CALLS), spec.tools.schemas()


def _player(spec: EnvSpec, seed: int) -> Player:
    # Every other episode is a random player's, and all of a server that is given by its URL: a model that has seen only
    # good ones has little left to find out.
    packaged = not isinstance(spec.client.async_client, GenericEnvClient)
    scripted = find_environment(spec.name).make_player(seed) if packaged and seed % 2 == 0 else None
    return scripted or RandomToolPlayer(spec.tools, seed)


def _next_call(environment: ToolEnvironment, player: Player, tools: EnvironmentTools) -> Call | None:
    if environment.done or environment.last_result is None:
        return None
    return tools.call(player(environment.last_result.observation))


def make_tiny_model(
    episodes: Sequence[tuple[list[Message], list[dict[str, Any]]]], folder: Path, steps: int
) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerFast]:
    """Make a model and its tokenizer of conversations, whose words and arguments of calls are a token each."""
    tools = {tool["function"]["name"]: tool for _, offered in episodes for tool in offered}
    texts = [message["content"] for messages, _ in episodes for message in messages]
    tokenizer = build_tool_tokenizer(list(tools.values()), texts, list(_arguments(episodes)))
    shown = build_model(tokenizer, hidden=64, layers=1, initializer_range=0.05)
    SFTTrainer(
        model=shown,
        processing_class=tokenizer,
        train_dataset=Dataset.from_list([_row(messages, offered) for messages, offered in episodes]),
        args=SFTConfig(
            output_dir=str(folder),
            max_steps=steps,
            per_device_train_batch_size=4,
            learning_rate=5e-3,
            adam_beta2=0.95,
            assistant_only_loss=True,
            max_length=None,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            use_cpu=True,
            bf16=False,
            activation_checkpointing=False,
            disable_tqdm=True,
        ),
    ).train()
    model = build_model(tokenizer, hidden=64, layers=1, initializer_range=0.05)  # the trainer has wrapped the other
    model.load_state_dict(shown.state_dict())
    return model, tokenizer


def _row(messages: list[Message], tools: list[dict[str, Any]]) -> dict[str, Any]:
    # As JSON, because a column of mappings would give each of them the keys of all.
    return {"messages": [_with_json(message) for message in messages], "tools": json.dumps(tools)}


def _with_json(message: Message) -> Message:
    if "tool_calls" not in message:
        return message
    functions = [call["function"] for call in message["tool_calls"]]
    written = [{**each, "arguments": json.dumps(each["arguments"], ensure_ascii=False)} for each in functions]
    return {**message, "tool_calls": [{"type": "function", "function": function} for function in written]}


def _arguments(episodes: Sequence[tuple[list[Message], list[dict[str, Any]]]]) -> Iterator[Any]:
    calls = (call for messages, _ in episodes for message in messages for call in message.get("tool_calls", ()))
    return (value for call in calls for value in call["function"]["arguments"].values())
