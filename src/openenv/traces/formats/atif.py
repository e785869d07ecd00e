"""Episodes as trajectories of ATIF, Harbor's format, and back.

The reset is a step of the user, each action a step of the agent, with the tool that it calls and its result. What ATIF
has no field for (seed, task, rewards, times, the exact answers, tokens of the whole episode) is in ``extra.openenv``,
from which an import makes the same episode again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from openenv.core.exceptions import ConfigurationError
from openenv.traces.episodes import RESET, Conversation, Entry, Episode, EpisodeRecord
from openenv.traces.formats.messages import action_call, entries_of_messages, shown

__all__ = ["record_of", "trajectory_of"]

VERSION = "ATIF-v1.8"
_OWN = "openenv"

_Answer = tuple[list[int], list[float]]
"""Tokens of one answer of a model, and their log-probabilities."""


def trajectory_of(record: EpisodeRecord) -> dict[str, Any]:
    """Return an episode as a trajectory."""
    episode, conversation = record.episode, record.conversation
    actions = sum(entry.kind != RESET for entry in record.entries)
    answers = iter(_answers_of(conversation, actions))
    steps = [
        _step_of(number, entry, conversation, None if entry.kind == RESET else next(answers))
        for number, entry in enumerate(record.entries, 1)
    ]
    return {
        "schema_version": VERSION,
        "session_id": episode.session,
        "trajectory_id": episode.episode_id or f"{episode.session}/{episode.id}",
        "agent": _agent_of(conversation),
        "steps": steps or [{"step_id": 1, "source": "system", "message": "The episode has no entries."}],
        "final_metrics": _metrics_of(record, len(steps) or 1),
        "extra": {
            _OWN: {
                "episode": asdict(episode),
                "conversations": [asdict(each) for each in record.conversations],
                "scores": [asdict(each) for each in record.scores],
            }
        },
    }


def record_of(trajectory: Any) -> EpisodeRecord:
    """Return the episode of a trajectory, whatever has written it.

    Raises:
        ConfigurationError: It is none.
    """
    if not isinstance(trajectory, Mapping) or not str(trajectory.get("schema_version", "")).startswith("ATIF-v1."):
        raise ConfigurationError(
            f"Expected a trajectory of ATIF 1, with a schema_version such as {VERSION}, got {trajectory!r:.100}."
        )
    try:
        own = (trajectory.get("extra") or {}).get(_OWN)
        return EpisodeRecord.of_fields(_foreign(trajectory) if own is None else _own_fields(trajectory, own))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ConfigurationError(f"The trajectory is not as ATIF has it: {error!r}.") from error


def _step_of(number: int, entry: Entry, conversation: Conversation | None, answer: _Answer | None) -> dict[str, Any]:
    own = {name: value for name, value in asdict(entry).items() if name != "at"}
    step = {"step_id": number, "timestamp": _iso(entry.at), "extra": {_OWN: {**own, "at": entry.at}}}
    if entry.kind == RESET:
        return {**step, "source": "user", "message": shown(entry)}
    name, arguments = action_call(entry.request) or ("step", _arguments(entry.request))
    call = {"tool_call_id": f"call{number:05}", "function_name": name, "arguments": dict(arguments)}
    result = {"source_call_id": call["tool_call_id"], "content": shown(entry)}
    step |= {"source": "agent", "message": "", "tool_calls": [call], "observation": {"results": [result]}}
    if conversation is None:
        step["llm_call_count"] = 0
    elif answer is not None:
        step["metrics"] = {"completion_token_ids": answer[0], "logprobs": answer[1]}
    return step


def _answers_of(conversation: Conversation | None, count: int) -> Sequence[_Answer | None]:
    """Return the tokens of each of a model's answers; nothing where there are not as many answers as actions."""
    if conversation is None:
        return [None] * count
    tokens = zip(conversation.completion_ids, conversation.logprobs, conversation.env_mask, strict=False)
    runs = [(is_written, list(run)) for is_written, run in groupby(tokens, key=lambda token: token[2])]
    answers = [([token[0] for token in run], [token[1] for token in run]) for is_written, run in runs if is_written]
    return answers if len(answers) == count else [None] * count


def _agent_of(conversation: Conversation | None) -> dict[str, Any]:
    if conversation is None:
        return {"name": "openenv", "version": "unknown"}
    agent: dict[str, Any] = {"name": "openenv", "version": conversation.model_version or "unknown"}
    if conversation.model is not None:
        agent["model_name"] = conversation.model
    if conversation.tools:
        agent["tool_definitions"] = list(conversation.tools)
    return agent


def _metrics_of(record: EpisodeRecord, steps: int) -> dict[str, Any]:
    metrics: dict[str, Any] = {"total_steps": steps, "extra": {"reward": record.episode.reward}}
    conversation = record.conversation
    if conversation is not None:
        known = {
            "total_prompt_tokens": conversation.input_tokens,
            "total_completion_tokens": conversation.output_tokens,
            "total_cost_usd": conversation.cost_usd,
        }
        metrics |= {name: value for name, value in known.items() if value is not None}
    return metrics


def _own_fields(trajectory: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    steps = [step["extra"][_OWN] for step in trajectory["steps"] if _OWN in (step.get("extra") or {})]
    return {**own, "entries": steps}


def _foreign(trajectory: Mapping[str, Any]) -> EpisodeRecord:
    agent, steps = trajectory["agent"], trajectory["steps"]
    times = [_seconds(step["timestamp"]) for step in steps if step.get("timestamp")]
    messages = [message for step in steps for message in _messages_of(step)]
    began = times[0] if times else 0.0
    entries = list(entries_of_messages(messages, at=began))
    name = trajectory.get("trajectory_id") or trajectory.get("session_id") or "atif"
    totals = trajectory.get("final_metrics") or {}
    conversation = Conversation(
        episode_id=name,
        messages=messages,
        tools=agent.get("tool_definitions") or [],
        model=agent.get("model_name"),
        input_tokens=totals.get("total_prompt_tokens"),
        output_tokens=totals.get("total_completion_tokens"),
        cost_usd=totals.get("total_cost_usd"),
        extra={"agent": {"name": agent["name"], "version": agent["version"]}},
    )
    episode = Episode(
        id="",
        environment="atif",
        version=None,
        session=trajectory.get("session_id") or name,
        transport="import",
        started_at=began,
        ended_at=times[-1] if times else None,
        episode_id=name,
        seed=None,
        split=None,
        index=None,
        steps=len(entries) - 1,
        reward=None,
        ending="imported",
        error=None,
        parent=None,
    )
    return EpisodeRecord(episode, entries, [conversation])


def _messages_of(step: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    message: dict[str, Any] = {
        "role": "assistant" if step["source"] == "agent" else step["source"],
        "content": _text(step["message"]),
    }
    calls = step.get("tool_calls") or []
    if calls:
        message["tool_calls"] = [
            {
                "id": call["tool_call_id"],
                "type": "function",
                "function": {"name": call["function_name"], "arguments": call["arguments"]},
            }
            for call in calls
        ]
    yield message
    for result in (step.get("observation") or {}).get("results", []):
        content = _text(result.get("content") or "")
        source = result.get("source_call_id")
        yield (
            {"role": "user", "content": content}
            if source is None
            else {"role": "tool", "tool_call_id": source, "content": content}
        )


def _text(content: str | Sequence[Mapping[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or f"[{part['type']}: {part['source']['path']}]" for part in content)


def _arguments(request: Any) -> Mapping[str, Any]:
    return request if isinstance(request, Mapping) else {"action": request}


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def _seconds(timestamp: str) -> float:
    at = datetime.fromisoformat(timestamp)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
