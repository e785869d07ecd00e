"""How a policy of ``openenv train`` plays an environment that has only tools: by calls in its chat template.

An action's text is a tool's name and its arguments as JSON; the tokens are those of the call in the model's template.
"""

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from openenv.core.exceptions import ConfigurationError
from openenv.train.agents.tiny_tools import build_tool_tokenizer
from openenv.train.episodes.episode import Episode
from openenv.train.rollout.dialogue import stop_ids_of
from openenv.train.rollout.playing import Outcome
from openenv.train.rollout.tool_dialogue import ToolDialogue
from openenv.train.tools.environment_tools import EnvironmentTools

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

__all__ = ["CallDialogue", "build_call_tokenizer", "call_text"]


class CallDialogue:
    """A model's calls of tools, for playing and for writing examples.

    Args:
        tokenizer: A tokenizer whose chat template knows tools.
        model: The model; its generation settings may name further tokens that end a turn.
        tools: The environment's tools.
        instructions: What the user says before the first observation; empty for nothing.
        max_action_tokens: How many tokens an answer may have.
        thinking: Passed to the template as ``enable_thinking``.

    Attributes:
        playing: The dialogue of rollouts.
        stop_ids: Tokens that end an answer.
        max_action_tokens: As above.
        pad_id: A token to pad with.

    Raises:
        ConfigurationError: The chat template does not know tools.
    """

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerBase",
        model: "PreTrainedModel",
        tools: EnvironmentTools,
        *,
        instructions: str,
        max_action_tokens: int,
        thinking: bool,
    ) -> None:
        self._instructions = instructions
        self.stop_ids = stop_ids_of(tokenizer, model)
        self.max_action_tokens = max_action_tokens
        self.playing = ToolDialogue(
            tokenizer,
            tools,
            self._messages_of,
            self.stop_ids,
            settings={"enable_thinking": thinking},
            max_action_tokens=max_action_tokens,
            # As in TRL's loop: after errors about broken calls, small policies write ever longer ones.
            unreadable="end",
        )
        self.pad_id = self.playing.pad_id

    def opening(self, observation: str) -> list[int]:
        """Return the tokens of the tools and of the first observation, up to the first call."""
        return self.playing.opening(None, observation)

    def between(self, written: Sequence[int], observation: str, problem: str | None = None) -> list[int]:
        """Return the tokens from the end of a call up to the next one.

        Args:
            written: The call.
            observation: What it gave.
            problem: Why it gave nothing.
        """
        moves = self.playing.read(written)
        return self.playing.reply(written, moves, [Outcome(move, observation, problem) for move in moves])

    def action_text(self, written: Sequence[int]) -> str:
        """Return the calls of an answer, as `call_text` writes them."""
        return "\n".join(move.text for move in self.playing.read(written))

    def answer(self, action: str) -> list[int]:
        """Return the tokens of a call.

        Args:
            action: The call, as `call_text` writes it.
        """
        name, _, arguments = action.partition(" ")
        return self.playing.call(name, json.loads(arguments))

    def _messages_of(self, prompt: Any, observation: Any) -> list[dict[str, Any]]:
        content = "\n\n".join(part for part in (self._instructions, str(observation)) if part)
        return [{"role": "user", "content": content}]


def call_text(name: str, arguments: Any) -> str:
    """Write a call as the text of an action: the tool's name, and its arguments as JSON.

    Example:
        >>> call_text("guess", {"word": "mouse"})
        'guess {"word": "mouse"}'
    """
    return f"{name} {json.dumps(arguments, ensure_ascii=False, default=str)}"


def build_call_tokenizer(tools: EnvironmentTools, episodes: Iterable[Episode]) -> "PreTrainedTokenizerFast":
    """Make the tiny policy's tokenizer for calls of tools: each argument of the examples is one of its tokens.

    Args:
        tools: The environment's tools.
        episodes: The examples.

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
