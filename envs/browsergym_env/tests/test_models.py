import json
import subprocess
import sys

import numpy as np
import pytest
from pydantic import ValidationError

from browsergym_env import BrowserGymAction, BrowserGymObservation, BrowserGymState


def test_the_fields_are_those_of_the_public_package() -> None:
    assert BrowserGymObservation().model_dump() == {
        "done": False,
        "reward": None,
        "metadata": {},
        "text": "",
        "url": "",
        "screenshot": None,
        "goal": "",
        "axtree_txt": "",
        "pruned_html": "",
        "error": "",
        "last_action_error": False,
    }
    assert BrowserGymState().model_dump() == {
        "episode_id": None,
        "step_count": 0,
        "benchmark": "",
        "task_name": "",
        "task_id": None,
        "goal": "",
        "current_url": "",
        "max_steps": None,
        "cum_reward": 0.0,
    }


def test_a_screenshot_travels() -> None:
    rows = [[[0, 128, 255], [1, 2, 3]]]
    written = BrowserGymObservation(screenshot=np.array(rows, np.uint8)).model_dump_json()
    assert json.loads(written)["screenshot"] == rows
    read = BrowserGymObservation.model_validate_json(written).screenshot
    assert read is not None
    assert read.tolist() == rows


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        (("click", "12"), "click('12')"),
        (("fill", "42", "O'Connor"), "fill('42', \"O'Connor\")"),
        (("fill", "42", "'\""), "fill('42', '\\'\"')"),
        (("scroll", 0, -50.5), "scroll(0, -50.5)"),
        (("select_option", "7", ["a", "b"]), "select_option('7', ['a', 'b'])"),
        (("noop",), "noop()"),
    ],
)
def test_a_call_is_written_with_its_arguments_in_quotes(arguments: tuple[str, ...], written: str) -> None:
    assert BrowserGymAction.call(*arguments).action_str == written
    assert BrowserGymAction.call("click", "1", button="right").action_str == "click('1', button='right')"


@pytest.mark.parametrize("fields", [{}, {"action_str": 1}, {"action_str": "x" * 20_001}, {"action_str": "", "bid": 1}])
def test_anything_else_is_no_action(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        BrowserGymAction.model_validate(fields)


def test_the_client_side_loads_no_browser() -> None:
    program = (
        "import sys, browsergym_env; print({'playwright', 'numpy', 'PIL', 'browsergym_env.server'} & {*sys.modules})"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "set()\n"
