"""A Hub on this machine for the length of a test, for this process and for those that it starts."""

from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants
from tests.support.services.hub_server import TOKEN, HubServer, hub_server


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    """The one Hub that there is; whoever asks it is logged in as ``ada``."""
    home = tmp_path / ".hf"
    with hub_server() as server:
        for name, value in {
            "HF_ENDPOINT": server.url,
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_XET": "1",
            "HF_TOKEN": TOKEN,
            "XDG_CACHE_HOME": str(tmp_path / ".cache"),
        }.items():
            monkeypatch.setenv(name, value)
        # The library has read its variables already.
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        pages = f"{server.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", pages)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(home / "token"))
        monkeypatch.setattr(constants, "AGENT_HARNESSES_PATH", str(home / "harnesses"))
        yield server
        huggingface_hub.close_session()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asks again at once where the Hub is in trouble."""
    monkeypatch.setattr("openenv.hub.client.DELAYS_S", (0.0, 0.01, 0.01, 0.01))
