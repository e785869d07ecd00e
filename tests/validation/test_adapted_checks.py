"""Checks of other worlds' environments."""

from typing import Any

import gymnasium
import pytest
from gymnasium import spaces
from tests.support.outcomes import outcomes

from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError
from openenv.validation.adapted_checks import validate_adapted
from openenv.validation.types import Level


class FaultyEnv(gymnasium.Env[Any, Any]):
    """Shows what it was told to; a reset shows another number each time."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Discrete(9)

    def __init__(self, first: int = 0, grows: int = 0, fails: bool = False) -> None:
        self._next, self._grows, self._fails = first, grows, fails

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if self._fails:
            raise RuntimeError("out of order")
        self._next += self._grows
        return self._next - self._grows, {}


gymnasium.register("Tests/Faulty-v0", entry_point=f"{__name__}:FaultyEnv")


def statuses(env_id: str) -> dict[str, str]:
    found = outcomes(validate_adapted(f"gymnasium:{env_id}").results)
    return {check_id.removeprefix("runtime."): outcome.status for check_id, outcome in found.items()}


def test_a_good_one_passes() -> None:
    report = validate_adapted("gymnasium:CartPole-v1")
    assert report.verdict == "pass"
    assert report.target == "gymnasium:CartPole-v1"
    assert report.levels_run == [Level.RUNTIME]


def test_an_observation_outside_of_its_space_fails() -> None:
    assert statuses("Tests/Faulty-v0?first=12") == {"schemas": "pass", "reset": "fail", "seed_control": "warn"}


def test_a_reset_that_raises_fails() -> None:
    report = validate_adapted("gymnasium:Tests/Faulty-v0?fails=true")
    assert report.verdict == "fail"
    assert "out of order" in report.results[1].evidence[0]


def test_a_seed_that_promises_nothing_is_a_warning() -> None:
    assert statuses("Tests/Faulty-v0?grows=1") == {"schemas": "pass", "reset": "pass", "seed_control": "warn"}


def test_what_is_not_there_can_not_be_checked() -> None:
    with pytest.raises(EnvironmentNotFoundError):
        validate_adapted("gymnasium:Nothing-v0")
    with pytest.raises(ConfigurationError):
        validate_adapted("gymnasium:CartPole-v1?color=red")
