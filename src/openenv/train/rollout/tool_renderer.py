"""Renderer of actions as tool calls, in the model's own chat template.

A conversation is rendered as TRL renders it: the tools are in the template, answers are read by the tokenizer's
response template, and a call's result is a message of the tool. A model's own tokens are never rendered again; only the
template's text after them is.
"""

import copy
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from openenv.core.documents import read_arguments
from openenv.core.exceptions import ConfigurationError
from openenv.train.episodes.played_episode import Message
from openenv.train.forms.moves import Move, ReadAnswer
from openenv.train.forms.tool_form import ToolForm, call_message
from openenv.train.model_files import lacks_tools
from openenv.train.rollout.renderer import Renderer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["ToolRenderer", "Unreadable", "add_tools", "reads_tool_calls"]

Unreadable = Literal["tell", "end"]

_QUESTION: Message = {"role": "user", "content": "?"}
_UNREADABLE = "No tool call could be read in that. Write it exactly as the tools are described."


class ToolRenderer(Renderer):
    """Renderer of conversations in which an answer calls tools, in their order; one without a call ends the episode.

    Args:
        tokenizer: A tokenizer whose chat template knows tools.
        form: The form of observations and calls.
        stop_ids: Tokens that end an answer.
        settings: Further settings of the template.
        max_action_tokens: Limit of an answer's tokens; ``None`` for that of the context alone.
        unreadable: Whether the model reads an error after a call that cannot be parsed, or the episode ends with it.

    Raises:
        ConfigurationError: The template does not know tools, or TRL does not know how its calls are read.
    """

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerBase",
        form: ToolForm,
        stop_ids: frozenset[int],
        *,
        settings: Mapping[str, Any] | None = None,
        max_action_tokens: int | None = None,
        unreadable: Unreadable = "tell",
    ) -> None:
        longest = sys.maxsize if max_action_tokens is None else max_action_tokens
        super().__init__(_reading_tokenizer(tokenizer), form, stop_ids, longest)
        self._form = form
        self._unreadable = unreadable
        self._settings = {**(settings or {}), "tools": form.tools}
        training_template = _training_template(self._tokenizer)
        if training_template is not None:
            self._settings["chat_template"] = training_template
        self._stops = [str(self._tokenizer.decode([token])) for token in stop_ids]
        before_answer = self._rendered([_QUESTION], answer_follows=True)
        # The text before an answer shows the reader what the template has begun for the model, such as reasoning.
        self._before_answer = self._encoded(before_answer)
        self._opening_of_calls = self._learn_opening(before_answer)

    def opening(self, messages: Sequence[Message]) -> list[int]:
        """Return the template's tokens of the tools and the messages up to the first answer."""
        return self._encoded(self._rendered(messages, answer_follows=True))

    def read(self, written: Sequence[int]) -> ReadAnswer:
        """Return an answer with its calls; without any the agent ends the episode."""
        from trl.chat_template_utils import parse_response

        schemas: Any = self._form.tools
        message = parse_response(self._tokenizer, list(written), prefix=self._before_answer, tools=schemas)
        functions = [call.get("function", call) for call in message.get("tool_calls") or ()]
        # Readers leave out what an answer that was cut off has begun, so its message is its text.
        text: Message = {"role": "assistant", "content": self._words(written)}
        if functions:
            message["tool_calls"] = list(map(_read_call, functions))
            return ReadAnswer(message if written[-1] in self.stop_ids else text, self._form.read(message))
        if self._unreadable == "end" or self._opening_of_calls not in text["content"]:
            return ReadAnswer(text, [])
        shown = str(self._tokenizer.decode(list(written), skip_special_tokens=True))
        return ReadAnswer(text, [Move(shown, problem=_UNREADABLE)])

    def call(self, name: str, arguments: Mapping[str, Any]) -> list[int]:
        """Return the tokens of an answer that calls a tool.

        Raises:
            ConfigurationError: The chat template writes answers differently once they are given.
        """
        before = self._rendered([_QUESTION], answer_follows=True)
        answered = [_QUESTION, call_message(Move("", tool=name, arguments=arguments))]
        whole = self._rendered(answered, answer_follows=False)
        if not whole.startswith(before):
            raise ConfigurationError(
                f"The chat template of {self._tokenizer.name_or_path} does not write an answer as the model begins it, "
                "so no examples can be written with it: leave out sft, or set thinking."
            )
        tokens = self._encoded(whole[len(before) :])
        ends = [position for position, token in enumerate(tokens) if token in self.stop_ids]
        return tokens[: ends[-1] + 1] if ends else tokens

    def answer(self, action: str) -> list[int]:
        """Return the tokens of a call, which is a text of `openenv.train.forms.tool_form.call_text`."""
        name, _, arguments = action.partition(" ")
        return self.call(name, json.loads(arguments))

    def reply(self, written: Sequence[int], messages: Sequence[Message]) -> list[int]:
        """Return the template's tokens after the calls: the end of the answer, and the message of each tool."""
        names = [message["name"] for message in messages]
        calls = [{"type": "function", "function": {"name": name, "arguments": {}}} for name in names]
        answer: Message = {"role": "assistant", "content": "", "tool_calls": calls}
        before = self._rendered([_QUESTION, answer], answer_follows=False)
        whole = self._rendered([_QUESTION, answer, *messages], answer_follows=True)
        if not whole.startswith(before):
            raise ConfigurationError(
                f"The chat template of {self._tokenizer.name_or_path} writes a call of {names[0]} differently "
                "once it is answered, so a conversation of several turns cannot be written with it."
            )
        tokens = self._encoded(self._end_of(before, names[-1]) + whole[len(before) :])
        # The model wrote the token that ends its turn already, unless it was cut off.
        already_ended = written[-1] in self.stop_ids and tokens[0] in self.stop_ids
        return tokens[1:] if already_ended else tokens

    def _end_of(self, conversation: str, last_name: str) -> str:
        """Return the text of a conversation that ends with calls from the token on that ends the answer."""
        call = conversation.rfind(last_name)
        ends = [position for stop in self._stops if (position := conversation.rfind(stop)) > call]
        return conversation[max(ends) :] if ends else ""

    def _learn_opening(self, before_answer: str) -> str:
        """Return the beginning of a call, which distinguishes a broken one from an answer without any."""
        name = self._form.names[0]
        answered = [_QUESTION, call_message(Move("", tool=name))]
        whole = self._rendered(answered, answer_follows=False)
        opening = whole.removeprefix(before_answer).partition(name)[0]
        pieces = [piece for piece in opening.split() if "think" not in piece]
        return pieces[0] if pieces else name

    def _rendered(self, messages: Sequence[Message], *, answer_follows: bool) -> str:
        rendered: Any = self._tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=answer_follows, **self._settings
        )
        return str(rendered)

    def _encoded(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))


def add_tools(tokenizer: "PreTrainedTokenizerBase") -> None:
    """Replace a template of ChatML that knows no tools by TRL's of Qwen2.5, which is ChatML too; leave all others."""
    from trl.chat_template_utils import qwen2_5_chat_template

    template = tokenizer.chat_template
    if isinstance(template, str) and lacks_tools(template):
        tokenizer.chat_template = qwen2_5_chat_template


def reads_tool_calls(tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Return whether a tokenizer's chat template knows tools, and TRL how its calls are read."""
    from trl.chat_template_utils import supports_tool_calling

    if not supports_tool_calling(tokenizer):
        return False
    try:
        _reading_tokenizer(tokenizer)
        _training_template(tokenizer)
    except ConfigurationError:
        return False
    return True


def _read_call(function: Mapping[str, Any]) -> dict[str, Any]:
    named = {"name": str(function["name"]), "arguments": read_arguments(function["arguments"])}
    return {"type": "function", "function": named}


def _reading_tokenizer(tokenizer: "PreTrainedTokenizerBase") -> "PreTrainedTokenizerBase":
    """Return a tokenizer that reads answers: a copy, so that the trainer's own stays as it is."""
    from trl.chat_template_utils import add_response_schema, supports_tool_calling

    if not supports_tool_calling(tokenizer):
        raise ConfigurationError(
            f"The chat template of {tokenizer.name_or_path} does not know tools. Let actions be texts "
            "(--form text, or actions='text' of an EnvSpec), or take a model that calls tools."
        )
    if getattr(tokenizer, "response_template", None) or getattr(tokenizer, "response_schema", None):
        return tokenizer
    try:
        return add_response_schema(copy.copy(tokenizer))
    except ValueError as error:
        raise ConfigurationError(
            f"TRL does not know how the tool calls of {tokenizer.name_or_path} are read: set the tokenizer's "
            "response_template, or let actions be texts (--form text, or actions='text' of an EnvSpec)."
        ) from error


def _training_template(tokenizer: "PreTrainedTokenizerBase") -> str | None:
    """Return TRL's template instead of one that rewrites earlier messages; ``None`` where the tokenizer's does not."""
    from trl.chat_template_utils import get_training_chat_template, is_chat_template_prefix_preserving

    if is_chat_template_prefix_preserving(tokenizer):
        return None
    try:
        return get_training_chat_template(tokenizer)
    except ValueError as error:
        raise ConfigurationError(
            f"The chat template of {tokenizer.name_or_path} rewrites earlier messages, and TRL has no other for "
            "it. Let actions be texts (--form text, or actions='text' of an EnvSpec)."
        ) from error
