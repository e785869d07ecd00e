"""Lines of a conversation on record: its tokens, and the model's own words at each step."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from openenv.traces.conversation import ConversationPart, words_of
from openenv.traces.episodes import Conversation

__all__ = ["answer_lines", "token_lines"]


def token_lines(conversation: Conversation) -> Iterator[str]:
    """Iterate over the tokens: number, reader or writer, probability, id and text, as far as they are on record."""
    fed = [(token, 0, 0.0) for token in conversation.prompt_ids]
    completion = zip(conversation.completion_ids, conversation.env_mask, conversation.logprobs, strict=False)
    for number, (token, written, logprob) in enumerate([*fed, *completion]):
        text = conversation.token_texts.get(str(token))
        shown = "" if text is None else repr(text)
        chance = f"{100 * math.exp(logprob):.1f}%" if written else ""
        yield f"{number:>6} {'model' if written else 'read':<5} {chance:>6} {token:>7}  {shown}".rstrip()


def answer_lines(part: ConversationPart, messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Iterate over the model's words at a step: those that led to none before it, its thought, and its action."""
    before = messages[slice(*part.before)]
    yield from (f"model, without a step: {words_of(each)}" for each in before if each.get("role") == "assistant")
    if part.thought:
        yield f"model thinks: {part.thought}"
    if part.action is not None and not part.is_verbatim:
        yield f"model: {part.action}"
