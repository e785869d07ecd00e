"""Every form in which a reset or step may answer."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from tests.support.environments.common import PlainTotal, Total

from openenv.core.exceptions import EnvironmentFailedError
from openenv.core.wire.results import Outcome, WrittenJson, outcome_of

SEEN = Total(total=1, reward=0.5, metadata={"own": 1})


@pytest.mark.parametrize(
    ("returned", "reward", "done", "metadata"),
    [
        (SEEN, 0.5, False, {"own": 1}),
        (Total(total=1, done=True), None, True, {}),
        ((SEEN, {"info": 2}), 0.5, False, {"own": 1, "info": 2}),
        ((SEEN, 1.0, True), 1.0, True, {"own": 1}),
        ((SEEN, None, False), None, False, {"own": 1}),
        ((SEEN, 1.0, True, {"info": 2}), 1.0, True, {"own": 1, "info": 2}),
        (
            (SEEN, 1.0, True, False, {"info": 2}),
            1.0,
            True,
            {"own": 1, "info": 2, "terminated": True, "truncated": False},
        ),
        ((SEEN, 1.0, False, True, {}), 1.0, True, {"own": 1, "terminated": False, "truncated": True}),
        ((SEEN, 1.0, False, False, {}), 1.0, False, {"own": 1, "terminated": False, "truncated": False}),
        ((SEEN, 1.0, False, False, {"own": 3}), 1.0, False, {"own": 3, "terminated": False, "truncated": False}),
        (PlainTotal(total=1), None, False, {}),
        ((PlainTotal(total=1), 2, True), 2, True, {}),
        ((PlainTotal(total=1), {}), None, False, {}),
    ],
    ids=repr,
)
def test_forms(returned: Any, reward: Any, done: bool, metadata: dict[str, Any]) -> None:
    outcome = outcome_of(returned)
    assert (outcome.reward, outcome.done, outcome.metadata) == (reward, done, metadata)
    assert isinstance(outcome.done, bool)


def test_the_observation_itself_is_not_changed() -> None:
    outcome = outcome_of((SEEN, 2.0, True, False, {"info": 1}))
    assert outcome.observation is SEEN
    assert SEEN.model_dump() == {"total": 1, "reward": 0.5, "done": False, "metadata": {"own": 1}}


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(3), 3.0),
        (np.bool_(True), 1.0),
        (np.array(0.25), 0.25),
        (np.array([0.5], np.float32), 0.5),
        (np.array([[2]]), 2.0),
        (True, True),
        (10**300, 10**300),
    ],
    ids=repr,
)
def test_rewards_of_array_libraries_become_numbers(reward: Any, expected: Any) -> None:
    outcome = outcome_of((PlainTotal(total=1), reward, np.bool_(False)))
    assert outcome.reward == expected
    assert type(outcome.reward) in (bool, int, float)
    assert outcome.done is False


@pytest.mark.parametrize(
    "reward",
    [
        float("nan"),
        float("inf"),
        float("-inf"),
        10**400,
        "1.5",
        [1.0],
        np.array([1.0, 2.0]),
        np.array([]),
        np.array(["1.5"]),
        np.array([np.inf]),
        np.float64("nan"),
        pytest.param(object(), id="object"),
        1j,
    ],
    ids=repr,
)
def test_a_reward_that_is_no_finite_number(reward: Any) -> None:
    with pytest.raises(EnvironmentFailedError, match="reward"):
        outcome_of((PlainTotal(total=1), reward, False))


@dataclass
class Lookalike:
    total: int = 1
    reward: float = 0.0
    done: bool = False


@pytest.mark.parametrize(
    "returned",
    [
        None,
        3,
        "text",
        {"total": 1},
        Total,
        Lookalike(),
        [SEEN, 1.0, True],
        (),
        (SEEN,),
        (SEEN, 1.0),
        (SEEN, "info"),
        (None, 1.0, True),
        ({"total": 1}, 1.0, True),
        (SEEN, 1.0, True, "info"),
        (SEEN, 1.0, True, False),
        (SEEN, 1.0, True, False, None),
        (SEEN, 1.0, True, False, {}, 6),
    ],
    ids=repr,
)
def test_what_has_none_of_the_forms_is_named(returned: Any) -> None:
    with pytest.raises(EnvironmentFailedError, match="expected an observation"):
        outcome_of(returned)


@pytest.mark.parametrize("metadata", ["text", ["a"], 3])
def test_a_plain_observation_may_have_a_metadata_field_of_its_own(metadata: Any) -> None:
    class Own(BaseModel):
        metadata: Any

    assert outcome_of(Own(metadata=metadata)).metadata == {}
    assert outcome_of((Own(metadata=metadata), 1.0, True, {"info": 1})).metadata == {"info": 1}


@given(st.booleans(), st.booleans(), st.dictionaries(st.text(), st.integers()))
def test_done_is_either_of_gymnasium_s_two(terminated: bool, truncated: bool, info: dict[str, int]) -> None:
    outcome = outcome_of((PlainTotal(total=1), 0.0, terminated, truncated, info))
    assert outcome.done is (terminated or truncated)
    assert outcome.metadata == info | {"terminated": terminated, "truncated": truncated}


def test_an_outcome_from_another_process_stays_what_it_is() -> None:
    outcome = Outcome(WrittenJson('{"total":1}'), 1, True, {"own": 1})
    assert outcome_of(outcome) is outcome
