"""Fixtures that every part of the tests may use."""

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.support.environments.common import Add, CounterEnvironment, Gate, Total
from tests.support.servers import RunningServer
from tests.support.wheels import offline, uv_cache, wheelhouse

from openenv.core.env_server.app import create_fastapi_app

Serve = Callable[..., RunningServer]

__all__ = ["offline", "uv_cache", "wheelhouse"]


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Let reports of several processes hold half a character, which some tests print and pytest-xdist can't send."""
    return _encodable((yield))


def _encodable(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {_encodable(key): _encodable(one) for key, one in value.items()}
        case list() | tuple():
            return type(value)(_encodable(one) for one in value)
    return value


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve environments, by default the counter, for the length of a test: ``serve(env, action, ...)``."""
    with ExitStack() as servers:

        def start(env: Any = CounterEnvironment, action: Any = Add, observation: Any = Total, **settings: Any) -> Any:
            settings.setdefault("max_concurrent_envs", None if "concurrency_config" in settings else 8)
            return servers.enter_context(RunningServer(create_fastapi_app(env, action, observation, **settings)))

        yield start


@pytest.fixture(scope="module")
def counter_server() -> Iterator[RunningServer]:
    """One server of counters for all tests of a module that leave it as they found it."""
    with RunningServer(create_fastapi_app(CounterEnvironment, Add, Total, max_concurrent_envs=64)) as server:
        yield server


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Holds the calls of a ``GatedEnvironment``; opened when the test ends, before its server is stopped."""
    with Gate().open_afterwards() as gate:
        yield gate
