"""The tasks of a SkyRL-Gym environment: the rows of a dataset, as SkyRL's trainer reads them."""

from typing import Any

from openenv.core.tasks import Task


def check_task(task: Task) -> None:
    """Check a row.

    Raises:
        ValueError: It has no prompt.
    """
    messages_of(task.get("prompt"))


def messages_of(prompt: Any) -> list[dict[str, Any]]:
    """Return a prompt as messages; a text is a message of the user.

    Raises:
        ValueError: It is neither.
    """
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    if isinstance(prompt, list) and all(map(_is_message, prompt)):
        return [dict(each) for each in prompt]
    raise ValueError(
        f'expected a prompt to be a text or messages like {{"role": "user", "content": "..."}}, got {prompt!r:.100}'
    )


def _is_message(each: Any) -> bool:
    return isinstance(each, dict) and {"role", "content"} <= each.keys()
