"""Episodes as samples of Inspect's logs, ``.eval`` files, and back.

A log is written sample by sample, without the package inspect-ai; only reading one needs it.
"""

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import IO, Any, Self
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from openenv._extras import install_command
from openenv.core.documents import MAX_JSON_BYTES, check_json_size, open_regular
from openenv.core.exceptions import ConfigurationError
from openenv.traces.episodes import Conversation, Episode, EpisodeRecord
from openenv.traces.formats.messages import Message, entries_of_messages, messages_of

__all__ = ["InspectLogWriter", "read_log"]

_OWN = "openenv"
_SCORE = "reward"
_REASONING = "reasoning"
_SAMPLE_NAME = re.compile(r"samples/(?P<id>.+)_epoch_(?P<epoch>\d{1,9})\.json")
_ZIP_ZSTANDARD = 93
_COMPRESSIONS = (ZIP_STORED, ZIP_DEFLATED, _ZIP_ZSTANDARD)
# Bytes that anything may unpack to, and how many times its size beyond: agents repeat texts again and again.
_SMALL = 64 * 1024 * 1024
_MAX_REPEATED = 100
# Bytes that are unpacked at once: of these, Zstandard makes a hundred million at most.
_PIECE = 4096


class InspectLogWriter:
    """Writer of a log, episode by episode; a context manager, at whose end the log is complete."""

    def __init__(self, file: IO[bytes], task: str = "openenv") -> None:
        self._zip = ZipFile(file, "w", ZIP_DEFLATED)
        self._task = task
        self._created = datetime.now(UTC).isoformat()
        self._summaries: list[dict[str, Any]] = []
        self._rewards: list[float] = []

    def __enter__(self) -> Self:
        """Begin the log."""
        self._write("_journal/start.json", {"version": 2, "eval": self._spec(), "plan": {}})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Complete the log, unless something went wrong."""
        try:
            if kind is None:
                self._write("summaries.json", self._summaries)
                self._write("header.json", self._header())
        finally:
            self._zip.close()

    def add(self, record: EpisodeRecord) -> None:
        """Add an episode as a sample."""
        sample = _sample_of(record)
        self._write(f"samples/{sample['id']}_epoch_1.json", sample)
        shown = ("id", "epoch", "target", "scores", "uuid")
        self._summaries.append({**{name: sample[name] for name in shown}, "input": str(sample["input"])[:1000]})
        if record.episode.reward is not None:
            self._rewards.append(record.episode.reward)

    def _write(self, name: str, document: Any) -> None:
        self._zip.writestr(name, json.dumps(document))

    def _spec(self) -> dict[str, Any]:
        names = [summary["id"] for summary in self._summaries]
        return {
            "created": self._created,
            "task": self._task,
            "dataset": {"name": self._task, "samples": len(names), "sample_ids": names},
            "model": "none/openenv",
            "config": {},
        }

    def _header(self) -> dict[str, Any]:
        count = len(self._summaries)
        mean = {"mean": {"name": "mean", "value": fmean(self._rewards)}} if self._rewards else {}
        return {
            "version": 2,
            "status": "success",
            "eval": self._spec(),
            "plan": {},
            "results": {
                "total_samples": count,
                "completed_samples": count,
                "scores": [{"name": _SCORE, "scorer": _SCORE, "metrics": mean}],
            },
            "stats": {"started_at": self._created, "completed_at": datetime.now(UTC).isoformat()},
        }


def read_log(path: Path) -> Iterator[EpisodeRecord]:
    """Read the episodes of a log, whatever has written it.

    Raises:
        ConfigurationError: The file is no log of Inspect's, or the package inspect-ai is not installed.
    """
    try:
        from inspect_ai.log import read_eval_log_sample
    except ImportError as error:
        raise ConfigurationError(
            f"Reading Inspect's logs needs the package inspect-ai: {install_command('inspect')}"
        ) from error
    try:
        with open_regular(path) as file, ZipFile(file) as log, TemporaryDirectory() as folder:
            alone = Path(folder) / "sample.eval"
            for name, content in _samples_in(log, path.stat().st_size):
                # By itself: Inspect unpacks all that there is, and reads the whole list of contents for each sample.
                with ZipFile(alone, "w") as single:
                    single.writestr(name[0], content)
                sample = read_eval_log_sample(str(alone), name["id"], int(name["epoch"]))
                yield _record_of(sample.model_dump(mode="json"))
    except ConfigurationError:
        raise
    except _errors_of_others() as error:
        raise ConfigurationError(
            f"Expected {path} to be a log of Inspect's, got a file that is not: {error}"
        ) from error


def _samples_in(log: ZipFile, size: int) -> Iterator[tuple[re.Match[str], bytes]]:
    """Unpack the samples of a log one after another, each with its name; a small file may stand for terabytes."""
    left = _SMALL + _MAX_REPEATED * size
    for member in log.infolist():
        name = _SAMPLE_NAME.fullmatch(member.filename)
        if name is None:
            continue
        if member.compress_type not in _COMPRESSIONS:
            raise ValueError(f"{member.filename} is compressed by a method that logs do not have")
        content = _unpacked(log, member, min(left, _SMALL + _MAX_REPEATED * member.compress_size, MAX_JSON_BYTES))
        check_json_size(content)
        left -= len(content)
        yield name, content


def _unpacked(log: ZipFile, member: ZipInfo, limit: int) -> bytes:
    content = bytearray()
    with log.open(member) as stream:
        for piece in iter(partial(stream.read, _PIECE), b""):
            content += piece
            if len(content) > limit:
                raise ValueError(f"{member.filename} unpacks to more than the {limit} bytes that it may have")
    return bytes(content)


def _errors_of_others() -> tuple[type[Exception], ...]:
    """Return the exceptions of reading a file that is no log; up to Python 3.13, Inspect installs zstandard."""
    known = (OSError, ValueError, LookupError, TypeError, RuntimeError, BadZipFile, zlib.error, EOFError)
    try:
        from zstandard import ZstdError
    except ImportError:
        return known
    return (*known, ZstdError)


def _sample_of(record: EpisodeRecord) -> dict[str, Any]:
    episode, conversation = record.episode, record.conversation
    messages = [_written(message) for message in messages_of(record)]
    scores: dict[str, Any] = {score.name: {"value": score.reward} for score in record.scores}
    if episode.reward is not None:
        scores[_SCORE] = {"value": episode.reward, "metadata": {"components": dict(record.components)}}
    return {
        "id": episode.id or episode.session,
        "epoch": 1,
        "uuid": episode.episode_id or f"{episode.session}/{episode.id}",
        "input": messages[0]["content"] if messages else "",
        "target": "",
        "messages": messages,
        "output": {"model": "" if conversation is None else conversation.model or ""},
        "scores": scores,
        "metadata": {_OWN: asdict(record)},
        "total_time": None if episode.ended_at is None else max(0.0, episode.ended_at - episode.started_at),
    }


def _written(message: Message) -> dict[str, Any]:
    """Write a message in Inspect's form."""
    written: dict[str, Any] = {"role": message["role"], "content": message.get("content") or ""}
    if message["role"] == "tool":
        written |= {"tool_call_id": message.get("tool_call_id"), "function": message.get("name")}
    if message.get("tool_calls"):
        written["tool_calls"] = [_written_call(call) for call in message["tool_calls"]]
    return written


def _written_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = function["arguments"]
    return {
        "id": call["id"],
        "type": "function",
        "function": function["name"],
        "arguments": arguments if isinstance(arguments, Mapping) else {"arguments": arguments},
    }


def _record_of(sample: Mapping[str, Any]) -> EpisodeRecord:
    own = (sample.get("metadata") or {}).get(_OWN)
    return EpisodeRecord.of_fields(_foreign(sample) if own is None else own)


def _foreign(sample: Mapping[str, Any]) -> EpisodeRecord:
    messages = [_read(message) for message in sample["messages"]]
    began, ended = (_seconds(sample.get(name)) for name in ("started_at", "completed_at"))
    entries = list(entries_of_messages(messages, at=began or 0.0))
    usage = list((sample.get("model_usage") or {}).values())
    name = sample.get("uuid") or f"{sample['id']}/{sample['epoch']}"
    conversation = Conversation(
        episode_id=name,
        messages=messages,
        model=(sample.get("output") or {}).get("model") or None,
        input_tokens=sum(each.get("input_tokens") or 0 for each in usage) if usage else None,
        output_tokens=sum(each.get("output_tokens") or 0 for each in usage) if usage else None,
        took_s=sample.get("total_time"),
        extra=_extra_of(sample),
    )
    episode = Episode(
        id="",
        environment="inspect",
        version=None,
        session=name,
        transport="import",
        started_at=began or 0.0,
        ended_at=ended,
        episode_id=name,
        seed=None,
        split=None,
        index=str(sample["id"]),
        steps=len(entries) - 1,
        reward=_reward_of(sample.get("scores") or {}),
        ending="imported",
        error=None,
        parent=None,
    )
    return EpisodeRecord(episode, entries, [conversation])


def _extra_of(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields for which an episode has no column."""
    extra = {"epoch": sample["epoch"], "target": sample.get("target"), "scores": sample.get("scores") or {}}
    if sample.get("error"):
        extra["error"] = sample["error"]["message"]
    if sample.get("limit"):
        extra["limit"] = sample["limit"]["type"]
    return extra


def _reward_of(scores: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return the first score that is a number, or is ``correct`` or ``incorrect``."""
    letters = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
    for score in scores.values():
        value = score.get("value")
        if isinstance(value, str) and value in letters:
            return letters[value]
        if isinstance(value, int | float):
            return float(value)
    return None


def _read(message: Mapping[str, Any]) -> Message:
    """Read a message of Inspect's into OpenAI's form, in which reasoning is beside the text."""
    content = message.get("content") or ""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    read: Message = {"role": message["role"], "content": _text(parts)}
    reasoning = "\n".join(filter(None, map(_reasoning, parts)))
    if reasoning:
        read["reasoning_content"] = reasoning
    if message["role"] == "tool":
        if message.get("error"):  # which replaces the content, as Inspect shows it to models
            read["content"] = f"Error: {message['error']['message']}"
        read |= {"tool_call_id": message.get("tool_call_id"), "name": message.get("function")}
    calls = message.get("tool_calls") or []
    if calls:
        read["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["function"], "arguments": call["arguments"]},
            }
            for call in calls
        ]
    return read


def _text(parts: Sequence[Mapping[str, Any]]) -> str:
    shown = (part for part in parts if part.get("type") != _REASONING)
    return "\n".join(part["text"] if part.get("type") == "text" else f"[{part.get('type')}]" for part in shown)


def _reasoning(part: Mapping[str, Any]) -> str | None:
    """Return a part's reasoning as far as it can be read; ``None`` for another part."""
    if part.get("type") != _REASONING:
        return None
    reasoning: str | None = part.get("summary") if part.get("redacted") else part["reasoning"]
    return reasoning


def _seconds(timestamp: str | None) -> float | None:
    return datetime.fromisoformat(timestamp).timestamp() if timestamp else None
