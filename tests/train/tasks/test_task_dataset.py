"""Prompts that say which task they are of, in a dataset of one environment or of several."""

from typing import Any

import pytest

from openenv.core.exceptions import ConfigurationError
from openenv.train.tasks.task_dataset import environment_of, numbered, task_number, unnumbered

PROMPT = [{"role": "system", "content": "Climb."}, {"role": "user", "content": "Up?"}]


def test_a_prompt_says_its_task_and_its_environment_until_it_is_shown() -> None:
    one, several = numbered(PROMPT, 3), numbered(PROMPT, 3, "stairs")
    assert one == [PROMPT[0], {**PROMPT[1], "task": 3}]
    assert (task_number(one), task_number(several)) == (3, 3)
    assert environment_of(several, ["hills", "stairs"]) == "stairs"
    assert unnumbered(several) == unnumbered(one) == PROMPT


@pytest.mark.parametrize("prompt", ["text", [], PROMPT, [{"environment": "lakes"}], [{"environment": ["stairs"]}]])
def test_a_prompt_of_another_dataset_has_neither(prompt: Any) -> None:
    assert task_number(prompt) is None
    with pytest.raises(ConfigurationError, match=r"of these EnvSpecs \(hills, stairs\).*the key 'environment'"):
        environment_of(prompt, ["hills", "stairs"])
