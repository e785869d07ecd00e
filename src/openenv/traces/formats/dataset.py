"""Episodes as a dataset of the library ``datasets``, which TRL trains on."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from openenv._extras import install_command
from openenv.core.exceptions import ConfigurationError
from openenv.traces.episodes import Filter
from openenv.traces.formats.messages import row_of
from openenv.traces.reading import TraceFile

if TYPE_CHECKING:
    from datasets import Dataset  # type: ignore[import-untyped]

__all__ = ["dataset"]


def dataset(
    path: str | Path, where: Filter | None = None, limit: int | None = None, *, cache_dir: str | Path | None = None
) -> "Dataset":
    """Return episodes as a dataset, with a row for each, newest first. They are read one after another.

    Args:
        path: File of traces.
        where: Filter; by default all but evaluations (`openenv.traces.Episode.is_evaluation`).
        limit: Maximum number of episodes, the newest.
        cache_dir: Folder for the dataset's files; by default that of ``datasets``.

    Returns:
        The dataset, with the columns of ``openenv.traces.row_of``: ``messages`` and ``tools`` for TRL's ``SFTTrainer``,
        ``reward``, ``components``, tokens and others.

    Raises:
        ConfigurationError: No episode passes the filter, the file can't be read, or ``datasets`` is not installed.

    Example::

        SFTTrainer(model, train_dataset=traces.dataset("traces.db", Filter(min_reward=0.9))).train()
    """
    try:
        from datasets import Dataset, Features, Json, List, Value
    except ImportError as error:
        raise ConfigurationError(
            f"Datasets of episodes need the package datasets: {install_command('train')}"
        ) from error
    where = (where or Filter()).for_training()
    with TraceFile(path) as traces:
        if not list(traces.episodes(where, 1)):
            raise ConfigurationError(f"Expected episodes in {traces.name} that pass the filter, found none.")
    text, number, whole = Value("string"), Value("float64"), List(Value("int64"))
    features = Features(
        {
            "id": text,
            "environment": text,
            "version": text,
            "task": Json(),
            "messages": List(Json()),
            "tools": List(Json()),
            "reward": number,
            "rewards": List(number),
            "components": Json(),
            "scores": Json(),
            "length": Value("int64"),
            **dict.fromkeys(("ending", "label", "model"), text),
            "prompt_ids": whole,
            "completion_ids": whole,
            "logprobs": List(number),
            "env_mask": whole,
        }
    )
    # The number is part of what the library knows its cached files by: the file of traces may have changed.
    arguments = {"path": str(path), "where": where, "limit": limit, "reading": uuid4().hex}
    made: Dataset = Dataset.from_generator(
        _rows, features=features, gen_kwargs=arguments, cache_dir=None if cache_dir is None else str(cache_dir)
    )
    return made


def _rows(path: str, where: Filter | None, limit: int | None, reading: str) -> Iterator[dict[str, Any]]:
    with TraceFile(path) as traces:
        yield from map(row_of, traces.records(where, limit))
