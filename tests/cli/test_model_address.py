"""Where a model is served, from the options that say so."""

import pytest

from openenv.cli.model_address import ProviderName, model_address
from openenv.core.exceptions import ConfigurationError


@pytest.mark.parametrize(
    ("endpoint", "port", "address"),
    [
        ("http://localhost:8000", None, "http://localhost:8000/v1"),
        ("http://localhost:8000/", 9000, "http://localhost:8000/v1"),
        ("http://localhost", 9000, "http://localhost:9000/v1"),
        ("https://models.example.com/openai/v2", None, "https://models.example.com/openai/v2"),
        ("http://[::1]", 9000, "http://[::1]:9000/v1"),
        ("http://host/?key=1", None, "http://host/v1?key=1"),
    ],
)
def test_an_address_gets_what_it_lacks(endpoint: str, port: int | None, address: str) -> None:
    assert model_address(None, endpoint, port) == address
    assert model_address("openai", endpoint, port) == address


@pytest.mark.parametrize(
    ("provider", "address"),
    [
        (None, None),
        ("scripted", None),
        ("openai", "https://api.openai.com/v1"),
        ("anthropic", "https://api.anthropic.com/v1/"),
    ],
)
def test_a_vendor_has_an_address(provider: ProviderName | None, address: str | None) -> None:
    assert model_address(provider, None, None) == address


@pytest.mark.parametrize("endpoint", ["localhost:8000", "localhost", "ftp://host", "http://", "http://host:port", ""])
def test_no_address(endpoint: str) -> None:
    with pytest.raises(ConfigurationError, match=r"Expected --llm-endpoint to be an address, as http://host:8000, got"):
        model_address(None, endpoint, None)


def test_a_port_alone() -> None:
    with pytest.raises(ConfigurationError, match="--llm-port 8000 needs an address"):
        model_address("openai", None, 8000)
