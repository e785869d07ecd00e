"""What a reset is passed is checked against the signature: on each transport, in its own way."""

import logging
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.execution.reset_parameters import ResetParameters
from openenv.core.exceptions import ConfigurationError, InvalidRequestError, RequestRejectedError
from openenv.core.generic_client import GenericEnvClient
from openenv.core.reset_check import check_reset_parameters, without_unknown

UNKNOWN = "reset does not take 'sizze' (did you mean 'size'?). It takes: seed, size, level, episode_id."


class SizedEnvironment(CounterEnvironment):
    """Begins with a total of its size."""

    def reset(  # type: ignore[override]
        self,
        seed: int | None = None,
        size: Annotated[int, Field(ge=0, le=9)] = 3,
        level: Literal["easy", "hard"] = "easy",
        episode_id: Any = None,
    ) -> Total:
        first = super().reset(seed)
        assert isinstance(size, int)
        return first.model_copy(update={"total": size})


class SizedThreadEnvironment(SizedEnvironment):
    """The same in a thread of its own."""

    BLOCKING = True


@pytest.fixture(scope="module", params=[SizedEnvironment, SizedThreadEnvironment])
def server(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    with RunningServer(create_fastapi_app(request.param, Add, Total, max_concurrent_envs=16)) as server:
        yield server


class TestV1:
    def test_an_unknown_name_is_refused_with_the_nearest_and_the_known(self, server: RunningServer) -> None:
        with GenericEnvClient(base_url=server.url).sync() as client:
            with pytest.raises(RequestRejectedError) as refused:
                client.reset(sizze=4)
            assert refused.value.message == UNKNOWN
            assert refused.value.details["nearest"] == {"sizze": "size"}
            assert refused.value.details["known"] == ["seed", "size", "level", "episode_id"]
            assert client.reset(size=4).observation["total"] == 4

    def test_types_are_checked_and_made_of_what_json_has(self, server: RunningServer) -> None:
        with GenericEnvClient(base_url=server.url).sync() as client:
            with pytest.raises(RequestRejectedError, match="size: Input should be a valid integer"):
                client.reset(size="four")
            with pytest.raises(RequestRejectedError, match="size: Input should be less than or equal to 9, got 10"):
                client.reset(size=10)
            with pytest.raises(RequestRejectedError, match="level: Input should be 'easy' or 'hard'"):
                client.reset(level="esay")
            assert client.reset(size="4").observation["total"] == 4
            assert client.reset(size=4.0, seed=None).observation["total"] == 4

    def test_a_listed_task_may_have_further_fields(self, server: RunningServer) -> None:
        with GenericEnvClient(base_url=server.url).sync() as client:
            assert client.reset(split="train", index=0, answer="42", size=2).observation["total"] == 2


class TestThePublicWire:
    def test_an_unknown_name_is_left_out_and_logged_once(
        self, server: RunningServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.WARNING, "openenv")
        with server.wire() as wire:
            for _ in range(2):
                assert wire.reset(sizze=4)["data"]["observation"]["total"] == 3
        said = [record.getMessage() for record in caplog.records]
        with server.http() as http:
            environment = http.get("/metadata").json()["name"]
        assert [text for text in said if "sizze" in text] == [f"{environment}: {UNKNOWN} It was left out."]

    def test_types_are_checked(self, server: RunningServer) -> None:
        with server.wire() as wire:
            answer = wire.reset(size="four")
            assert answer["data"]["code"] == "VALIDATION_ERROR"
            assert answer["data"]["message"].startswith("Wrong parameters of reset: size: Input should be")
            assert answer["data"]["errors"][0]["loc"] == ["size"]
            assert wire.reset(size=5)["data"]["observation"]["total"] == 5


class TestHTTP:
    def test_an_unknown_name_is_left_out_with_a_warning(self, server: RunningServer) -> None:
        with server.http() as http:
            answer = http.post("/reset", json={"sizze": 4, "size": 2})
            assert answer.json()["observation"]["total"] == 2
            assert answer.headers["X-OpenEnv-Warning"] == f"{UNKNOWN} It was left out."
            answer = http.post("/step", json={"action": {"amount": 1}, "hurry": True, "request_id": "7"})
            assert answer.headers["X-OpenEnv-Warning"].startswith("step does not take 'hurry'.")
            answer = http.post("/reset", json={"gr\u00f6\u00dfe\r\nX: y": 1})
            assert (answer.status_code, "X" in answer.headers) == (200, False)
            assert "X-OpenEnv-Warning" not in http.post("/reset", json={"size": 2, "seed": 1}).headers

    def test_types_are_checked(self, server: RunningServer) -> None:
        with server.http() as http:
            answer = http.post("/reset", json={"size": "four"})
            assert (answer.status_code, answer.json()["detail"][0]["loc"]) == (422, ["size"])


def test_the_schema_is_published_and_parameters_are_checked_against_it(server: RunningServer) -> None:
    with GenericEnvClient(base_url=server.url).sync() as client:
        schema = client.schemas()["reset"]
    assert schema["properties"]["size"] == {
        "title": "Size",
        "type": "integer",
        "minimum": 0,
        "maximum": 9,
        "default": 3,
    }
    check_reset_parameters(schema, {"size": 4, "seed": None, "level": "hard", "episode_id": "x"})
    with pytest.raises(ConfigurationError, match=r"--reset: reset does not take 'sizze' \(did you mean 'size'\?\)"):
        check_reset_parameters(schema, {"sizze": 4}, "--reset")
    with pytest.raises(ConfigurationError, match=r"'size' of reset: input should be a valid integer.*, got 'four'"):
        check_reset_parameters(schema, {"size": "four"})
    with pytest.raises(ConfigurationError, match=r"'level' of reset: input should be 'easy' or 'hard', got 'esay'"):
        check_reset_parameters(schema, {"level": "esay"})
    assert without_unknown(schema, {"size": 2, "answer": "42"}) == {"size": 2}


def test_what_can_not_be_checked_takes_anything() -> None:
    class Opaque:
        pass

    def reset(self: Any, seed=None, thing: Any = None, absent=1, **more: Any) -> None: ...  # type: ignore[no-untyped-def]

    reset.__annotations__ |= {"seed": int, "thing": Opaque, "absent": "Nowhere"}  # as a type checker would not have it
    parameters = ResetParameters(reset)
    given: dict[str, Any] = {"seed": None, "thing": 3, "absent": [], "further": {}}
    assert parameters.checked(given) == given
    assert parameters.names is None
    assert parameters.schema["additionalProperties"] is True
    check_reset_parameters(parameters.schema, given)
    with pytest.raises(InvalidRequestError, match="seed: Input should be a valid integer"):
        parameters.checked({"seed": "x"})
