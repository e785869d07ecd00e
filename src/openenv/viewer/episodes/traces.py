"""Traces of the episodes of a folder: the line of an episode and its trace have the task, the reward and the number."""

from openenv.records.episodes import PlayedEpisode, PlayedTask
from openenv.traces.episodes import Filter
from openenv.traces.reading import TraceFile

# Episodes of one task with the same reward that the number is looked for among.
_MAX_ALIKE = 32


def trace_of(traces: TraceFile, task: PlayedTask, episode: PlayedEpisode) -> str | None:
    """Return the id of an episode's trace; ``None`` where it is not found."""
    seed, split, index = (_text(task.task.get(name)) for name in ("seed", "split", "index"))
    alike = Filter(seed=seed, split=split, index=index, min_reward=episode.reward, max_reward=episode.reward)
    for found in traces.episodes(alike, _MAX_ALIKE):
        if any(conversation.extra.get("index") == episode.index for conversation in traces.conversations(found.id)):
            return found.id
    return None


def _text(value: object) -> str | None:
    return None if value is None else str(value)
