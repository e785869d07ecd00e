"""Finding an environment's classes, and what its methods accept."""

from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pytest
from pydantic import BaseModel
from tests.support.environments.common import Add, CounterEnvironment, Do, PlainAdd, PlainTotal, Shown, Total

from openenv.core.env_server.execution.introspection import (
    EnvironmentFactory,
    environment_method,
)
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import State
from openenv.core.environment_types import EnvironmentTypes, environment_types
from openenv.core.exceptions import ConfigurationError

if TYPE_CHECKING:
    from collections import ChainMap

ActT = TypeVar("ActT", bound=BaseModel)
ObsT = TypeVar("ObsT", bound=BaseModel)
StateT = TypeVar("StateT", bound=BaseModel)


class Base(Environment[ActT, ObsT, StateT]):
    """What the classes below share."""

    def reset(self, *args: Any, **kwargs: Any) -> Any: ...

    def step(self, action: ActT, *args: Any, **kwargs: Any) -> Any: ...

    @property
    def state(self) -> Any: ...


class Score(State):
    """A state of its own."""


class Direct(Base[Add, Total, Score]):
    """Names all three."""


class Inherited(Direct):
    """Adds nothing."""


class Reversed(Base[ActT, ObsT, StateT], Generic[StateT, ObsT, ActT]):
    """Lists its parameters in another order."""


class FilledReversed(Reversed[Score, Total, Add]):
    """Fills them in."""


class OneOpen(Base[ActT, Total, Score], Generic[ActT]):
    """Leaves the action open."""


class FilledOneOpen(OneOpen[Add]):
    """Fills it in."""


class Deep(OneOpen[ActT]):
    """Passes it on."""


class FilledDeep(Deep[Add]):
    """Fills it in at last."""


class Mixin:
    """Not an environment."""


class Mixed(Mixin, Base[Add, Total, Score]):
    """An environment after a mixin."""


class Annotated(Base):  # type: ignore[type-arg]
    """Says it by annotations only."""

    def step(self, action: Add) -> Total: ...  # type: ignore[empty-body]

    @property
    def state(self) -> Score: ...  # type: ignore[empty-body]


class AnnotatedOtherwise(Annotated):
    """Calls its action something else, and answers with a tuple."""

    def step(self, move: Add) -> tuple[Total, float, bool]: ...  # type: ignore[override, empty-body]


class AnnotatedAsync(Annotated):
    """Says it in coroutines."""

    async def step(self, action: Add) -> Total: ...  # type: ignore[override, empty-body]


class AnnotatedText(Annotated):
    """Says it in strings."""

    def step(self, action: "Add") -> "Total": ...  # type: ignore[empty-body]


class AnnotatedOptional(Annotated):
    """Answers with one of two forms."""

    def step(self, action: Add) -> Total | tuple[Total, float, bool]: ...  # type: ignore[override, empty-body]


class StateMethod(Annotated):
    """Has a state method instead of a property."""

    def state(self) -> Score: ...  # type: ignore[override, empty-body]


@pytest.mark.parametrize(
    "environment",
    [
        Direct,
        Inherited,
        FilledReversed,
        FilledOneOpen,
        FilledDeep,
        Mixed,
        Annotated,
        AnnotatedOtherwise,
        AnnotatedAsync,
        AnnotatedText,
        AnnotatedOptional,
        StateMethod,
    ],
    ids=lambda environment: environment.__name__,
)
def test_the_three_classes_are_found(environment: type) -> None:
    assert environment_types(environment) == EnvironmentTypes(Add, Total, Score)


def test_plain_models_are_found() -> None:
    class Plain(Base[PlainAdd, PlainTotal, State]):
        pass

    assert environment_types(Plain) == EnvironmentTypes(PlainAdd, PlainTotal, State)


def test_the_state_is_the_base_s_where_nothing_names_another() -> None:
    class Stateless(Base):  # type: ignore[type-arg]
        def step(self, action: Do) -> Shown: ...  # type: ignore[empty-body]

    assert environment_types(Stateless) == EnvironmentTypes(Do, Shown, State)


def test_the_parameters_win_over_the_annotations() -> None:
    class Both(Base[Add, Total, Score]):
        def step(self, action: Do) -> Shown: ...  # type: ignore[override, empty-body]

    assert environment_types(Both) == EnvironmentTypes(Add, Total, Score)


def test_an_annotation_for_the_type_checker_only_is_no_crash() -> None:
    class Unresolvable(Base):  # type: ignore[type-arg]
        def step(self, action: "ChainMap[str, int]") -> "ChainMap[str, int]": ...  # type: ignore[empty-body]

    with pytest.raises(ConfigurationError, match="Unresolvable does not say"):
        environment_types(Unresolvable)


@pytest.mark.parametrize("environment", [Base, OneOpen], ids=lambda environment: environment.__name__)
def test_what_is_left_open_is_said_so(environment: type) -> None:
    with pytest.raises(ConfigurationError, match="Name them once"):
        environment_types(environment)


class TestMethod:
    def test_a_plain_method(self) -> None:
        class Some(CounterEnvironment):
            def reset(self, seed: int | None = None, *, level: int = 1) -> Total: ...  # type: ignore[override, empty-body]

            def step(self, action: Add, timeout_s: float | None = None) -> Total: ...  # type: ignore[empty-body]

        method = environment_method(Some, "reset")
        assert (method.name, method.awaited, method.arguments) == ("reset", False, frozenset({"seed", "level"}))
        method = environment_method(Some, "step")
        assert (method.name, method.awaited, method.arguments) == ("step", False, frozenset({"timeout_s"}))

    def test_no_arguments_at_all(self) -> None:
        class Bare(CounterEnvironment):
            def reset(self) -> Total: ...  # type: ignore[override, empty-body]

        assert environment_method(Bare, "reset").arguments == frozenset()
        assert environment_method(CounterEnvironment, "step").arguments == frozenset()

    def test_any_arguments(self) -> None:
        class Open(CounterEnvironment):
            def reset(self, **task: Any) -> Total: ...  # type: ignore[override, empty-body]

        assert environment_method(Open, "reset").arguments is None

    def test_an_async_override_is_chosen_over_the_plain_method(self) -> None:
        class Both(CounterEnvironment):
            async def step_async(self, action: Add, timeout_s: float | None = None) -> Total: ...  # type: ignore[empty-body]

        method = environment_method(Both, "step")
        assert (method.name, method.awaited, method.arguments) == ("step_async", True, frozenset({"timeout_s"}))
        assert environment_method(Both, "reset").name == "reset"

    def test_an_async_method(self) -> None:
        class Awaited(CounterEnvironment):
            async def step(self, action: Add) -> Total: ...  # type: ignore[override, empty-body]

        assert environment_method(Awaited, "step").awaited is True

    def test_a_decorated_method_keeps_its_arguments(self) -> None:
        def traced(function: Any) -> Any:
            @wraps(function)
            def call(*args: Any, **kwargs: Any) -> Any:
                return function(*args, **kwargs)

            return call

        class Traced(CounterEnvironment):
            @traced
            def reset(self, seed: int | None = None) -> Total: ...  # type: ignore[empty-body]

        assert environment_method(Traced, "reset").arguments == frozenset({"seed"})


def make_counter() -> CounterEnvironment:
    return CounterEnvironment()


def make_something() -> Any:
    return CounterEnvironment()


def make_environment() -> Environment[Add, Total, State]:
    return CounterEnvironment()


class Maker:
    def __call__(self) -> CounterEnvironment:
        return CounterEnvironment()

    def make(self) -> CounterEnvironment:
        return CounterEnvironment()


class TestFactory:
    @pytest.mark.parametrize(
        "source",
        [
            CounterEnvironment,
            partial(CounterEnvironment),
            make_counter,
            make_something,
            make_environment,
            lambda: make_counter(),  # noqa: PLW0108  # a lambda is what is tried
            Maker(),
            Maker().make,
            partial(make_counter),
            partial(partial(make_something)),
        ],
    )
    def test_every_kind_of_factory_makes_one_each_time(self, source: Any) -> None:
        factory = EnvironmentFactory(source)
        first, second = factory.make(), factory.make()
        assert isinstance(first, CounterEnvironment)
        assert first is not second
        assert factory.shared is None
        assert factory.learn_class() is CounterEnvironment
        assert factory.name

    def test_an_instance_is_shared(self) -> None:
        environment = CounterEnvironment()
        factory = EnvironmentFactory(environment)
        assert factory.make() is factory.make() is environment
        assert factory.name == "CounterEnvironment"

    @pytest.mark.parametrize(
        ("source", "name"),
        [
            (CounterEnvironment, "CounterEnvironment"),
            (make_something, "make_something"),
            (partial(make_counter), "CounterEnvironment"),
        ],
    )
    def test_its_name(self, source: Any, name: str) -> None:
        assert EnvironmentFactory(source).name == name

    @pytest.mark.parametrize("source", [None, 3, "text", Total(total=1)])
    def test_what_is_none_is_a_type_error(self, source: Any) -> None:
        with pytest.raises(TypeError, match="Expected an environment class"):
            EnvironmentFactory(source)

    def test_learning_the_class_of_a_function_closes_what_it_made(self) -> None:
        closed: list[object] = []

        class Closing(CounterEnvironment):
            def close(self) -> None:
                closed.append(self)

        def make() -> Any:
            return Closing()

        assert EnvironmentFactory(make).learn_class() is Closing
        assert len(closed) == 1

    def test_learning_the_class_closes_what_closes_asynchronously(self) -> None:
        closed: list[object] = []

        class Closing(CounterEnvironment):
            async def close(self) -> None:  # type: ignore[override]
                closed.append(self)

        def make() -> Any:
            return Closing()

        assert EnvironmentFactory(make).learn_class() is Closing
        assert len(closed) == 1

    def test_a_class_with_abstract_methods_is_refused_by_their_names(self) -> None:
        class Unfinished(Environment[Add, Total, State]):
            def reset(self) -> Total:
                return Total(total=0)

        for source in (Unfinished, partial(Unfinished)):
            with pytest.raises(ConfigurationError, match=r"^Unfinished lacks state and step, so no instance"):
                EnvironmentFactory(source)

    def test_arguments_that_nobody_gives_are_refused_by_their_names(self) -> None:
        class Sized(CounterEnvironment):
            def __init__(self, size: int, colour: str, *, shape: str = "round", **others: Any) -> None:
                super().__init__()

        def make_sized(size: int) -> CounterEnvironment:
            return Sized(size, "red")

        refusals = {
            Sized: r"^Sized is called without arguments for each session, and needs size and colour\. Give each",
            partial(Sized, 3): "^Sized .* needs colour. .* serve functools.partial.Sized, colour=",
            make_sized: "^make_sized .* needs size.",
        }
        for source, sentence in refusals.items():
            with pytest.raises(ConfigurationError, match=sentence):
                EnvironmentFactory(source)
        assert EnvironmentFactory(partial(Sized, 3, colour="red")).make() is not None
