"""The dataset of an EnvSpec: prompts, and the columns of tasks."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from openenv.core.client.tools import TRAINER_COLUMNS
from openenv.core.exceptions import ConfigurationError
from openenv.train.tools.contents import joined

if TYPE_CHECKING:
    from datasets import Dataset  # type: ignore[import-untyped]

__all__ = ["Prompt", "dataset_of", "is_dataset", "messages_of_row"]

Prompt = list[dict[str, Any]]


def is_dataset(tasks: Any) -> bool:
    """Return whether tasks are a ``datasets.Dataset``, without importing its library."""
    datasets = sys.modules.get("datasets")  # a dataset is there only where its library was imported
    return datasets is not None and isinstance(tasks, datasets.Dataset)


def messages_of_row(prompt: Any) -> Prompt:
    """Return the prompt of a dataset's row as a conversation, to whose last message the first observation is added.

    Raises:
        ConfigurationError: It is neither a text nor a conversation.
    """
    if isinstance(prompt, str):
        return [{"role": "user", "content": f"{prompt}\n\n" if prompt else ""}]
    if not isinstance(prompt, list) or not prompt or not all(isinstance(each, Mapping) for each in prompt):
        raise ConfigurationError(f"Expected each prompt as a text, or as a list of messages; got {prompt!r:.200}.")
    *before, last = (dict(message) for message in prompt)
    content = last.get("content") or ""
    return [*before, {**last, "content": joined(content, "\n\n") if content else ""}]


def dataset_of(prompts: list[Prompt], rows: list[dict[str, Any]], **columns: list[Any]) -> "Dataset":
    """Return prompts with what tasks have in common as columns."""
    from datasets import Dataset

    names = dict.fromkeys(name for row in rows for name in row)
    named = {name: [row.get(name) for row in rows] for name in names if name not in TRAINER_COLUMNS}
    kept = {name: values for name, values in named.items() if _is_column(values)}
    return Dataset.from_dict({"prompt": prompts, **columns, **kept})


def _is_column(values: list[Any]) -> bool:
    """Whether values can stand in one column: of one type. Others are left to the task itself."""
    import pyarrow as pa  # datasets brings it

    try:
        pa.array(values)
    except (pa.ArrowException, OverflowError):
        return False
    return True
