"""Clients made from an environment's classes."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Annotated, Any, Generic, Literal, TypeVar, cast
from uuid import UUID

import numpy as np
import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, computed_field
from tests.conftest import Serve
from tests.support.environments.common import (
    Add,
    AsyncCounterEnvironment,
    CounterEnvironment,
    Do,
    MischievousEnvironment,
    PlainAdd,
    PlainTotal,
    Shown,
    Total,
)
from tests.support.servers import RunningServer

from openenv.core.client.client import EnvClient
from openenv.core.client.generic import GenericEnvClient
from openenv.core.client.results import StepResult
from openenv.core.client.typed import TypedEnvClient, client_for
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.exceptions import ConfigurationError, InvalidAnswerError, RequestRejectedError
from openenv.core.wire.array_fields import NDArray


class CounterEnv(TypedEnvClient[Add, Total, State]):
    """A session with a counter."""


def config(strict: bool, **settings: Any) -> ConfigDict:
    return cast("ConfigDict", {"strict": strict, **settings})


class Colour(Enum):
    RED = "red"


@dataclass
class PlainDataclass:
    amount: int


@dataclass
class DecoratedAction(Action):
    amount: int


class Workbench(Observation):
    tools: list[str]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def count(self) -> int:
        return len(self.tools)


class Drawer(Observation):
    model_config = ConfigDict(extra="allow")
    tools: dict[str, int]


class LastCall(Observation):
    model_config = ConfigDict(extra="allow")
    tool_name: str | None


class Repair(Observation):
    tool_name: str
    error: str
    text: str

    @computed_field(alias="short")  # type: ignore[prop-decorator]
    @property
    def beginning(self) -> str:
        return self.text[:1]


class Shelf(Observation):
    model_config = ConfigDict(extra="allow")


class Named(Observation):
    model_config = ConfigDict(serialize_by_alias=True)
    name: str = Field(alias="tool_name")
    result: int


OF_TOOLS_BY_NAME = (
    Workbench(tools=["saw"]),
    Drawer(tools={"saw": 1}, width=3),
    LastCall(tool_name="saw", result=3),
    LastCall(tool_name=None, colour="red"),
    Repair(tool_name="saw", error="blunt", text="sharpen"),
    Shelf(tools=["saw", "file"]),
    Shelf(tools=[{"name": "saw", "price": 3}]),
    Shelf(tools=[], width=3),
    Shelf(tool_name="saw", height=3),
    Named(tool_name="saw", result=3),
)


class TestClientFor:
    @pytest.mark.parametrize("environment", [CounterEnvironment, AsyncCounterEnvironment])
    def test_an_episode_in_the_environment_s_own_classes(self, serve: Serve, environment: type) -> None:
        server = serve(environment)
        with client_for(environment)(base_url=server.url).sync() as client:
            result = client.reset(seed=3)
            assert result.observation == Total(total=0, metadata={"seed": 3})
            result = client.step(Add(amount=10))
            assert result.observation == Total(total=10, reward=10, done=True)
            assert (result.reward, result.done) == (10, True)
            assert client.state() == State(step_count=1)

    def test_its_name_and_docstring(self) -> None:
        client = client_for(CounterEnvironment)
        assert client.__name__ == "CounterEnv"
        assert client.__doc__ == "A session with a CounterEnvironment."
        assert client.__module__ == CounterEnvironment.__module__
        assert client_for(CounterEnvironment, "Other").__name__ == "Other"

        class Catch(CounterEnvironment):
            pass

        assert client_for(Catch).__name__ == "CatchEnv"

    def test_a_class_that_does_not_say_its_types(self) -> None:
        class Silent(Environment):
            def reset(self):  # type: ignore[no-untyped-def]
                ...

            def step(self, action):  # type: ignore[no-untyped-def]
                ...

            @property
            def state(self):  # type: ignore[no-untyped-def]
                ...

        with pytest.raises(ConfigurationError, match="Silent does not say"):
            client_for(Silent)

    def test_plain_models(self, serve: Serve) -> None:
        class PlainEnvironment(Environment[PlainAdd, PlainTotal, State]):
            def reset(self) -> PlainTotal:
                return PlainTotal(total=0)

            def step(self, action: PlainAdd) -> tuple[PlainTotal, float, bool]:
                return PlainTotal(total=action.amount), 0.5, True

            @property
            def state(self) -> State:
                return State(episode_id="e")

        server = serve(PlainEnvironment, PlainAdd, PlainTotal, max_concurrent_envs=1)
        with client_for(PlainEnvironment)(base_url=server.url).sync() as client:
            assert client.reset().observation == PlainTotal(total=0)
            result = client.step(PlainAdd(amount=3))
            assert (result.observation, result.reward, result.done) == (PlainTotal(total=3), 0.5, True)
            assert client.state().episode_id == "e"

    def test_a_plain_model_with_required_reward_and_done(self, serve: Serve) -> None:
        class Scored(BaseModel):
            total: int
            reward: float
            done: bool

        class ScoredEnvironment(Environment[PlainAdd, Scored, State]):
            def reset(self) -> Scored:
                return Scored(total=0, reward=0.0, done=False)

            def step(self, action: PlainAdd) -> Scored:
                return Scored(total=action.amount, reward=1.5, done=True)

            @property
            def state(self) -> State:
                return State()

        server = serve(ScoredEnvironment, PlainAdd, Scored, max_concurrent_envs=1)
        with client_for(ScoredEnvironment)(base_url=server.url).sync() as client:
            client.reset()
            assert client.step(PlainAdd(amount=3)).observation == Scored(total=3, reward=1.5, done=True)

    def test_rich_fields_come_back_as_they_went(self, serve: Serve) -> None:
        class Inner(BaseModel):
            at: tuple[int, int]

        class Rich(Observation):
            colour: Colour
            inner: list[Inner]
            kind: Literal["a", "b"]
            pairs: dict[int, set[str]]
            raw: bytes

        class RichAction(Action):
            colour: Colour
            inner: Inner
            raw: bytes

        class RichEnvironment(Environment[RichAction, Rich, State]):
            def reset(self) -> Rich:
                return Rich(colour=Colour.RED, inner=[], kind="a", pairs={}, raw=b"")

            def step(self, action: RichAction) -> Rich:
                assert isinstance(action.inner, Inner)
                pairs = {1: {"x", "y"}}
                return Rich(colour=action.colour, inner=[action.inner], kind="b", pairs=pairs, raw=action.raw)

            @property
            def state(self) -> State:
                return State()

        server = serve(RichEnvironment, RichAction, Rich, max_concurrent_envs=1)
        with client_for(RichEnvironment)(base_url=server.url).sync() as client:
            client.reset()
            action = RichAction(colour=Colour.RED, inner=Inner(at=(1, 2)), raw="é".encode())
            assert client.step(action).observation == Rich(
                colour=Colour.RED, inner=[Inner(at=(1, 2))], kind="b", pairs={1: {"x", "y"}}, raw="é".encode()
            )

    @pytest.mark.parametrize("strict", [False, True])
    def test_models_of_any_configuration_come_back(self, serve: Serve, strict: bool) -> None:
        class Part(BaseModel):
            model_config = config(strict, extra="forbid")
            on: date
            kind: Literal[Colour.RED] = Colour.RED

            @computed_field  # type: ignore[prop-decorator]
            @property
            def year(self) -> int:
                return self.on.year

        class Move(Action):
            model_config = config(strict, extra="forbid")
            on: date = Field(serialization_alias="day")
            parts: list[Part]
            key: UUID | str
            chosen: set[Colour]

        class Seen(Observation):
            model_config = config(strict, extra="forbid", ser_json_bytes="base64")
            parts: tuple[Part, ...]
            key: UUID | str
            chosen: frozenset[Colour]
            raw: bytes = b"\xff"
            price: Decimal = Decimal("1.50")

        class Pixels(Seen):
            screen: Annotated[Any, NDArray("uint8", (2,))]

        class Progress(State):
            model_config = config(strict)
            begun: datetime | None = None
            parts: list[Part] = Field(default_factory=list)

        class PartsEnvironment(Environment[Move, Pixels, Progress]):
            SUPPORTS_CONCURRENT_SESSIONS = True

            def reset(self) -> Pixels:
                return self._shown([], "none", set())

            def step(self, action: Move) -> Pixels:
                assert isinstance(action.on, date)
                return self._shown(action.parts, action.key, action.chosen)

            def _shown(self, parts: list[Part], key: UUID | str, chosen: set[Colour]) -> Pixels:
                screen = np.array([1, 2], "uint8")
                return Pixels(parts=tuple(parts), key=key, chosen=frozenset(chosen), screen=screen)

            @property
            def state(self) -> Progress:
                return Progress(begun=datetime(2020, 2, 3, tzinfo=UTC), parts=[Part(on=date(2020, 2, 3))])

        server = serve(PartsEnvironment, Move, Pixels, state_cls=Progress)
        part = Part(on=date(2020, 2, 3))
        move = Move(on=date(2020, 2, 3), parts=[part], key=UUID(int=3), chosen={Colour.RED})
        with client_for(PartsEnvironment)(base_url=server.url).sync() as client:
            client.reset()
            shown = client.step(move).observation
            assert shown.screen.tolist() == [1, 2]
            expected = Pixels(parts=(part,), key=UUID(int=3), chosen=frozenset({Colour.RED}), screen=shown.screen)
            assert shown.model_dump(exclude={"screen", "key"}) == expected.model_dump(exclude={"screen", "key"})
            assert client.state() == Progress(begun=datetime(2020, 2, 3, tzinfo=UTC), parts=[part])
            with client.vector(2) as vector:
                vector.reset()
                for result in vector.step([move, move]):
                    assert isinstance(result, StepResult)
                    assert result.observation.parts == (part,)
        with GenericEnvClient(base_url=server.url).sync() as untyped:
            untyped.reset()
            with pytest.raises(RequestRejectedError, match="Invalid message"):
                untyped.step({"day": "x", "parts": [], "key": "", "chosen": []})

    def test_fields_with_an_alias(self, serve: Serve) -> None:
        class Named(Action):
            class_name: str = Field(alias="className")

        class Seen(Observation):
            class_name: str = Field(alias="className")

        class NamedEnvironment(Environment[Named, Seen, State]):
            def reset(self) -> Seen:
                return Seen(className="none")

            def step(self, action: Named) -> Seen:
                return Seen(className=action.class_name)

            @property
            def state(self) -> State:
                return State()

        server = serve(NamedEnvironment, Named, Seen, max_concurrent_envs=1)
        with client_for(NamedEnvironment)(base_url=server.url).sync() as client:
            assert client.reset().observation.class_name == "none"
            assert client.step(Named(className="x")).observation.class_name == "x"

    def test_a_computed_field(self, serve: Serve) -> None:
        class Computed(Observation):
            total: int

            @computed_field  # type: ignore[prop-decorator]
            @property
            def double(self) -> int:
                return 2 * self.total

        class ComputedEnvironment(Environment[Add, Computed, State]):
            def reset(self) -> Computed:
                return Computed(total=2)

            def step(self, action: Add) -> Computed:
                return Computed(total=action.amount)

            @property
            def state(self) -> State:
                return State()

        server = serve(ComputedEnvironment, Add, Computed, max_concurrent_envs=1)
        with client_for(ComputedEnvironment)(base_url=server.url).sync() as client:
            assert client.reset().observation.double == 4

    @pytest.mark.parametrize("shown", OF_TOOLS_BY_NAME, ids=lambda shown: type(shown).__name__)
    def test_an_observation_of_its_own_whose_fields_are_named_as_those_of_tools(
        self, serve: Serve, shown: Observation
    ) -> None:
        class WorkshopEnvironment(Environment[Add, type(shown), State]):  # type: ignore[misc]
            def reset(self) -> Observation:
                return shown

            def step(self, action: Add) -> Observation:
                return shown

            @property
            def state(self) -> State:
                return State()

        server = serve(WorkshopEnvironment, Add, type(shown), max_concurrent_envs=1)
        with client_for(WorkshopEnvironment)(base_url=server.url).sync() as client:
            client.reset()
            assert client.step(Add(amount=1)).observation == shown

    def test_an_answer_that_does_not_fit_the_classes_is_a_typed_error(self, serve: Serve) -> None:
        class Strict(Observation):
            value: float

        server = serve(partial(MischievousEnvironment, {"NaN": lambda: Shown(value=float("nan"))}), Do, Shown)

        class StrictEnv(TypedEnvClient[Do, Strict, State]):
            """Expects a number."""

        with StrictEnv(base_url=server.url).sync() as client, pytest.raises(InvalidAnswerError, match="Strict") as bad:
            client.reset()
        assert isinstance(bad.value.__cause__, ValidationError)


class TestTypedEnvClient:
    def test_an_episode(self, counter_server: RunningServer) -> None:
        with CounterEnv(base_url=counter_server.url).sync() as client:
            assert client.reset().observation.total == 0
            assert client.step(Add(amount=2)).observation.total == 2
            assert client.state().step_count == 1

    async def test_async(self, counter_server: RunningServer) -> None:
        async with CounterEnv(base_url=counter_server.url) as client:
            await client.reset()
            assert (await client.step(Add(amount=2))).observation.total == 2

    def test_a_subclass_keeps_the_classes(self, counter_server: RunningServer) -> None:
        class Further(CounterEnv):
            pass

        assert Further.action_class is Add
        with Further(base_url=counter_server.url).sync() as client:
            assert client.reset().observation.total == 0

    def test_an_intermediate_generic_base(self, counter_server: RunningServer) -> None:
        obs = TypeVar("obs", bound=BaseModel)

        class Base(TypedEnvClient[Add, obs, State], Generic[obs]):
            """Leaves the observation open."""

        class Filled(Base[Total]):
            """Fills it in."""

        with Filled(base_url=counter_server.url).sync() as client:
            assert client.reset().observation == Total(total=0)

    def test_bases_that_fill_one_parameter_each(self) -> None:
        act = TypeVar("act", bound=BaseModel)
        obs = TypeVar("obs", bound=BaseModel)

        class Open(TypedEnvClient[act, obs, State], Generic[obs, act]):
            """Names the parameters in an order of its own."""

        class Half(Open[Total, act], Generic[act]):
            """Leaves the action open."""

        class Filled(Half[Add]):
            """Fills it in."""

        assert (Filled.action_class, Filled.observation_class, Filled.state_class) == (Add, Total, State)

    def test_an_answer_without_an_observation_is_a_typed_error(self) -> None:
        with pytest.raises(InvalidAnswerError, match="Expected an observation"):
            CounterEnv(base_url="h")._parse_result({"reward": 1.0, "done": False})  # part of the public interface

    @pytest.mark.parametrize("action", [{"amount": 1}, None, 3, Add], ids=repr)
    def test_an_action_that_is_no_model_is_a_type_error(self, action: Any) -> None:
        with pytest.raises(TypeError, match="Expected Add, got"):
            CounterEnv(base_url="h")._step_payload(action)  # part of the public interface

    def test_empty_metadata_is_not_sent(self) -> None:
        client = CounterEnv(base_url="h")
        assert client._step_payload(Add(amount=1)) == {"amount": 1}  # part of the public interface
        assert client._step_payload(Add(amount=1, metadata={"x": 1})) == {
            "amount": 1,
            "metadata": {"x": 1},
        }

    def test_two_parameters_as_in_0_1(self, counter_server: RunningServer) -> None:
        class Counting(TypedEnvClient[Add, Total]):
            """Leaves the state out."""

        class ByHand(EnvClient[Add, Total]):
            """Does the same by hand, as clients of 0.1 did."""

            def _step_payload(self, action: Add) -> dict[str, Any]:
                return {"amount": action.amount}

            def _parse_result(self, payload: dict[str, Any]) -> StepResult[Total]:
                return StepResult(Total(**payload["observation"]), payload["reward"], payload["done"])

            def _parse_state(self, payload: dict[str, Any]) -> State:
                return State(**payload)

        for client_class in (Counting, ByHand):
            with client_class(base_url=counter_server.url).sync() as client:
                assert client.reset().observation == Total(total=0)
                assert client.step(Add(amount=2)).observation.total == 2
                assert client.state() == State(step_count=1)

    @pytest.mark.parametrize("model", [PlainDataclass, DecoratedAction])
    def test_a_dataclass_says_what_to_change(self, model: Any) -> None:
        with pytest.raises(ConfigurationError, match="leave @dataclass out and derive it from Action"):

            class Old(TypedEnvClient[model, Total, State]):
                """Has actions of 0.1."""

    def test_parameters_that_are_no_models(self) -> None:
        with pytest.raises(ConfigurationError, match="Expected Wrong to name three pydantic models"):

            class Wrong(TypedEnvClient[int, Total, State]):
                """No action."""

    def test_an_action_of_another_environment_is_refused_by_the_server(self, counter_server: RunningServer) -> None:
        with CounterEnv(base_url=counter_server.url).sync() as client:
            client.reset()
            with pytest.raises(RequestRejectedError):
                client.step(Do(what="x"))  # type: ignore[arg-type]
