"""Dataset of an EnvSpec: prompts, whose last message has the number of their task, and the columns of tasks."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from openenv.core.client.tools import TRAINER_COLUMNS
from openenv.core.exceptions import ConfigurationError
from openenv.train.tools.contents import joined

if TYPE_CHECKING:
    from datasets import Dataset  # type: ignore[import-untyped]

__all__ = [
    "Prompt",
    "dataset_of",
    "environment_of",
    "foreign_prompt",
    "messages_of_row",
    "numbered",
    "task_number",
    "unnumbered",
]

Prompt = list[dict[str, Any]]
GivenPrompt = Sequence[Mapping[str, Any]] | str

_OWN_DATASET = (
    "TRL passes a rollout_func the prompts alone, without the columns of a dataset of your own: pass that as "
    "EnvSpec(..., tasks=dataset), which keeps its prompts, and train on the spec's train_dataset; or take "
    "environment_factory, whose reset is passed the columns."
)
# Keys of a prompt's last message, which trainers keep, and which no chat template writes.
_TASK = "task"
_ENVIRONMENT = "environment"


def numbered(prompt: Prompt, task: int, environment: str | None = None) -> Prompt:
    """Return a prompt with the number of its task, and among several environments with the name of its own."""
    *before, last = prompt
    named = {} if environment is None else {_ENVIRONMENT: environment}
    return [*before, {**last, _TASK: task, **named}]


def task_number(prompt: GivenPrompt) -> int | None:
    """Return the number of a prompt's task; ``None`` if it has none."""
    number = _last(prompt).get(_TASK)
    return number if isinstance(number, int) else None


def environment_of(prompt: GivenPrompt, names: Collection[str]) -> str:
    """Return the name of a prompt's environment among several; refuse a prompt that has none of these names."""
    name = _last(prompt).get(_ENVIRONMENT)
    if not isinstance(name, str) or name not in names:
        owner = f"these EnvSpecs ({', '.join(names)})"
        raise foreign_prompt(prompt, owner, f"names the environment, under the key {_ENVIRONMENT!r}")
    return name


def foreign_prompt(prompt: GivenPrompt, owner: str, missing: str) -> ConfigurationError:
    """Return the error of a prompt that is of another dataset."""
    return ConfigurationError(
        f"Expected a prompt of the train_dataset of {owner}, got {prompt!r:.200}. "
        f"Its last message {missing}. {_OWN_DATASET}"
    )


def unnumbered(prompt: Sequence[Mapping[str, Any]]) -> Prompt:
    """Return a prompt as a model is shown it, without what `numbered` adds."""
    return [{key: value for key, value in message.items() if key not in (_TASK, _ENVIRONMENT)} for message in prompt]


def _last(prompt: GivenPrompt) -> Mapping[str, Any]:
    last = None if isinstance(prompt, str) or not prompt else prompt[-1]
    return last if isinstance(last, Mapping) else {}


def messages_of_row(prompt: Any) -> Prompt:
    """Return the prompt of a dataset's row as a conversation, to whose last message the first observation is added."""
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
    """Return whether values can stand in one column, being of one type; others are left to the task itself."""
    import pyarrow as pa  # datasets brings it

    try:
        pa.array(values)
    except (pa.ArrowException, OverflowError):
        return False
    return True
