"""Reward functions, and where they come from."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from openenv.adapters.mcp_server.rewards import load_reward, reward_of
from openenv.core.exceptions import ConfigurationError

SCORE = """
from dataclasses import dataclass

@dataclass
class Rule:
    right: float = 1.0

def score(task, calls, final):
    return Rule().right if final == task["answer"] else 0

async def score_later(task, calls, final):
    return score(task, calls, final) / 2

number = 7
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "json.py"  # a name that another module has
    path.write_text(SCORE)
    return path


@pytest.mark.parametrize(("name", "full"), [("score", 1.0), ("score_later", 0.5)])
async def test_a_file_has_them_plain_or_async(program: Path, name: str, full: float) -> None:
    function = load_reward(f"{program}:{name}")
    assert await reward_of(function, {"answer": "4"}, (), "4") == full
    assert await reward_of(function, {"answer": "4"}, (), "5") == 0
    import json

    assert json.loads("7") == 7


async def test_a_module_has_them_too() -> None:
    assert load_reward("math:hypot")(3, 4) == 5  # type: ignore[call-arg, arg-type]


async def test_a_plain_one_runs_beside_the_event_loop() -> None:
    threads: list[Any] = []

    def note(_task: Any, _calls: Any, _final: str) -> bool:
        threads.append(threading.current_thread())
        return True

    assert await reward_of(note, None, (), "") == 1.0
    assert threads != [threading.current_thread()]


@pytest.mark.parametrize("named", ["score.py", ":score", "score.py:", ""])
def test_a_name_that_is_none(named: str) -> None:
    with pytest.raises(ConfigurationError, match=r"as in score\.py:reward"):
        load_reward(named)


def test_one_that_is_not_there(program: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="to have a function scores"):
        load_reward(f"{program}:scores")
    with pytest.raises(ConfigurationError, match="to have a function number"):
        load_reward(f"{program}:number")
    for nowhere in (f"{tmp_path / 'nowhere.py'}:score", "no_such_module:score"):
        with pytest.raises(ConfigurationError, match="can't be imported"):
            load_reward(nowhere)
    (tmp_path / "broken.py").write_text("def score(:")
    with pytest.raises(ConfigurationError, match="can't be imported"):
        load_reward(f"{tmp_path / 'broken.py'}:score")


async def test_rewards_that_take_long_do_not_wait_for_each_other() -> None:
    together = threading.Barrier(40, timeout=60)  # far more than asyncio's own threads

    def score(*_: Any) -> int:
        return together.wait() >= 0

    assert await asyncio.gather(*(reward_of(score, None, (), "") for _ in range(40))) == [1.0] * 40
