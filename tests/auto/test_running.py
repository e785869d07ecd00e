"""Servers that run already are found where they should be."""

import pytest
from tests.support.servers import RunningServer

from openenv.auto.running import answers_at, running_space
from openenv.core.exceptions import ConfigurationError, ConnectionFailedError


def test_who_answers_is_found(counter_server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answers_at(counter_server.url)
    monkeypatch.setenv("OPENENV_SPACE_URL", counter_server.url)
    assert running_space("acme/tally-env") == counter_server.url


@pytest.mark.level("socket")
def test_nobody_on_this_machine_can_be_helped_and_elsewhere_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert not answers_at("http://127.0.0.1:9")
    monkeypatch.setattr("openenv.auto.running.PROBE_S", 0.2)
    with pytest.raises(ConnectionFailedError, match=r"No server answers at http://nobody\.invalid:9: .*within 0\.2 s"):
        answers_at("http://nobody.invalid:9")
    with pytest.raises(ConfigurationError, match="looks like http://host:port"):
        answers_at("nobody")
    monkeypatch.setenv("OPENENV_SPACE_URL", "http://127.0.0.1:9/{subdomain}")
    assert running_space("acme/tally-env") is None
    assert "does not answer at http://127.0.0.1:9/acme-tally-env" in caplog.text
