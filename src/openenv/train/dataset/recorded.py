"""Episodes of a file of traces, as examples to learn from: what an agent was shown, and what it did."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from openenv.auto.discovery import find_environment
from openenv.core.client_types import StepResult
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError, InvalidRequestError
from openenv.traces.episodes import RESET, Entry, EpisodeRecord, Filter
from openenv.traces.importing import records_in
from openenv.traces.reading import TraceFile
from openenv.train.episodes.episode import Episode
from openenv.train.episodes.played_episode import text_of
from openenv.train.forms.form import Form

__all__ = ["recorded_episodes"]


def recorded_episodes(path: str | Path, environment: str | None, form: Form) -> Iterator[Episode]:
    """Read the recorded episodes of an environment, newest first, from a file, a database or a ``jsonl`` of traces."""
    # Left out are those without steps, with a failed request, or with entries that are not all on record.
    for record in _records_in(path, environment):
        if record.steps and not any(entry.failed for entry in record.entries):
            yield _episode_of(record, form)


def _records_in(path: str | Path, environment: str | None) -> Iterator[EpisodeRecord]:
    """Iterate over the recorded episodes of an environment, without evaluations."""
    if str(path).endswith(".jsonl"):
        there = dict.fromkeys(record.episode.environment for record in records_in(Path(path)))
        names = _names_of(list(there), str(path), environment)
        exported = (record for record in records_in(Path(path)) if record.episode.environment in names)
        yield from (record for record in exported if not record.episode.is_evaluation)
        return
    with TraceFile(path) as traces:
        recorded = [str(group.key["environment"]) for group in traces.groups("environment")]
        for name in _names_of(recorded, traces.name, environment):
            yield from traces.records(Filter(environment=name).for_training())


def _names_of(there: list[str], source: str, environment: str | None) -> list[str]:
    """Return the names under which an environment's episodes are recorded."""
    # A server that was given by its URL has no name here; its file has to be of one environment.
    own = there if environment is None else [name for name in there if _is_same(name, environment)]
    if not own or (environment is None and len(own) > 1):
        raise ConfigurationError(
            f"Expected episodes of {environment or 'one environment'} in {source}, found those of "
            f"{', '.join(there) or 'none'}."
        )
    return own


def _is_same(recorded: str, environment: str) -> bool:
    """Return whether a recorded name is another one of the same environment's, such as that of its package."""
    if recorded == environment:
        return True
    try:
        return find_environment(recorded).name == environment
    except EnvironmentNotFoundError:
        return False


def _episode_of(record: EpisodeRecord, form: Form) -> Episode:
    episode = Episode.of_task(_task_of(record.entries))
    observation = ""
    for entry in record.entries:
        result = StepResult(entry.observation, entry.reward, entry.done)
        if entry.kind != RESET:
            try:
                episode.add_turn(observation, form.move(entry.request).text, result)
            except (InvalidRequestError, ValueError, KeyError) as error:
                raise ConfigurationError(
                    f"The episode {record.episode.id} has {entry.request!r:.100}, which is no action of "
                    f"{record.episode.environment}: {error}"
                ) from error
        observation = text_of(form.shown(result))
    return episode


def _task_of(entries: Sequence[Entry]) -> dict[str, object]:
    first = entries[0]
    return dict(first.request) if first.kind == RESET and isinstance(first.request, dict) else {}
