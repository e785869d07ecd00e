"""Tasks of SkyRL-Gym's environments."""

from typing import Any

import pytest

from openenv.adapters.skyrl.tasks import check_task, messages_of


def test_a_text_is_what_the_user_says() -> None:
    assert messages_of("Hello.") == [{"role": "user", "content": "Hello."}]


def test_messages_are_copied() -> None:
    messages = [{"role": "user", "content": "Hello."}]
    copied = messages_of(messages)
    assert copied == messages
    assert copied[0] is not messages[0]


@pytest.mark.parametrize("prompt", [None, 3, {"role": "user", "content": "x"}, ["x"], [{"role": "user"}]])
def test_anything_else_is_no_prompt(prompt: Any) -> None:
    with pytest.raises(ValueError, match="expected a prompt to be a text or messages"):
        check_task({"prompt": prompt})


def test_a_task_has_a_prompt() -> None:
    with pytest.raises(ValueError, match="got None"):
        check_task({"question": "x"})
