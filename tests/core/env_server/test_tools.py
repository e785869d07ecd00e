"""Tools as an author writes them, called without any server."""

import asyncio
import copy
import inspect
import re
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.environments.tools import GuessAction, HintAction, Notes, Site, Word, WordWithTools

from openenv import Action, Environment, Observation, State, ToolResult, tool
from openenv.core.env_server.execution.introspection import environment_method
from openenv.core.env_server.mcp_types import (
    RESERVED_TOOL_NAMES,
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ToolErrorType,
)
from openenv.core.environment_types import environment_types
from openenv.core.exceptions import ConfigurationError, EnvironmentFailedError


def call(environment: Any, name: str, **arguments: Any) -> CallToolObservation:
    observation = environment.step(CallToolAction(tool_name=name, arguments=arguments))
    if inspect.isawaitable(observation):
        observation = asyncio.run(_awaited(observation))
    assert isinstance(observation, CallToolObservation)
    assert observation.tool_name == name[:128]
    return observation


async def _awaited(observation: Any) -> Any:
    return await observation


def names(environment: Any) -> list[str]:
    return [described.name for described in environment.step(ListToolsAction()).tools]


@pytest.fixture
def notes() -> Notes:
    environment = Notes()
    environment.reset()
    return environment


class TestCalling:
    def test_a_tool_is_still_a_method(self, notes: Notes) -> None:
        assert notes.write("a", "text") == "4 characters written"
        assert notes.read("a") == "text"

    def test_what_it_returns_is_the_result(self, notes: Notes) -> None:
        observation = call(notes, "write", path="a", text="text")
        assert (observation.result, observation.error) == ("4 characters written", None)
        assert (observation.reward, observation.done, observation.metadata) == (None, False, {})

    def test_a_tool_result_says_more(self, notes: Notes) -> None:
        notes.write("a", "text")
        observation = call(notes, "submit")
        assert (observation.result, observation.reward, observation.done) == ({"notes": 1}, 1.0, True)
        assert observation.metadata == {"longest": 3}

    def test_a_terminal_tool_that_fails_ends_nothing(self, notes: Notes) -> None:
        observation = call(notes, "submit")
        assert observation.error is not None
        assert (observation.error.message, observation.done) == ("there are no notes", False)

    @pytest.mark.parametrize(
        ("name", "arguments", "kind", "told"),
        [
            ("fail", {}, ToolErrorType.EXECUTION_ERROR, "it failed plainly, at '.../secret.so'"),
            ("fail", {"how": "late"}, ToolErrorType.TIMEOUT, "the disk is slow"),
            ("read", {"path": "b"}, ToolErrorType.EXECUTION_ERROR, "KeyError: 'b'"),
            ("read", {}, ToolErrorType.INVALID_ARGS, "path: Field required"),
            ("read", {"path": 3}, ToolErrorType.INVALID_ARGS, "path: Input should be a valid string"),
            ("read", {"path": "a", "self": 1}, ToolErrorType.INVALID_ARGS, "self: Extra inputs are not permitted"),
            ("zip", {}, ToolErrorType.TOOL_NOT_FOUND, "Unknown tool: 'zip'"),
            ("_fail", {}, ToolErrorType.TOOL_NOT_FOUND, "Unknown tool: '_fail'"),
            ("send", {"to": "x"}, ToolErrorType.TOOL_NOT_FOUND, "Unknown tool: 'send'"),
        ],
    )
    def test_what_goes_wrong_is_told(
        self, notes: Notes, name: str, arguments: dict[str, Any], kind: ToolErrorType, told: str
    ) -> None:
        observation = call(notes, name, **arguments)
        assert observation.error is not None
        assert (observation.error.error_type, observation.error.message) == (kind, told)
        assert (observation.result, observation.reward, observation.done) == (None, None, False)

    @given(st.text() | st.sampled_from(["__init__", "reset", "close", "step", "__class__", "write\n", "x" * 1_000_000]))
    def test_nothing_but_tools_can_be_called(self, name: str) -> None:
        environment = Notes()
        environment.reset()
        observation = call(environment, name)
        assert observation.error is not None
        if name not in names(environment):
            assert observation.error.error_type is ToolErrorType.TOOL_NOT_FOUND
            assert len(observation.error.message) < 300

    @given(st.text(), st.text())
    def test_any_text_is_carried_as_it_is(self, path: str, text: str) -> None:
        environment = Notes()
        environment.reset()
        call(environment, "write", path=path, text=text)
        assert call(environment, "read", path=path).result == text

    def test_an_exception_that_can_t_be_written_is_named(self) -> None:
        class MuteError(Exception):
            def __str__(self) -> str:
                raise ValueError

        class Silent(Environment):
            def reset(self) -> Observation:
                return Observation()

            @tool
            def raise_it(self) -> None:
                raise MuteError

        observation = call(Silent(), "raise_it")
        assert observation.error is not None
        assert observation.error.message == "MuteError"

    def test_async_tools_are_to_be_awaited(self) -> None:
        site = Site()
        asyncio.run(site.reset())
        assert call(site, "goto", url="b").result == "b"
        assert call(site, "where").result == {"page": "b", "on_loop": False}
        failed = call(site, "crash")
        assert failed.error is not None
        assert failed.error.message == "the page crashed"

    async def test_step_async_answers_plain_and_async_tools(self, notes: Notes) -> None:
        observation = await notes.step_async(CallToolAction(tool_name="write", arguments={"path": "a", "text": ""}))
        assert observation.result == "0 characters written"
        site = Site()
        await site.reset()
        assert (await site.step_async(CallToolAction(tool_name="goto", arguments={"url": "c"}))).result == "c"

    def test_progress_is_told_to_nobody_without_a_listener(self) -> None:
        site = Site()
        assert call(site, "count", to=3).result == 3

    @pytest.mark.parametrize(
        ("told", "heard"), [(0.5, 0.5), (2, 1.0), (-1, 0.0), (float("inf"), 1.0), (float("nan"), 0.0)]
    )
    def test_progress_is_a_fraction(self, told: float, heard: float) -> None:
        site, listened = Site(), list[tuple[float, str]]()
        site._progress_listener = lambda *progress: listened.append(progress)
        site.report_progress(told)
        assert listened == [(heard, "")]


class TestListing:
    def test_tools_are_described_by_docstrings_and_annotations(self, notes: Notes) -> None:
        tools = {described.name: described for described in notes.step(ListToolsAction()).tools}
        assert tools["write"].description == "Write a note."
        assert tools["write"].input_schema == {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Where."},
                "text": {"type": "string", "description": "What."},
            },
            "required": ["path", "text"],
        }
        assert tools["fail"].description == "Fail."

    def test_in_the_order_of_the_class(self, notes: Notes) -> None:
        assert names(notes) == ["write", "read", "fail", "same_thread", "submit"]

    def test_a_task_may_have_more(self) -> None:
        environment = Notes()
        environment.reset(shared=True)
        assert names(environment)[-1] == "send"
        assert call(environment, "send", to="you").result == ["you"]
        environment.reset(shared=False)
        assert "send" not in names(environment)

    def test_task_tools_may_be_any_functions(self) -> None:
        class Tasks(Environment):
            def reset(self) -> Observation:
                return Observation()

            def task_tools(self) -> list[Callable[..., Any]]:
                def add(a: int, b: int) -> int:
                    """Add."""
                    return a + b

                @tool(name="end", terminal=True)
                def finish() -> str:
                    return "over"

                return [add, finish, tool(name="half")(partial(add, b=2)), max_of]

        environment = Tasks()
        assert names(environment) == ["add", "end", "half", "max_of"]
        assert call(environment, "add", a=1, b="2").result == 3
        assert call(environment, "end").done
        assert call(environment, "half", a=1).result == 3
        assert call(environment, "max_of", values=[3, 5]).result == 5

    @pytest.mark.parametrize("bad", ["write", "reset", "no name"])
    def test_bad_task_tools_fail_the_step(self, bad: str) -> None:
        class Clashing(Notes):
            def task_tools(self) -> list[Callable[..., Any]]:
                return [tool(name=bad)(lambda: None)]

        with pytest.raises(EnvironmentFailedError, match=re.escape(repr(bad))):
            Clashing().step(ListToolsAction())

    def test_task_tools_that_need_a_task_are_told_of(self) -> None:
        class Hasty(Notes):
            def task_tools(self) -> list[Callable[..., Any]]:
                return [self.send] if self._shared else []

        with pytest.raises(EnvironmentFailedError, match=r"task_tools\(\) raised AttributeError: .*before the first"):
            Hasty().step(ListToolsAction())

    @pytest.mark.parametrize("method", ["reset", "close", "restore"])
    def test_a_task_can_t_offer_what_trainers_call(self, method: str) -> None:
        class Open(Notes):
            def restore(self, snapshot: Any) -> None: ...

            def task_tools(self) -> list[Callable[..., Any]]:
                return [getattr(self, method)]

        with pytest.raises(EnvironmentFailedError, match=f"{method}.*agents must not reach"):
            Open().step(ListToolsAction())


def max_of(values: list[int]) -> int:
    """Find the largest."""
    return max(values)


class TestClasses:
    def test_reserved_names_are_refused_with_a_way_out(self) -> None:
        for reserved in RESERVED_TOOL_NAMES:
            with pytest.raises(ConfigurationError, match=rf"No tool can be named '{reserved}'.*@tool\(name=\.\.\.\)"):
                tool_named(reserved)

    @pytest.mark.parametrize("bad", [" ", "a b", "é", "a\n", "x" * 129, '"""', "'); import os", "a/b", "{0}"])
    def test_names_that_agents_don_t_know_are_refused(self, bad: str) -> None:
        with pytest.raises(ConfigurationError, match="agents know names of 1 to 128 letters"):
            tool_named(bad)

    @given(st.from_regex(r"[A-Za-z0-9_.-]{1,128}", fullmatch=True).filter(lambda name: name not in RESERVED_TOOL_NAMES))
    def test_names_that_agents_know_are_taken(self, good: str) -> None:
        assert names(tool_named(good)()) == [good]

    @pytest.mark.parametrize("method", ["reset", "reset_async", "step", "close", "snapshot", "restore"])
    def test_what_trainers_call_is_no_tool_by_any_name(self, method: str) -> None:
        @tool(name="again")
        def again(self: Any) -> None: ...

        with pytest.raises(ConfigurationError, match=f"{method} can't be the tool 'again': agents must not reach"):
            type("_Open", (Notes,), {method: again})

    def test_two_tools_of_one_name_are_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="has two tools named 'write', write and also"):

            class _Twice(Notes):
                @tool(name="write")
                def also(self) -> None: ...

    def test_a_tool_is_a_method_with_named_parameters(self) -> None:
        with pytest.raises(TypeError, match="@tool stands before a method in its class, got property"):
            tool(property(lambda self: None))
        with pytest.raises(TypeError, match="got method"):  # it would be a tool of every class derived from now on
            tool(name="other")(Notes().send)
        with pytest.raises(ConfigurationError, match="by their names"):

            class _Positional(Notes):
                @tool
                def add(self, a: int, /) -> None: ...

    def test_a_subclass_has_its_base_s_tools_and_its_own(self) -> None:
        class More(Notes):
            @tool
            def count(self) -> int:
                """Count."""
                return len(self._notes)

        environment = More()
        environment.reset()
        assert names(environment) == [*names(Notes()), "count"]
        assert call(environment, "count").result == 0
        assert "count" not in names(Notes())

    def test_an_override_is_a_tool_only_where_it_says_so(self) -> None:
        class Fewer(Notes):
            def write(self, path: str, text: str) -> str:
                return "written by no agent"

            read = None  # type: ignore[assignment]

        assert not {"write", "read"} & set(names(Fewer()))

    def test_mixins_static_and_class_methods_have_tools_too(self) -> None:
        class Mixin:
            @tool
            @staticmethod
            def one() -> int:
                return 1

            @tool
            @classmethod
            def name(cls) -> str:
                return cls.__name__

            @staticmethod
            @tool
            def two(times: int = 1) -> int:
                return 2 * times

        class Mixed(Mixin, Environment[Any, Any, Any]):
            def reset(self) -> Observation:
                return Observation()

        environment = Mixed()
        assert call(environment, "one").result == 1
        assert call(environment, "name").result == "Mixed"
        assert call(environment, "two", times=2).result == 4

    def test_a_decorated_tool_is_one(self) -> None:
        def twice(function: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                return function(*args, **kwargs) * 2

            return wrapper

        class Twice(Notes):
            @twice
            @tool
            def say(self, word: str) -> str:
                """Say."""
                return word

        assert call(Twice(), "say", word="a").result == "aa"

    def test_a_class_without_tools_is_left_alone(self) -> None:
        assert Word.step.__qualname__ == "Word.step"
        assert Word.reset.__qualname__ == "Word.reset"
        assert not Word.OFFERS_TOOLS
        assert Notes.OFFERS_TOOLS

    def test_copies_share_nothing(self, notes: Notes) -> None:
        notes.write("a", "one")
        other = copy.deepcopy(notes)
        call(other, "write", path="a", text="two")
        assert (notes.read("a"), other.read("a")) == ("one", "two")


def tool_named(name: str) -> type[Environment[Any, Any, Any]]:
    class Named(Environment):
        def reset(self) -> Observation:
            return Observation()

        @tool(name=name)
        def do(self) -> None: ...

    return Named


class TestSteps:
    def test_a_class_with_tools_needs_no_step_or_state(self) -> None:
        types = environment_types(Notes)
        assert (types.action, types.observation, types.state) == (CallToolAction, CallToolObservation, State)

    def test_its_step_takes_nothing_else(self, notes: Notes) -> None:
        with pytest.raises(TypeError, match="expected CallToolAction or ListToolsAction, got Action"):
            notes.step(Action())

    def test_other_actions_go_to_the_author_s_step(self) -> None:
        environment = WordWithTools()
        environment.reset()
        assert environment.step(GuessAction(word="crown")).text == "crown: False"
        assert call(environment, "words", prefix="cra").result == ["crane"]
        assert environment.state.step_count == 1  # the author's own count

    def test_the_step_is_called_as_the_author_wrote_it(self) -> None:
        class Timed(Environment[Action, Observation, State]):
            def reset(self) -> Observation:
                return Observation()

            def step(self, action: Action, timeout_s: float | None = None) -> Observation:
                return Observation(reward=timeout_s)

            async def step_async(self, action: Action, pace: int = 1) -> Observation:
                return Observation(reward=pace)

            @tool
            def look(self) -> str:
                return "nothing"

        assert Timed().step(Action(), timeout_s=3).reward == 3
        assert environment_method(Timed, "step").name == "step_async"
        assert environment_method(Timed, "step").arguments == frozenset({"pace"})
        assert asyncio.run(Timed().step_async(Action(), pace=2)).reward == 2
        looked: Any = asyncio.run(Timed().step_async(CallToolAction(tool_name="look")))
        assert looked.result == "nothing"

    def test_overridden_steps_may_call_those_of_their_base(self) -> None:
        class Louder(WordWithTools):
            def step(self, action: Any) -> Any:
                observation = super().step(action)
                observation.text = observation.text.upper()
                return observation

        environment = Louder()
        environment.reset()
        assert environment.step(HintAction(letter=0)).text == "C"
        assert call(environment, "hint").result == "a bird"


class TestState:
    def test_a_class_without_one_says_nothing(self, notes: Notes) -> None:
        call(notes, "write", path="a", text="b")
        assert notes.state == State()

    def test_methods_of_authors_stay_as_they_are(self) -> None:
        assert Notes.reset.__qualname__ == "Notes.reset"

    def test_a_step_of_several_classes_answers_tools_once(self) -> None:
        class Base(Environment[Action, Observation, State]):
            def reset(self, seed: int | None = None) -> Observation:
                return Observation()

            def step(self, action: Action) -> Observation:
                return Observation(reward=1.0)

            @tool
            def act(self) -> float | None:
                return self.step(Action()).reward

        class Derived(Base):
            def step(self, action: Action) -> Observation:
                return super().step(action)

        assert call(Derived(), "act").result == 1.0

    def test_snapshots_need_a_state_of_their_own(self) -> None:
        class Kept(Notes):
            def snapshot(self) -> Any:
                return self._notes

            def restore(self, snapshot: Any) -> None:
                self._notes = snapshot

        with pytest.raises(TypeError, match=r"abstract.*state"):
            Kept()


def test_a_tool_result_s_defaults() -> None:
    assert ToolResult() == ToolResult(value=None, reward=None, done=False, metadata={})
