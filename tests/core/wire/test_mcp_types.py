"""The models of tools and of JSON-RPC."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from openenv.core.env_server.serialization import deserialize_action
from openenv.core.exceptions import InvalidRequestError
from openenv.core.wire.actions import action_model, decode_action, names_tool_action, takes_tool_actions
from openenv.core.wire.mcp_types import (
    CallToolAction,
    CallToolObservation,
    GenericMCPObservation,
    JsonRpcError,
    JsonRpcErrorCode,
    JsonRpcRequest,
    JsonRpcResponse,
    ListToolsAction,
    ListToolsObservation,
    Tool,
    ToolError,
    ToolErrorType,
    tool_observation_class,
)
from openenv.core.wire.types import Action


class Add(Action):
    amount: int


class Typed(Action):
    type: str
    amount: int = 0


class Loose(BaseModel):
    note: str = ""


LIST, CALL = {"type": "list_tools"}, {"type": "call_tool", "tool_name": "a", "arguments": {"b": 1}}


class TestJsonRpc:
    @pytest.mark.parametrize("code", list(JsonRpcErrorCode))
    def test_each_code_has_a_message(self, code: JsonRpcErrorCode) -> None:
        response = JsonRpcResponse.error_response(code, request_id=3)
        error = {"code": int(code), "message": JsonRpcError.from_code(code).message, "data": None}
        assert response.model_dump() == {"jsonrpc": "2.0", "id": 3, "error": error}
        assert error["message"]

    def test_a_result_stands_alone_even_where_it_is_none(self) -> None:
        assert JsonRpcResponse.success(None).model_dump() == {"jsonrpc": "2.0", "id": None, "result": None}

    def test_also_within_another_model(self) -> None:
        class Frame(BaseModel):
            data: JsonRpcResponse

        dumped = Frame(data=JsonRpcResponse.success({"a": 1}, "x")).model_dump_json()
        assert dumped == '{"data":{"jsonrpc":"2.0","id":"x","result":{"a":1}}}'

    @pytest.mark.parametrize(
        "wrong", [{}, {"jsonrpc": "1.0", "method": "a"}, {"jsonrpc": "2.0", "method": "a", "x": 1}]
    )
    def test_what_is_no_request(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(ValidationError):
            JsonRpcRequest.model_validate(wrong)


class TestToolActions:
    @pytest.mark.parametrize("kind", [None, 3, [], {}, "call_tool\n", "LIST_TOOLS", ["list_tools"]])
    def test_other_types_name_none(self, kind: Any) -> None:
        assert not names_tool_action({"type": kind})

    @pytest.mark.parametrize(
        ("model", "takes"),
        [
            (Action, True),
            (CallToolAction, True),
            (ListToolsAction, True),
            (action_model(CallToolAction | ListToolsAction), True),
            (action_model(CallToolAction | Add), False),
            (Add, False),
        ],
    )
    def test_which_classes_take_them(self, model: type[BaseModel], takes: bool) -> None:
        assert takes_tool_actions(model) is takes

    @pytest.mark.parametrize("model", [Add, Loose, CallToolAction, Action])
    def test_an_environment_with_tools_takes_them_beside_its_own(self, model: type[BaseModel]) -> None:
        assert decode_action(LIST, model, offers_tools=True) == ListToolsAction()
        called = decode_action(CALL, model, offers_tools=True)
        assert called == CallToolAction(tool_name="a", arguments={"b": 1})

    def test_its_own_actions_come_first_where_they_have_a_type(self) -> None:
        assert decode_action(LIST, Typed, offers_tools=True) == Typed(type="list_tools")
        assert isinstance(decode_action(CALL, Typed, offers_tools=True), CallToolAction)

    def test_without_tools_nothing_changes(self) -> None:
        assert decode_action({"type": "list_tools"}, Loose) == Loose()
        with pytest.raises(InvalidRequestError):
            decode_action(LIST, Add)

    @pytest.mark.parametrize("wrong", [{"type": "call_tool"}, {**CALL, "more": 1}, {**CALL, "arguments": 3}])
    def test_what_is_wrong_is_told_of_the_call(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidRequestError) as caught:
            decode_action(wrong, Add, offers_tools=True)
        assert caught.value.errors is not None
        assert caught.value.errors[0]["loc"][0] in ("tool_name", "more", "arguments")

    def test_deserialize_action_knows_them_by_the_class(self) -> None:
        assert deserialize_action(LIST, Action) == ListToolsAction()
        assert deserialize_action(CALL, ListToolsAction).model_dump()["tool_name"] == "a"
        assert deserialize_action({"amount": 3}, Add) == Add(amount=3)
        with pytest.raises(ValidationError):
            deserialize_action(LIST, Add)


class TestObservations:
    def test_told_apart_by_their_fields(self) -> None:
        assert tool_observation_class({"tools": []}) is ListToolsObservation
        assert tool_observation_class({"tool_name": "a"}) is CallToolObservation
        tool = {"name": "a", "description": "", "inputSchema": {}}
        assert tool_observation_class({"tools": [tool], "metadata": {}, "reward": None}) is ListToolsObservation
        assert tool_observation_class({}) is GenericMCPObservation
        assert GenericMCPObservation.model_validate({"status": "ready"}).model_dump()["status"] == "ready"

    @pytest.mark.parametrize(
        "fields",
        [
            {"tools": ["saw"]},
            {"tools": {"saw": 1}},
            {"tools": [{"name": "saw", "price": 3}]},
            {"tools": [], "width": 3},
            {"tool_name": None},
            {"tool_name": "saw", "error": "it is blunt"},
        ],
        ids=str,
    )
    def test_an_environment_s_own_fields_of_the_same_names(self, fields: dict[str, Any]) -> None:
        assert tool_observation_class(fields) is GenericMCPObservation

    def test_models_refuse_further_fields(self) -> None:
        for model, fields in (
            (Tool, {"name": "a", "description": "", "input_schema": {}}),
            (ToolError, {"error_type": ToolErrorType.TIMEOUT, "message": ""}),
        ):
            model.model_validate(fields)
            with pytest.raises(ValidationError):
                model.model_validate({**fields, "more": 1})
