"""The tools of sessions, as transports offer them to agents: here and in processes of their own."""

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel
from tests.support.environments.common import Do, Shown
from tests.support.environments.tools import GuessAction, HintAction, Notes, Site, Word, WordWithTools

from openenv import Action, Environment, Observation, State, tool
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.execution.progress import progress_listener
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation, ListToolsAction, ToolErrorType
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.env_server.sessions.state import Phase
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.toolbox.action_tools import action_tools
from openenv.core.env_server.toolbox.toolbox import Toolbox, ToolCallResult, common_tools
from openenv.core.environment_types import EnvironmentTypes, environment_types
from openenv.core.exceptions import (
    ConfigurationError,
    EnvironmentFailedError,
    EnvironmentTimeoutError,
    IllegalActionError,
    ResetNeededError,
    SessionNotFoundError,
)
from openenv.core.wire.actions import action_model
from openenv.core.wire.results import Outcome, WrittenJson

pytestmark = pytest.mark.timeout(120)

Open = Callable[..., Awaitable[Session]]


@pytest.fixture(params=[None, 2], ids=["here", "in a process"])
async def open_session(request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    """Opens a session of an environment's class, and resets it."""
    started: list[SessionManager] = []

    async def open_one(cls: type, reset: Mapping[str, Any] | None = None, **limits: Any) -> Session:
        sessions = SessionManager(
            EnvironmentFactory(cls), environment_types(cls), ServerConfig(**limits), request.param
        )
        started.append(sessions)
        await sessions.start()
        session = await sessions.open()
        if reset is not None:
            await session.reset(reset)
        return session

    yield open_one
    for sessions in started:
        await sessions.close_all()


async def names(session: Session) -> list[str]:
    return [described.name for described in await session.tools.list()]


class TestOwnTools:
    async def test_they_are_listed_at_any_time_and_that_is_no_step(self, open_session: Open) -> None:
        session = await open_session(Notes)
        listed = await names(session)
        assert listed == ["write", "read", "fail", "same_thread", "submit"]
        assert (session.episode.phase, session.episode.total_steps) == (Phase.NEW, 0)
        await session.reset({"shared": True})
        assert await names(session) == [*listed, "send"]
        await session.tools.call("write", {"path": "a", "text": "b"})
        assert (await session.tools.call("submit", {})).done
        assert await names(session) == [*listed, "send"]
        assert (session.episode.phase, session.episode.total_steps) == (Phase.DONE, 2)

    async def test_what_a_call_gives(self, open_session: Open) -> None:
        session = await open_session(Notes, {})
        assert await session.tools.call("write", {"path": "a", "text": "é"}) == ToolCallResult(
            "1 characters written", "1 characters written"
        )
        submitted = await session.tools.call("submit", {})
        assert submitted == ToolCallResult({"notes": 1}, '{"notes":1}', reward=1.0, done=True, metadata={"longest": 3})
        assert session.episode.reward == 1.0

    async def test_the_session_counts_the_steps_of_an_environment_without_a_state(self, open_session: Open) -> None:
        session = await open_session(Notes)
        assert await session.state() == State()
        await session.reset({"episode_id": "mine"})
        await session.tools.call("write", {"path": "a", "text": "b"})
        await session.tools.call("zip", {})
        await session.tools.list()
        assert await session.state() == State(episode_id="mine", step_count=2)
        await session.reset({})
        assert await session.state() == State()

    async def test_a_copy_of_an_environment_is_in_the_same_episode(self) -> None:
        sessions = SessionManager(EnvironmentFactory(Notes), environment_types(Notes), ServerConfig(max_sessions=2))
        session = await sessions.open()
        await session.reset({"episode_id": "mine"})
        copy = await sessions.open(original=session)
        copy.episode.continue_from(session.episode.position)
        assert await copy.state() == State(episode_id="mine")
        await sessions.close_all()

    async def test_plain_tools_run_where_reset_ran(self, open_session: Open) -> None:
        session = await open_session(Notes, {})
        assert (await session.tools.call("same_thread", {})).value is True

    @pytest.mark.parametrize(
        ("name", "arguments", "kind", "told"),
        [
            ("fail", {}, ToolErrorType.EXECUTION_ERROR, "it failed plainly, at '.../secret.so'"),
            ("fail", {"how": "unsendable"}, ToolErrorType.EXECUTION_ERROR, "cannot be sent as JSON"),
            ("fail", {"how": "reward"}, ToolErrorType.EXECUTION_ERROR, "The reward is 'much'; expected a number"),
            ("read", {"path": ["a"]}, ToolErrorType.INVALID_ARGS, "path: Input should be a valid string"),
            ("zip", {}, ToolErrorType.TOOL_NOT_FOUND, "Unknown tool: 'zip'"),
            ("reset", {}, ToolErrorType.TOOL_NOT_FOUND, "Unknown tool: 'reset'"),
        ],
    )
    async def test_what_goes_wrong_is_an_answer_and_the_episode_goes_on(
        self, open_session: Open, name: str, arguments: dict[str, Any], kind: ToolErrorType, told: str
    ) -> None:
        session = await open_session(Notes, {})
        answer = await session.tools.call(name, arguments)
        assert answer.error is not None
        assert answer.error.error_type is kind
        assert told in answer.error.message
        assert answer.text == answer.error.message
        assert (answer.value, answer.reward, answer.done) == (None, None, False)
        assert (await session.tools.call("same_thread", {})).error is None

    async def test_what_concerns_the_session_is_raised(self, open_session: Open) -> None:
        session = await open_session(Notes)
        with pytest.raises(ResetNeededError):
            await session.tools.call("write", {"path": "a", "text": "b"})
        await session.close()
        with pytest.raises(SessionNotFoundError):
            await session.tools.call("write", {})
        with pytest.raises(SessionNotFoundError):
            await session.tools.list()

    async def test_async_tools_and_their_progress(self, open_session: Open) -> None:
        session = await open_session(Site, {})
        told: list[tuple[float, str]] = []
        with progress_listener(lambda *progress: told.append(progress)):
            answer = await session.tools.call("goto", {"url": "b", "steps": 4})
        assert answer.value == "b"
        assert told == [(0.0, "step 0"), (0.25, "step 1"), (0.5, "step 2"), (0.75, "step 3")]
        await session.tools.call("goto", {"url": "c", "steps": 4})
        assert len(told) == 4
        assert (await session.tools.call("where", {})).value == {"page": "c", "on_loop": False}
        crashed = await session.tools.call("crash", {})
        assert crashed.text == "the page crashed"

    async def test_progress_of_plain_tools_comes_on_the_event_loop(self, open_session: Open) -> None:
        session = await open_session(Site, {})
        loops: list[asyncio.AbstractEventLoop] = []
        with progress_listener(lambda *_: loops.append(asyncio.get_running_loop())):
            answer = await session.tools.call("count", {"to": 3})
        assert answer.value == 3
        assert loops == [asyncio.get_running_loop()] * 3

    async def test_a_call_that_was_given_up_does_not_report_to_the_next_one(self) -> None:
        sessions = SessionManager(EnvironmentFactory(Held), environment_types(Held), ServerConfig())
        session = await sessions.open()
        await session.reset({})
        told: dict[str, list[Any]] = {"held": [], "brief": []}

        async def call(name: str) -> ToolCallResult:
            with progress_listener(lambda *progress: told[name].append(progress)):
                return await session.tools.call(name, {})

        given_up = asyncio.create_task(call("held"))
        await asyncio.to_thread(Held.began.wait)
        given_up.cancel()
        await asyncio.wait([given_up])
        brief = asyncio.create_task(call("brief"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # it has its turn now, behind the other one
        Held.goes_on.set()
        assert (await brief).value == "brief"
        assert told == {"held": [(0.1, "held")], "brief": [(0.2, "brief")]}
        await sessions.close_all()

    @pytest.mark.parametrize(
        "content", ["text", 5, None, ["text"], [{"type": "text", "text": 5}], [{"text": "untyped"}], {"type": "text"}]
    )
    async def test_a_result_that_resembles_one_of_mcp_s_is_a_value(self, content: Any) -> None:
        sessions = SessionManager(EnvironmentFactory(Held), environment_types(Held), ServerConfig())
        session = await sessions.open()
        await session.reset({})
        value = {"content": content, "structured_content": None, "data": None, "is_error": False}
        answer = await session.tools.call("same", {"value": value})
        assert (answer.value, answer.content, answer.error) == (value, [], None)
        await sessions.close_all()

    async def test_a_call_that_takes_too_long_is_raised(self, open_session: Open) -> None:
        session = await open_session(Slow, {})
        with pytest.raises(EnvironmentTimeoutError):
            await session.tools.call("sleep", {}, timeout_s=0.05)


class Held(Environment[Any, Any, Any]):
    """A tool that is held in its thread, and others."""

    began: ClassVar[threading.Event]
    goes_on: ClassVar[threading.Event]

    def reset(self) -> Observation:
        Held.began, Held.goes_on = threading.Event(), threading.Event()
        return Observation()

    @tool
    def held(self) -> str:
        """Report, wait, and report again."""
        self.report_progress(0.1, "held")
        Held.began.set()
        assert Held.goes_on.wait(60)
        self.report_progress(0.9, "held")
        return "held"

    @tool
    def brief(self) -> str:
        """Report, and end."""
        self.report_progress(0.2, "brief")
        return "brief"

    @tool
    def same(self, value: Any) -> Any:
        """Give back what came."""
        return value


class Slow(Environment[Any, Any, Any]):
    def reset(self) -> Observation:
        return Observation()

    @tool
    async def sleep(self) -> None:
        """Sleep."""
        await asyncio.sleep(60)


class TestActionTools:
    async def test_each_action_is_a_tool(self, open_session: Open) -> None:
        session = await open_session(Word)
        guess, hint = await session.tools.list()
        assert (guess.name, guess.description) == ("guess", "Guess the word.")
        assert guess.input_schema == {
            "type": "object",
            "properties": {"word": {"type": "string", "description": "The word."}},
            "required": ["word"],
        }
        assert hint.input_schema["properties"] == {
            "letter": {"type": "integer", "minimum": 0, "maximum": 4, "description": "which one"}
        }

    async def test_a_call_is_a_step(self, open_session: Open) -> None:
        session = await open_session(Word, {})
        hint = await session.tools.call("hint", {"letter": 1})
        assert (hint.value, hint.text) == ({"text": "r", "done": False}, '{"text":"r","done":false}')
        assert (hint.reward, hint.metadata) == (-0.1, {"secret": "crane"})
        won = await session.tools.call("guess", {"word": "crane"})
        assert (won.reward, won.done) == (1.0, True)
        assert (session.episode.phase, session.episode.step_count) == (Phase.DONE, 2)
        with pytest.raises(ResetNeededError):
            await session.tools.call("guess", {"word": "crane"})

    @pytest.mark.parametrize(
        ("name", "arguments", "told"),
        [
            ("hint", {"letter": 9}, "letter: Input should be less than or equal to 4"),
            ("hint", {}, "letter: Field required"),
            ("guess", {"word": "a", "metadata": {}}, "metadata: Extra inputs are not permitted"),
            ("guess", {"word": "a", "type": "hint"}, "type: Extra inputs are not permitted"),
            ("guess", {"word": "a", '"""': 1}, '""": Extra inputs are not permitted'),
        ],
    )
    async def test_wrong_arguments_do_nothing(
        self, open_session: Open, name: str, arguments: dict[str, Any], told: str
    ) -> None:
        session = await open_session(Word, {})
        answer = await session.tools.call(name, arguments)
        assert answer.error is not None
        assert (answer.error.error_type, answer.text) == (ToolErrorType.INVALID_ARGS, told)
        assert session.episode.step_count == 0

    async def test_an_environment_that_raises_or_refuses_is_told_of(self, open_session: Open) -> None:
        session = await open_session(Raising, {})
        raised = await session.tools.call("do", {"what": "raise"})
        assert raised.error is not None
        assert raised.error.error_type is ToolErrorType.EXECUTION_ERROR
        assert raised.text == raised.error.message == "it broke at '.../words'", "no path of the server"
        refused = await session.tools.call("do", {"what": "refuse"})
        assert refused.error is not None
        assert (refused.error.error_type, refused.text) == (ToolErrorType.INVALID_ARGS, "not now")
        unknown = await session.tools.call("step", {})
        assert unknown.error is not None
        assert unknown.error.error_type is ToolErrorType.TOOL_NOT_FOUND

    async def test_an_observation_may_have_the_fields_of_a_tool_s_result(self, open_session: Open) -> None:
        session = await open_session(Workshop, {})
        shown = {"tool_name": "saw", "result": "blunt", "error": "the blade is worn"}
        answer = await session.tools.call("do", {"what": "look"})
        assert (answer.error, answer.value) == (None, {**shown, "done": False})


class Workbench(Observation):
    """An author's own observation, about tools of another kind."""

    tool_name: str
    result: str
    error: str | None


class Workshop(Environment[Do, Workbench, State]):
    def reset(self) -> Workbench:
        return Workbench(tool_name="saw", result="new", error=None)

    def step(self, action: Do) -> Workbench:
        return Workbench(tool_name="saw", result="blunt", error="the blade is worn")

    @property
    def state(self) -> State:
        return State()


class Raising(Environment[Do, Shown, State]):
    def reset(self) -> Shown:
        return Shown()

    def step(self, action: Do) -> Shown:
        if action.what == "refuse":
            raise IllegalActionError("not now")
        raise RuntimeError("it broke at '/usr/share/dict/words'")

    @property
    def state(self) -> State:
        return State()


async def test_own_tools_stand_beside_those_of_actions(open_session: Open) -> None:
    session = await open_session(WordWithTools, {})
    assert await names(session) == ["words", "hint", "guess", "hint_action"]
    assert (await session.tools.call("words", {"prefix": "cro"})).value == ["crown"]
    assert (await session.tools.call("hint", {})).value == "a bird"
    assert (await session.tools.call("hint_action", {"letter": 0})).value == {"text": "c", "done": False}
    assert (await session.tools.call("guess", {"word": "crane"})).reward == 1.0


class TestChoosing:
    def test_what_every_session_has_follows_from_the_class(self) -> None:
        def common(cls: type | None, served: type) -> list[str] | None:
            tools = common_tools(cls, environment_types(served).action)
            return None if tools is None else [tool.name for tool in tools]

        assert common(Held, Held) == ["held", "brief", "same"]
        assert common(Word, Word) == ["guess", "hint"]
        assert common(WordWithTools, WordWithTools) == ["words", "hint", "guess", "hint_action"]
        assert common(Notes, Notes) is None, "some tasks have further tools"
        assert common(Public, Public) is None, "only its step knows"
        assert common(None, Word) is None

    async def test_to_list_them_is_no_step_of_an_environment_without_any(self, open_session: Open) -> None:
        session = await open_session(Counting)
        assert await names(session) == ["action"]
        assert (await session.state()) in (State(), WrittenJson('{"episode_id":null,"step_count":0}'))
        await session.reset({})
        assert (await session.tools.call("action", {})).reward == 1.0

    def test_a_tool_that_can_t_be_described_is_found_when_the_server_starts(self) -> None:
        class Odd(Environment[Any, Any, Any]):
            def reset(self) -> Observation:
                return Observation()

            @tool
            def take(self, lock: asyncio.Lock) -> None: ...

        with pytest.raises(ConfigurationError, match="The tool 'take' takes what has no form in JSON"):
            common_tools(Odd, environment_types(Odd).action)

    async def test_an_environment_of_the_public_kind_is_driven_through_step(self, open_session: Open) -> None:
        session = await open_session(Public, {})
        with pytest.raises(EnvironmentFailedError, match="Expected the environment to answer ListToolsAction"):
            await session.tools.list()
        assert (await session.tools.call("add", {"a": 1})).value == {"a": 1}


class Counting(Environment[Action, Observation, State]):
    """Takes an action that says nothing."""

    steps = 0

    def reset(self) -> Observation:
        return Observation()

    def step(self, action: Action) -> Observation:
        self.steps += 1
        return Observation(reward=1.0)

    @property
    def state(self) -> State:
        return State(step_count=self.steps)


class Public(Environment[CallToolAction, CallToolObservation, State]):
    """Lists no tools, though it takes calls."""

    def reset(self) -> Observation:
        return Observation()

    def step(self, action: Any) -> Observation:
        if isinstance(action, ListToolsAction):
            return Observation()
        return CallToolObservation(tool_name=action.tool_name, result=action.arguments)

    @property
    def state(self) -> State:
        return State()


class TestNames:
    @pytest.mark.parametrize(
        ("classes", "taken", "expected"),
        [
            (["GuessAction"], (), ["guess"]),
            (["HTTPGetAction", "Press2Keys"], (), ["http_get", "press2_keys"]),
            (["Action"], (), ["action"]),
            (["StepAction", "ResetAction", "Close"], (), ["step_action", "reset_action", "close_2"]),
            (["Guess", "GuessAction"], (), ["guess", "guess_action"]),
            (["GuessAction"], ("guess",), ["guess_action"]),
            (["GuessAction", "GuessAction", "GuessAction"], (), ["guess", "guess_action", "guess_action_2"]),
            (["Box[int]Action", "Été", "_"], (), ["box_int", "t", "act"]),
        ],
    )
    def test_of_classes(self, classes: list[str], taken: tuple[str, ...], expected: list[str]) -> None:
        members = tuple(type(name, (Action,), {"__module__": __name__}) for name in classes)
        union: Any = members[0]
        for member in members[1:]:
            union = union | member
        model = EnvironmentTypes(union, Observation, State).action if len(members) == 1 else _union(union)
        assert list(action_tools(model, frozenset(taken))) == expected

    @given(st.lists(st.text(min_size=1, max_size=300), min_size=1, max_size=4))
    def test_any_class_has_a_name_that_agents_know(self, classes: list[str]) -> None:
        members = [type("A", (Action,), {"__module__": __name__, "__qualname__": name}) for name in classes]
        for member, name in zip(members, classes, strict=True):
            member.__name__ = name.replace("\0", "")
            (found,) = action_tools(member, frozenset())
            assert re.fullmatch(r"[a-z0-9_]{1,128}", found)


def _union(union: Any) -> type[BaseModel]:
    model = action_model(union)
    assert model is not None
    return model


class TestOddActions:
    async def test_plain_models_with_further_fields(self) -> None:
        class Loose(BaseModel):
            word: str

        tools = action_tools(Loose, frozenset())
        answer = await Toolbox(_never, Loose, Observation, offers_tools=False, class_tools=frozenset()).call(
            "loose", {"word": "a", "extra": 1}
        )
        assert answer.error is not None
        assert tools["loose"].action({"word": "a"}) == Loose(word="a")

    def test_fields_with_an_alias_go_by_it(self) -> None:
        class Aliased(Action):
            word: str = Field(alias="theWord")

        (derived,) = action_tools(Aliased, frozenset()).values()
        assert list(derived.described.input_schema["properties"]) == ["theWord"]
        assert derived.action({"theWord": "a"}).model_dump()["word"] == "a"

    def test_a_model_of_any_fields_takes_them(self) -> None:
        class Anything(RootModel[dict[str, int]]):
            pass

        (derived,) = action_tools(Anything, frozenset()).values()
        assert derived.action({"a": 1}) == Anything({"a": 1})


async def _never(action: BaseModel, timeout_s: float | None = None, *, tool: str | None = None) -> Outcome:
    raise AssertionError


def test_members_keep_what_tells_them_apart() -> None:
    tools = action_tools(environment_types(Word).action, frozenset())
    assert tools["guess"].action({"word": "a"}) == GuessAction(word="a")
    assert tools["hint"].action({"letter": 1}) == HintAction(letter=1)
