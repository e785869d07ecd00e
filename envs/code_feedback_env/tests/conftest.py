"""A running code feedback server, and an environment."""

from collections.abc import Iterator

import pytest

from code_feedback_env.server.code_feedback_environment import CodeFeedbackEnvironment
from openenv.core.providers.local_process import LocalProcessProvider


@pytest.fixture(scope="session")
def code_feedback_url() -> Iterator[str]:
    """The address of a server, in a process of its own."""
    with LocalProcessProvider("code_feedback", max_sessions=8) as server:
        server.wait_for_ready()
        yield server.base_url


@pytest.fixture
def environment() -> CodeFeedbackEnvironment:
    """An environment that was not reset."""
    return CodeFeedbackEnvironment()
