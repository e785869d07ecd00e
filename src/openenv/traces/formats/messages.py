"""Episodes as conversations: rows that TRL's trainers take, and entries from a conversation.

An episode whose model's side is on record has that conversation. Of any other episode a conversation is made: the
environment's texts are the user's, and an action is a call of its tool, or else its JSON as text. Pictures and long
arrays are left out of the texts.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from openenv.adapters.text import observation_text
from openenv.traces.episodes import RESET, STEP, Entry, EpisodeRecord

__all__ = ["action_call", "entries_of_messages", "messages_of", "row_of", "shown"]

Message = dict[str, Any]

# Pictures as base64, and numbers of arrays.
_LONG = re.compile(r"[A-Za-z0-9+/=_-]{2048,}|[\[\]0-9.,eE +-]{2048,}")


def row_of(record: EpisodeRecord) -> dict[str, Any]:
    """Return an episode as a row of a dataset.

    Args:
        record: The episode.

    Returns:
        ``messages`` and ``tools`` as TRL's ``SFTTrainer`` takes them; ``reward``, ``None`` of an episode in which the
        environment failed; ``rewards`` of the steps,
        ``components`` and ``scores`` of other rubrics by name; the episode's properties (``id``, ``environment``,
        ``version``, ``task``, ``ending``, ``length``, ``label``), and those of the model's side (``model``,
        ``prompt_ids``, ``completion_ids``, ``logprobs``, ``env_mask``).
    """
    episode, conversation = record.episode, record.conversation
    return {
        "id": episode.id,
        "environment": episode.environment,
        "version": episode.version,
        "task": _task_of(record),
        "messages": messages_of(record),
        "tools": [] if conversation is None else list(conversation.tools),
        "reward": episode.counted_reward,
        "rewards": [entry.reward or 0.0 for entry in record.steps],
        "components": dict(record.components),
        "scores": {score.name: score.reward for score in record.scores},
        "length": episode.steps,
        "ending": episode.ending,
        "label": episode.label,
        "model": None if conversation is None else conversation.model,
        "prompt_ids": [] if conversation is None else list(conversation.prompt_ids),
        "completion_ids": [] if conversation is None else list(conversation.completion_ids),
        "logprobs": [] if conversation is None else list(conversation.logprobs),
        "env_mask": [] if conversation is None else list(conversation.env_mask),
    }


def messages_of(record: EpisodeRecord) -> list[Message]:
    """Return an episode's conversation, which ends with a message of the agent or a tool's answer."""
    conversation = record.conversation
    messages = _from_entries(record.entries) if conversation is None else [dict(each) for each in conversation.messages]
    while len(messages) > 1 and messages[-1]["role"] == "user":
        messages.pop()  # no action follows it
    return messages


def action_call(request: Any) -> tuple[str, Mapping[str, Any]] | None:
    """Return the tool and the arguments of an action that calls one; ``None`` for another action."""
    if not isinstance(request, Mapping) or not isinstance(request.get("tool_name"), str):
        return None
    arguments = request.get("arguments")
    return request["tool_name"], arguments if isinstance(arguments, Mapping) else {}


def shown(entry: Entry) -> str:
    """Return the text of an entry's answer: the observation, or the message of the error."""
    if entry.failed:
        return str(entry.answer.get("message", ""))
    observation = entry.observation
    text = observation_text(observation) if isinstance(observation, Mapping) else _json(observation)
    return _LONG.sub(lambda found: f"[{len(found[0])} characters left out]", text)


def entries_of_messages(messages: Sequence[Message], *, at: float) -> Iterator[Entry]:
    """Make entries of a conversation that was recorded elsewhere: a reset, and a step for each answer of the model."""
    kind = RESET
    request: Mapping[str, Any] = {}
    seen: list[Message] = []
    for message in messages:
        if message["role"] == "assistant":
            yield _entry(kind, request, seen, at)
            kind, seen = STEP, []
            request = {name: message[name] for name in ("content", "tool_calls") if message.get(name)}
        else:
            seen.append(message)
    yield _entry(kind, request, seen, at)


def _entry(kind: str, request: Mapping[str, Any], seen: Sequence[Message], at: float) -> Entry:
    return Entry(kind, at, 0.0, request, {"observation": {"messages": seen}, "reward": None, "done": False}, False)


def _from_entries(entries: Sequence[Entry]) -> list[Message]:
    messages: list[Message] = []
    for turn, entry in enumerate(entries):
        if entry.kind == RESET:
            messages.append({"role": "user", "content": shown(entry)})
        else:
            messages += _exchange(turn, entry)
    return messages


def _exchange(turn: int, entry: Entry) -> list[Message]:
    call = action_call(entry.request)
    if call is None:
        return [{"role": "assistant", "content": _json(entry.request)}, {"role": "user", "content": shown(entry)}]
    name, arguments = call
    number = f"call{turn:05}"  # nine letters and digits, which is what the strictest of the chat templates takes
    function = {"name": name, "arguments": dict(arguments)}
    return [
        {"role": "assistant", "content": "", "tool_calls": [{"id": number, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": number, "name": name, "content": shown(entry)},
    ]


def _task_of(record: EpisodeRecord) -> dict[str, Any]:
    first = record.entries[0] if record.entries else None
    return dict(first.request) if first is not None and isinstance(first.request, Mapping) else {}


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
