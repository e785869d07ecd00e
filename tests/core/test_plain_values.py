"""NumPy in observations, states, rewards and actions; and what can't be sent, with its place and in the log."""

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
from pydantic import ValidationError
from tests.support.servers import RunningServer

from openenv import Action, Environment, Observation, State
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import RequestRejectedError, ServerExecutionError
from openenv.core.generic_client import GenericEnvClient
from openenv.core.rubrics import Rubric

ARRAYS = {
    "scalars": [numpy.int64(3), numpy.float32(0.5), numpy.bool_(True), numpy.str_("x")],
    "array": numpy.arange(6).reshape(2, 3),
    "deep": {"in": [(numpy.zeros(2, dtype=numpy.uint8),)]},
    "keys": {numpy.int64(1): numpy.float64(2)},
}
PLAIN = {
    "scalars": [3, 0.5, True, "x"],
    "array": [[0, 1, 2], [3, 4, 5]],
    "deep": {"in": [[[0, 0]]]},
    "keys": {"1": 2.0},
}


class Choose(Action):
    what: Any


class Seen(Observation):
    value: Any = None
    number: int = 0
    row: tuple[float, ...] = ()


class Odd:
    """Has no form in JSON."""


class ShowingEnvironment(Environment[Choose, Seen, State]):
    """Shows what is chosen."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False

    def reset(self, seed: int | None = None) -> Seen:
        return Seen(value=ARRAYS, number=numpy.int64(3), row=numpy.ones(2, dtype=numpy.float32))

    def step(self, action: Choose) -> Any:
        table: dict[Any, Callable[[], Any]] = {
            "metadata": lambda: Seen(metadata={"mask": numpy.array([1, 0], dtype=bool)}, reward=numpy.float32(0.5)),
            "odd": lambda: Seen(value={"board": [1, {"cell": Odd()}]}),
            "infinite": lambda: Seen(value={"rates": (1.0, float("inf"))}),
            "nan": lambda: Seen(reward=numpy.float32("nan")),
            "nothing": lambda: None,
        }
        return table[action.what]() if isinstance(action.what, str) else Seen(value=action.what)

    @property
    def state(self) -> State:
        return State(episode_id="e", step_count=1, board=numpy.arange(2))


class ShowingThreadEnvironment(ShowingEnvironment):
    """The same in a thread."""

    BLOCKING = True


@pytest.fixture(scope="module", params=[(ShowingEnvironment, "none"), (ShowingThreadEnvironment, "process")])
def client(request: pytest.FixtureRequest) -> Iterator[Any]:
    environment, isolation = request.param
    with (
        RunningServer(create_fastapi_app(environment, max_concurrent_envs=8, isolation=isolation)) as server,
        GenericEnvClient(base_url=server.url).sync() as client,
    ):
        yield client


def test_arrays_and_scalars_arrive_as_lists_and_numbers(client: Any) -> None:
    seen = client.reset().observation
    assert (seen["value"], seen["number"], seen["row"]) == (PLAIN, 3, [1.0, 1.0])
    result = client.step({"what": "metadata"})
    assert (result.metadata, result.reward) == ({"mask": [True, False]}, 0.5)
    assert client.state()["board"] == [0, 1]


def test_actions_and_parameters_may_hold_them(client: Any) -> None:
    client.reset(seed=numpy.int64(3))
    assert client.step({"what": numpy.arange(3)}).observation["value"] == [0, 1, 2]
    assert client.step(Choose(what=[numpy.float32(0.5)])).observation["value"] == [0.5]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("odd", r"The observation cannot be sent as JSON: Seen\.value\.board\.1\.cell: .*Odd"),
        ("nan", r"The reward is nan; expected a finite number or None\."),
        ("nothing", r"The environment returned NoneType; expected an observation"),
    ],
)
def test_what_is_wrong_is_said_and_in_the_log_with_its_class(
    client: Any, caplog: pytest.LogCaptureFixture, what: str, said: str
) -> None:
    caplog.set_level(logging.ERROR, "openenv")
    client.reset()
    with pytest.raises(ServerExecutionError, match=said):
        client.step({"what": what})
    logged = "\n".join(record.getMessage() for record in caplog.records)
    assert ("Seen.value.board" if what == "odd" else "Environment.step: ") in logged


def test_infinity_arrives_as_null_and_not_in_silence(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "openenv")
    client.reset()
    for _ in range(40):  # not every observation is searched
        assert client.step({"what": "infinite"}).observation["value"] == {"rates": [1.0, None]}
    warned = [record.getMessage() for record in caplog.records if "not finite" in record.getMessage()]
    assert [text.partition(" is")[0] for text in warned] == ["Seen.value.rates.1"]


def test_a_rejected_action_says_what_was_expected_and_what_came(client: Any) -> None:
    client.reset()
    with pytest.raises(RequestRejectedError, match=r": what: Field required; waht: .* not permitted, got 3$"):
        client.step({"waht": 3})


def test_the_core_does_not_import_numpy() -> None:
    program = "import openenv, openenv.core.env_server.app, sys; print('numpy' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60).stdout == "False\n"
    )


@pytest.mark.parametrize("reward", [numpy.array([0.5]), numpy.array([[0.5]], numpy.float32), numpy.float64(0.5)])
def test_a_reward_may_be_an_array_of_one(reward: Any) -> None:
    observation = Observation(reward=reward)
    assert (type(observation.reward), observation.reward) == (float, 0.5)
    observation.reward = reward
    assert observation.reward == 0.5
    with pytest.raises(ValidationError):
        Observation(reward=numpy.array([0.5, 0.5]))


def test_a_score_of_a_rubric_may_be_an_array_of_one() -> None:
    class Half(Rubric):
        def forward(self, action: Any, observation: Any) -> Any:
            return numpy.array([0.5])

    assert Half()(None, None) == 0.5
