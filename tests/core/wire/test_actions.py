"""Several kinds of actions as one class."""

import json
import pickle
from datetime import date
from typing import Annotated, Any, Literal, NewType, TypeVar, Union
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Discriminator, Field, RootModel, Tag, TypeAdapter, ValidationError
from tests.support.environments.lamp import DimAction, DimmableLamp, Lamp, LampAction, LampSeen
from tests.support.environments.tools import AnyAction, GuessAction, HintAction, Shown, Word
from tests.support.servers import RunningServer
from typing_extensions import TypeAliasType

from openenv import (
    Action,
    Environment,
    GenericEnvClient,
    Observation,
    State,
    StepResult,
    TypedEnvClient,
    client_for,
    tool,
)
from openenv.core import MCPToolClient
from openenv.core.env_server.app import create_app, create_fastapi_app
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.environment_types import environment_types
from openenv.core.exceptions import ConfigurationError, InvalidRequestError, RequestRejectedError
from openenv.core.schema.reader import members as schema_members
from openenv.core.wire.actions import (
    ActionUnion,
    action_member,
    action_members,
    action_model,
    decode_action,
    member_action,
)


class Plain(BaseModel):
    number: int


class Named(BaseModel):
    name: str


class Say(Action):
    kind: Literal["say"] = "say"
    text: str


class End(Action):
    kind: Literal["end"] = "end"


_SAY_OR_END: TypeAdapter[Say | End] = TypeAdapter(Annotated[Say | End, Field(discriminator="kind")])


class Call(Action):
    """Has the ``type`` of an action that calls a tool, and fields of its own."""

    type: Literal["call_tool"] = "call_tool"
    several: list[str]


class OwnCall(Action):
    @classmethod
    def model_validate(cls, obj: Any, **kwargs: Any) -> Any:
        return Call.model_validate(obj, **kwargs)


class SayOrEnd(Action):
    """A class that stands for two, as code for the public package writes it."""

    @classmethod
    def model_validate(cls, obj: Any, **kwargs: Any) -> Any:
        return _SAY_OR_END.validate_python(obj, **kwargs)

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return _SAY_OR_END.json_schema(*args, **kwargs)


class Echo(Environment[SayOrEnd, Observation, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self) -> Observation:
        return Observation()

    def step(self, action: Any) -> Observation:
        return Observation(metadata={"taken": type(action).__name__}, done=isinstance(action, End))

    @property
    def state(self) -> State:
        return State()


def union(annotation: Any) -> type[BaseModel]:
    model = action_model(annotation)
    assert model is not None
    return model


def test_a_single_class_stays_what_it_is() -> None:
    for annotation in (Plain, Plain | None, Annotated[Plain, "anything"], Plain | str):
        assert action_model(annotation) is Plain
    assert action_members(Plain) == (Plain,)


@pytest.mark.parametrize("annotation", [None, int, int | str, "Plain", Any, Literal["a"]])
def test_what_names_no_model_has_none(annotation: Any) -> None:
    assert action_model(annotation) is None


@pytest.mark.parametrize("annotation", [Plain | Named, AnyAction, GuessAction | HintAction, Plain | (Named | None)])
def test_a_union_validates_its_members(annotation: Any) -> None:
    model = union(annotation)
    members = action_members(model)
    assert len(members) == 2
    assert model is union(annotation)
    assert model.__name__ == f"{members[0].__name__} | {members[1].__name__}"
    assert issubclass(model, ActionUnion)
    fields = {"number": 3} if Plain in members else {"type": "guess", "word": "a"}
    member = model.model_validate(fields)
    assert type(member) is members[0]
    assert model.model_validate(member) == member
    with pytest.raises(ValidationError):
        model.model_validate({"neither": 1})


def test_strict_members_are_made_of_their_json() -> None:
    class Book(Action):
        model_config = ConfigDict(strict=True)
        on: date
        seats: set[int]

    class Cancel(Action):
        model_config = ConfigDict(strict=True)
        key: UUID

    union = action_model(Book | Cancel)
    assert union is not None
    for action in (Book(on=date(2020, 2, 3), seats={1, 2}), Cancel(key=UUID(int=3))):
        assert decode_action(json.loads(action.model_dump_json()), union) == action
    for wrong in ({"on": "2020-02-03", "seats": ["1"]}, {"key": 3}):
        with pytest.raises(InvalidRequestError):
            decode_action(wrong, union)


class Holder(RootModel[Annotated[GuessAction | HintAction, Field(discriminator="type")]]):
    pass


class Heir(Holder):
    pass


Alias = TypeAliasType("Alias", GuessAction | HintAction)
Deep = TypeAliasType("Deep", Alias | None)
FirstT = TypeVar("FirstT")
Open = TypeAliasType("Open", FirstT | HintAction, type_params=(FirstT,))
Renamed = NewType("Renamed", GuessAction)


def kind_of(fields: Any) -> str:
    """Read the type as authors write it who try it with fields alone."""
    return str(fields["type"])


class ByFunction(
    RootModel[
        Annotated[
            Annotated[GuessAction, Tag("guess")] | Annotated[HintAction, Tag("hint")] | Annotated[Say, Tag("say")],
            Discriminator(kind_of),
        ]
    ]
):
    pass


@pytest.mark.parametrize(
    "annotation",
    [
        Holder,
        Heir,
        RootModel[Heir | None],
        Alias,
        Deep,
        RootModel[Deep],
        Holder | Plain,
        Open[GuessAction],
        RootModel[Open[GuessAction] | None],
        RootModel[Union[Renamed, HintAction]],  # noqa: UP007  # a NewType has no | before Python 3.12
        ByFunction,
        RootModel[ByFunction | Plain],
    ],
)
def test_members_are_found_in_root_models_and_aliases(annotation: Any) -> None:
    model = union(annotation)
    members = action_members(model)
    assert members[:2] == (GuessAction, HintAction)
    assert [member.name for member in schema_members(model.model_json_schema())] == [each.__name__ for each in members]
    guess = GuessAction(word="a")
    taken = member_action(guess, model)
    assert taken == decode_action({"type": "guess", "word": "a"}, model)
    assert action_member(taken) == guess


def test_a_root_model_of_one_class_has_that_member() -> None:
    assert action_members(RootModel[Plain]) == (Plain,)
    assert action_members(RootModel[list[Plain]]) == (RootModel[list[Plain]],)


def test_its_schema_is_that_of_the_union() -> None:
    assert set(union(Plain | Named).model_json_schema()) == {"$defs", "anyOf", "title"}
    discriminated = union(AnyAction).model_json_schema()
    assert discriminated["discriminator"]["propertyName"] == "type"
    assert len(discriminated["oneOf"]) == 2


@pytest.mark.parametrize("annotation", [Plain | Named, AnyAction])
def test_other_processes_can_make_it_again(annotation: Any) -> None:
    again = pickle.loads(pickle.dumps(union(annotation)))
    assert action_members(again) == action_members(union(annotation))
    assert pickle.loads(pickle.dumps(ActionUnion)) is ActionUnion


def test_an_environment_s_parameters_or_annotations_may_be_a_union() -> None:
    class Hinted:
        def reset(self) -> Shown:
            return Shown()

        def step(self, action: GuessAction | HintAction) -> Shown:
            return Shown()

    assert action_members(environment_types(Word).action) == (GuessAction, HintAction)
    assert action_members(environment_types(Hinted).action) == (GuessAction, HintAction)


@pytest.mark.parametrize("settings", [{}, {"isolation": "process"}])
def test_served_with_a_client_that_knows_the_members(settings: dict[str, Any]) -> None:
    app = create_app(Word, GuessAction | HintAction, Shown, "word", **settings)
    with RunningServer(app) as server, client_for(Word)(base_url=server.url).sync() as env:
        env.reset()
        assert env.step(HintAction(letter=4)).observation == Shown(text="e", reward=-0.1, metadata={"secret": "crane"})
        assert env.step(GuessAction(word="crane")).done
        with pytest.raises(RequestRejectedError):
            env.step(Plain(number=1))


def test_the_types_may_be_left_to_the_class() -> None:
    with RunningServer(create_fastapi_app(Word)) as server, server.http() as http:
        schema = http.get("/schema").json()
    assert schema["action"]["discriminator"]["mapping"].keys() == {"guess", "hint"}
    assert schema["observation"]["title"] == "Shown"


def test_no_model_at_all_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Expected a pydantic model, or a union of such"):
        create_app(Word, int, Shown)  # type: ignore[arg-type]


@pytest.mark.parametrize("root", [list[Plain], str, Literal["left", "right"], int | None])
def test_actions_that_are_no_objects_in_json_are_refused(root: Any) -> None:
    with pytest.raises(ConfigurationError, match="Expected actions that are objects in JSON"):
        create_app(Word, RootModel[root], Shown)


@pytest.mark.parametrize("root", [dict[str, int], Any, str | Plain])
def test_actions_that_may_be_objects_in_json_are_served(root: Any) -> None:
    assert "/reset" in create_app(Word, RootModel[root], Shown).openapi()["paths"]


def test_typed_clients_may_name_a_union() -> None:
    class WordEnv(TypedEnvClient[GuessAction | HintAction, Shown, State]):
        pass

    assert action_members(WordEnv.action_class) == (GuessAction, HintAction)


class TestOverriddenModelValidate:
    def test_it_makes_the_actions(self) -> None:
        with RunningServer(create_app(Echo, SayOrEnd, Observation)) as server, server.wire() as wire:
            wire.reset()
            said = wire.step(kind="say", text="x")["data"]
            assert (said["observation"]["metadata"], said["done"]) == ({"taken": "Say"}, False)
            assert wire.step(kind="end")["data"]["done"]
            refused = wire.step(kind="sing")["data"]
            assert (refused["code"], refused["errors"][0]["type"]) == ("VALIDATION_ERROR", "union_tag_invalid")

    def test_it_comes_before_the_actions_that_call_tools(self) -> None:
        made = decode_action({"type": "call_tool", "several": ["a", "b"]}, OwnCall, offers_tools=True)
        assert isinstance(made, Call)
        made = decode_action({"type": "call_tool", "tool_name": "a", "arguments": {}}, OwnCall, offers_tools=True)
        assert isinstance(made, CallToolAction)

    @pytest.mark.parametrize("error", [KeyError, ValueError, RuntimeError])
    def test_one_that_refuses_the_types_of_tools_leaves_them_to_the_server(self, error: type[Exception]) -> None:
        class ByType(Action):
            type: str = ""

            @classmethod
            def model_validate(cls, obj: Any, **kwargs: Any) -> Any:
                if obj["type"] != "say":
                    raise error(obj["type"])
                return Say(text=obj["text"])

        class Talk(Environment[ByType, Observation, State]):
            def reset(self) -> Observation:
                return Observation()

            def step(self, action: Any) -> Observation:
                return Observation(metadata={"taken": type(action).__name__})

            @tool
            def shout(self, text: str) -> str:
                """Shout."""
                return text.upper()

            @property
            def state(self) -> State:
                return State()

        with RunningServer(create_app(Talk, ByType, Observation)) as server, server.wire() as wire:
            wire.reset()
            assert wire.step(type="say", text="x")["data"]["observation"]["metadata"] == {"taken": "Say"}
            listed = wire.step(type="list_tools")["data"]["observation"]["tools"]
            assert "shout" in [each["name"] for each in listed]
            called = wire.step(type="call_tool", tool_name="shout", arguments={"text": "x"})["data"]
            assert called["observation"]["result"] == "X"
            assert "sing" in wire.step(type="sing")["data"]["message"]

    async def test_it_makes_those_of_a_column_of_sessions(self) -> None:
        with RunningServer(create_app(Echo, SayOrEnd, Observation, max_concurrent_envs=2)) as server:
            async with GenericEnvClient(base_url=server.url) as client, await client.vector(2) as envs:
                await envs.reset()
                results = await envs.step([{"kind": "say", "text": "x"}, {"kind": "end"}])
        taken = [result.observation["metadata"]["taken"] for result in results if isinstance(result, StepResult)]
        assert taken == ["Say", "End"]

    @pytest.mark.parametrize("settings", [{}, {"isolation": "process"}])
    def test_it_may_make_the_actions_of_tools(self, settings: dict[str, Any]) -> None:
        app = create_app(Lamp, LampAction, LampSeen, "lamp", **settings)
        with RunningServer(app) as server, MCPToolClient(base_url=server.url).sync() as env:
            assert [listed.name for listed in env.list_tools()] == ["switch"]
            env.reset()
            assert env.call_tool("switch")["lit"] is True
            result = env.step(CallToolAction(tool_name="switch", arguments={}))
            assert (result.reward, result.observation.lit) == (1.0, False)
            assert env.step(CallToolAction(tool_name="dim", arguments={})).observation.error == "no dim"

    @pytest.mark.parametrize("settings", [{}, {"isolation": "process"}])
    def test_one_that_makes_actions_of_tools_beside_its_own_keeps_its_own(self, settings: dict[str, Any]) -> None:
        app = create_app(DimmableLamp, DimAction, LampSeen, "lamp", **settings)
        with RunningServer(app) as server, MCPToolClient(base_url=server.url).sync() as env:
            env.reset()
            assert [listed.name for listed in env.list_tools()] == ["switch", "dim"]
            assert env.call_tool("switch")["lit"] is True
            assert env.call_tool("dim", level=0)["lit"] is False

    def test_it_may_raise_any_error(self) -> None:
        class Even(Action):
            number: int = 1

            @classmethod
            def model_validate(cls, obj: Any, **kwargs: Any) -> Any:
                if obj.get("number", 1) % 2:
                    raise RuntimeError("odd")
                return super().model_validate(obj, **kwargs)

        with RunningServer(create_app(Echo, Even, Observation)) as server, server.wire() as wire:
            wire.reset()
            assert wire.step(number=3)["data"]["message"] == "odd"
            assert wire.step(number=4)["data"]["observation"]["metadata"] == {"taken": "Even"}
