"""Environments in every form that an author may write, each played on a real server."""

import asyncio
from typing import Any, Generic, TypeVar

import pytest
from pydantic import BaseModel
from tests.conftest import Serve
from tests.support.environments.common import (
    Add,
    AsyncCounterEnvironment,
    CounterEnvironment,
    PlainAdd,
    PlainTotal,
    Total,
)

from openenv.core.env_server import interfaces, types
from openenv.core.env_server.interfaces import Environment, Transform
from openenv.core.env_server.types import EnvironmentMetadata, Observation, State


class Form(Environment[Add, Total, State]):
    """What the forms below share: step shows the amount, and the state counts."""

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        return Total(total=0)

    def step(self, action: Add, *args: Any, **kwargs: Any) -> Any:
        return Total(total=action.amount, reward=0.5, done=True)

    @property
    def state(self) -> Any:
        return State(episode_id="e", step_count=1)


class Plain(Form):
    """Takes nothing, calls no ``super().__init__()``."""

    def __init__(self) -> None:
        self.amounts: list[int] = []

    def reset(self) -> Any:
        return Total(total=0)


class Triple(Form):
    def step(self, action: Add) -> Any:
        return Total(total=action.amount), 0.5, True


class Quadruple(Form):
    def step(self, action: Add) -> Any:
        return Total(total=action.amount), 0.5, True, {"why": "enough"}


class Terminated(Form):
    def reset(self, *, seed: int | None = None) -> Any:
        return Total(total=0), {"seed": seed}

    def step(self, action: Add) -> Any:
        return Total(total=action.amount), 0.5, True, False, {"why": "enough"}


class Truncated(Form):
    def step(self, action: Add) -> Any:
        return Total(total=action.amount), 0.5, False, True, {}


class PlainModel(Form):
    def reset(self) -> Any:
        return PlainTotal(total=0)

    def step(self, action: Any) -> Any:
        assert isinstance(action, PlainAdd)
        return PlainTotal(total=action.amount), 0.5, True


class PlainModelWithFields(Form):
    def step(self, action: Any) -> Any:
        class Scored(BaseModel):
            total: int
            reward: float = 0.5
            done: bool = True

        return Scored(total=action.amount)


class AsyncMethods(Form):
    async def reset(self) -> Any:
        await asyncio.sleep(0)
        return Total(total=0)

    async def step(self, action: Add) -> Any:
        await asyncio.sleep(0)
        return Total(total=action.amount), 0.5, True


class AsyncOverrides(Form):
    def reset(self) -> Any:
        raise AssertionError("the async form should have been called")

    step = reset  # type: ignore[assignment]

    async def reset_async(self, seed: int | None = None) -> Any:
        return Total(total=0)

    async def step_async(self, action: Add) -> Any:
        return Total(total=action.amount, reward=0.5, done=True)


class AsyncStepOnly(Form):
    async def step_async(self, action: Add) -> Any:
        return Total(total=action.amount, reward=0.5, done=True)


class StateMethod(Form):
    def state(self) -> Any:  # type: ignore[override]
        return State(episode_id="e", step_count=1)


class StateDictionary(Form):
    @property
    def state(self) -> Any:
        return {"episode_id": "e", "step_count": 1}


class StateAttribute(Form):
    state: Any = None

    def __init__(self) -> None:
        self.state = State(episode_id="e", step_count=1)


OpenT = TypeVar("OpenT", bound=BaseModel)


class Middle(Environment[OpenT, Total, State], Generic[OpenT]):
    """A generic base between."""

    def reset(self, seed: int | None = None) -> Total:
        return Total(total=0)

    @property
    def state(self) -> State:
        return State(episode_id="e", step_count=1)


class Leaf(Middle[Add]):
    def step(self, action: Add) -> Total:
        return Total(total=action.amount, reward=0.5, done=True)


class Slotted(Form):
    __slots__ = ("x",)

    def __init__(self) -> None:
        self.x = 1


class DuckTyped:
    """Inherits from nothing of OpenEnv."""

    def reset(self) -> Total:
        return Total(total=0)

    def step(self, action: Add) -> Total:
        return Total(total=action.amount, reward=0.5, done=True)

    def state(self) -> State:
        return State(episode_id="e", step_count=1)

    def close(self) -> None:
        """Nothing to close."""


FORMS = [
    Form,
    Plain,
    Triple,
    Quadruple,
    Terminated,
    Truncated,
    PlainModel,
    PlainModelWithFields,
    AsyncMethods,
    AsyncOverrides,
    AsyncStepOnly,
    StateMethod,
    StateDictionary,
    StateAttribute,
    Leaf,
    Slotted,
    DuckTyped,
]
METADATA: dict[type, dict[str, Any]] = {
    Quadruple: {"why": "enough"},
    Terminated: {"why": "enough", "terminated": True, "truncated": False},
    Truncated: {"terminated": False, "truncated": True},
}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("blocking", [True, False], ids=["thread", "inline"])
def test_every_form_is_played(serve: Serve, form: type, blocking: bool) -> None:
    environment = type(form.__name__, (form,), {"BLOCKING": blocking})
    action = PlainAdd if form is PlainModel else Add
    server = serve(environment, action, Total, max_concurrent_envs=1)
    with server.wire() as wire:
        first = wire.reset(seed=3, episode_id="x", level=2)["data"]
        assert first["observation"]["total"] == 0
        assert (first["reward"], first["done"]) == (None, False)
        data = wire.step(amount=4)["data"]
        assert data["observation"]["total"] == 4
        assert "reward" not in data["observation"]
        assert (data["reward"], data["done"]) == (0.5, True)
        assert data.get("metadata", {}) == METADATA.get(form, {})
        assert wire.state()["data"] == {"episode_id": "e", "step_count": 1}
    server.wait_for_sessions(0)


def test_gymnasium_s_info_of_a_reset_is_its_metadata(serve: Serve) -> None:
    with serve(Terminated, max_concurrent_envs=1).wire() as wire:
        assert wire.reset(seed=3)["data"]["metadata"] == {"seed": 3}


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        ({}, {}),
        ({"seed": 1}, {"seed": 1}),
        ({"seed": 1, "episode_id": "e", "level": 2, "x": 3}, {"seed": 1, "level": 2}),
    ],
)
def test_reset_is_passed_what_its_signature_accepts(serve: Serve, sent: Any, received: Any) -> None:
    class Picky(Form):
        def reset(self, seed: int = -1, *, level: int = -1) -> Any:
            given = {"seed": seed, "level": level}
            return Total(total=0, metadata={name: value for name, value in given.items() if value != -1})

    with serve(Picky, max_concurrent_envs=1).wire() as wire:
        assert wire.reset(**sent)["data"].get("metadata", {}) == received


class Doubled(Transform[Total]):
    def __call__(self, observation: Total) -> Total:
        return observation.model_copy(update={"total": 2 * observation.total})


class TestDefaults:
    def test_the_class_is_abstract(self) -> None:
        with pytest.raises(TypeError, match="abstract"):
            Environment()  # type: ignore[abstract]

    def test_metadata(self) -> None:
        assert Plain().get_metadata() == EnvironmentMetadata(
            name="Plain", description="Plain environment", version="1.0.0"
        )

    def test_hooks_for_people(self) -> None:
        environment = Plain()
        assert environment.render() is None
        assert environment.render_web({}) is None
        assert environment.web_actions({}) == []

    def test_helpers_work_without_the_initialiser(self) -> None:
        environment = Plain()
        seen, action = Total(total=1), Add(amount=1)
        assert environment._apply_transform(seen) is seen  # for authors
        assert environment._apply_rubric(action, seen) == 0.0
        environment._reset_rubric()

    def test_a_transform(self) -> None:
        environment = Form(transform=Doubled())
        assert environment._apply_transform(Total(total=2)).total == 4

    def test_a_rubric(self) -> None:
        resets: list[int] = []

        class Judge:
            def __call__(self, action: Add, observation: Total) -> int:
                return action.amount + observation.total

            def reset(self) -> None:
                resets.append(1)

        environment = Form(rubric=Judge())
        score = environment._apply_rubric(Add(amount=1), Total(total=2))
        assert (score, type(score)) == (3.0, float)
        environment._reset_rubric()
        assert resets == [1]

    async def test_an_async_rubric(self) -> None:
        resets: list[int] = []

        class Judge:
            async def __call__(self, action: Add, observation: Total) -> float:
                return 0.25

            async def reset_async(self) -> None:
                resets.append(1)

        environment = Form(rubric=Judge())
        assert await environment._apply_rubric_async(Add(amount=1), Total(total=2)) == 0.25
        await environment._reset_rubric_async()
        assert resets == [1]

    async def test_async_helpers_without_a_rubric(self) -> None:
        environment = Plain()
        assert await environment._apply_rubric_async(Add(amount=1), Total(total=2)) == 0.0
        await environment._reset_rubric_async()

    async def test_async_forms_delegate_to_plain_ones(self) -> None:
        for environment in (CounterEnvironment(), AsyncCounterEnvironment()):
            assert (await environment.reset_async(seed=1)).metadata == {"seed": 1}
            assert (await environment.step_async(Add(amount=2))).total == 2

    def test_the_types_are_importable_from_here(self) -> None:
        for name in ("Action", "Observation", "State", "EnvironmentMetadata"):
            assert getattr(interfaces, name) is getattr(types, name)
        assert issubclass(Observation, BaseModel)
