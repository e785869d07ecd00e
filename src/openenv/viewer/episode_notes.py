"""Notes of episodes on the pages of runs and evaluations: the id of the trace, and the first messages."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from openenv.core.exceptions import ConfigurationError
from openenv.traces.conversation import call_line
from openenv.traces.episodes import Filter
from openenv.traces.reading import TraceFile

# Messages of an episode that are shown, and characters of each.
_MAX_MESSAGES = 60
_MAX_CHARACTERS = 1000


def usable_traces(file: str | Path | None, opened: ExitStack) -> TraceFile | None:
    """Open a file of traces beside a run or an evaluation; ``None`` where there is none, or it can't be used.

    The page of its traces has the reason.
    """
    if file is None or not Path(file).is_file():
        return None
    try:
        return opened.enter_context(TraceFile(file))
    except ConfigurationError:
        return None


def with_trace(traces: TraceFile, note: Mapping[str, Any]) -> dict[str, Any]:
    """Return a note of an episode with the id of its trace; ``None`` where it is not on record, or not yet."""
    name = note.get("episode_id")
    found = () if name is None else traces.episodes(Filter(episode_id=name), 1)
    return {**note, "trace": next((episode.id for episode in found), None)}


def with_messages(note: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a note of an episode with its first messages, and the number of further ones."""
    shown = [
        {"role": str(message.get("role")), "text": _text_of(message)[:_MAX_CHARACTERS]}
        for message in messages[:_MAX_MESSAGES]
    ]
    return {**note, "messages": shown, "more": max(0, len(messages) - _MAX_MESSAGES)}


def _text_of(message: Mapping[str, Any]) -> str:
    calls = [call_line(call["function"]) for call in message.get("tool_calls") or ()]
    texts = [str(message.get("content") or ""), *calls]
    # Half of a surrogate pair, which a model may write, is no UTF-8.
    return "\n".join(filter(None, texts)).encode("utf-8", "replace").decode()
