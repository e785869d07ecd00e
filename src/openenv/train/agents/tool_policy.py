"""Renderer and tokenizer of policies that play an environment of tools alone, by calls in the chat template.

An action's text is a tool's name and its arguments as JSON; the tokens are those of the call in the model's template.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from openenv.core.exceptions import ConfigurationError
from openenv.train.agents.tiny_tools import build_tool_tokenizer
from openenv.train.episodes.episode import Episode
from openenv.train.forms.tool_form import ToolForm
from openenv.train.rollout.renderer import stop_ids_of
from openenv.train.rollout.tool_renderer import ToolRenderer
from openenv.train.tools.environment_tools import EnvironmentTools

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

__all__ = ["build_call_tokenizer", "call_renderer"]


def call_renderer(
    tokenizer: "PreTrainedTokenizerBase",
    model: "PreTrainedModel",
    form: ToolForm,
    *,
    max_action_tokens: int,
    thinking: bool,
) -> ToolRenderer:
    """Make the renderer of a model's calls of tools, for playing and for writing examples.

    Raises:
        ConfigurationError: The chat template does not know tools.
    """
    return ToolRenderer(
        tokenizer,
        form,
        stop_ids_of(tokenizer, model),
        settings={"enable_thinking": thinking},
        max_action_tokens=max_action_tokens,
        # As in TRL's loop: after errors about broken calls, small policies write ever longer ones.
        unreadable="end",
    )


def build_call_tokenizer(tools: EnvironmentTools, episodes: Iterable[Episode]) -> "PreTrainedTokenizerFast":
    """Make the tiny policy's tokenizer for calls of tools: each argument in the example episodes is one of its tokens.

    Raises:
        ConfigurationError: An example is no call.
    """
    texts: list[str] = []
    values: dict[str, Any] = {}
    for turn in (turn for episode in episodes for turn in episode.turns):
        texts.append(turn.observation)
        name, _, arguments = turn.action.partition(" ")
        try:
            values.update({json.dumps(value): value for value in json.loads(arguments).values()})
        except ValueError as error:
            raise ConfigurationError(f"Expected calls of tools in the examples, got {turn.action!r:.100}.") from error
        texts.append(name)
    return build_tool_tokenizer(tools.schemas(), texts, list(values.values()))
