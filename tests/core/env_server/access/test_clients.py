"""Limits of clients: the server's, and those of named tokens, as they change."""

from collections.abc import Callable
from pathlib import Path

import pytest

from openenv.core.env_server.access.clients import ClientLimits
from openenv.core.env_server.access.tokens import TokenFile
from openenv.core.env_server.settings import ServerConfig
from openenv.core.exceptions import RateLimitedError

CONFIG = ServerConfig(max_sessions_per_client=3, max_messages_per_s=5)


class Tokens:
    """A file of one token, which is read again at once."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._now = 0.0
        self.write("")
        self.read = TokenFile(file, self._clock)

    def _clock(self) -> float:
        self._now += 1
        return self._now

    def write(self, limits: str, name: str = "trainer") -> None:
        self._file.write_text(f"[{name}]\nsha256 = '{'0' * 64}'\nrole = 'play'\n{limits}\n")


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "tokens.toml")


def passed(check: Callable[[], None], tries: int = 100) -> int:
    """Count the messages that pass before one is refused."""
    for number in range(tries):
        try:
            check()
        except RateLimitedError:
            return number
    return tries


def test_without_limits_of_its_own_a_token_has_those_of_the_server(tokens: Tokens) -> None:
    limits = ClientLimits(CONFIG, tokens.read)
    for client in ("token:trainer", "192.0.2.7"):
        assert limits.max_sessions(client) == 3
        assert passed(lambda client=client: limits.check_rate(client)) == 5  # type: ignore[misc]
        first, second = limits.rate_of_socket(client), limits.rate_of_socket(client)
        assert first is not None
        assert first is not second


def test_limits_of_a_token_follow_its_file(tokens: Tokens) -> None:
    limits = ClientLimits(CONFIG, tokens.read)
    tokens.write("max_sessions = 7\nmax_messages_per_s = 2")
    rate = limits.rate_of_socket("token:trainer")
    assert rate is not None
    assert (limits.max_sessions("token:trainer"), rate.per_s) == (7, 2)
    assert passed(rate.check) == 2
    assert passed(lambda: limits.check_rate("token:trainer")) == 0, "its sockets and its requests count together"
    tokens.write("max_messages_per_s = 50")
    assert limits.rate_of_socket("token:trainer") is rate
    assert (limits.max_sessions("token:trainer"), rate.per_s) == (3, 50)
    assert passed(rate.check) >= 50
    tokens.write("", name="another")
    assert limits.max_sessions("token:trainer") == 0
    assert limits.max_sessions("192.0.2.7") == 3


def test_without_any_limit_nothing_is_counted() -> None:
    limits = ClientLimits(ServerConfig(), None)
    assert not limits.limits_messages
    assert limits.rate_of_socket("192.0.2.7") is None
    assert limits.max_sessions("192.0.2.7") is None
    assert passed(lambda: limits.check_rate("192.0.2.7")) == 100
