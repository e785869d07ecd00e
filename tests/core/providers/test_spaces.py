"""Names and addresses of Spaces."""

import pytest

from openenv.core.exceptions import ConfigurationError
from openenv.core.providers.spaces import space_image, space_repository, space_url
from openenv.core.utils import hf_space_subdomain


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_ENDPOINT", "OPENENV_SPACE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("repo_id", "subdomain"),
    [
        ("openenv/echo-env", "openenv-echo-env"),
        ("openenv/echo_env", "openenv-echo-env"),
        ("Open.Env/Écho__Env", "open-env--cho--env"),
    ],
)
def test_the_subdomain_has_small_letters_digits_and_dashes(repo_id: str, subdomain: str) -> None:
    assert hf_space_subdomain(repo_id) == subdomain


def test_where_a_space_is() -> None:
    assert space_url("openenv/echo_env") == "https://openenv-echo-env.hf.space"
    assert space_repository("openenv/echo_env") == "git+https://huggingface.co/spaces/openenv/echo_env"
    assert space_image("openenv/echo_env") == "registry.hf.space/openenv-echo-env:latest"
    assert space_image("openenv/echo_env", "v2") == "registry.hf.space/openenv-echo-env:v2"
    digest = "sha256:" + "0" * 64
    assert space_image("openenv/echo_env", digest) == f"registry.hf.space/openenv-echo-env@{digest}"


def test_another_hub_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example.com/")
    monkeypatch.setenv("OPENENV_SPACE_URL", "https://{subdomain}.spaces.example.com")
    assert space_url("openenv/echo_env") == "https://openenv-echo-env.spaces.example.com"
    assert space_repository("openenv/echo_env") == "git+https://hub.example.com/spaces/openenv/echo_env"


@pytest.mark.parametrize("repo_id", ["", "echo-env", "/echo", "openenv/", "a/b/c", "../etc", "a b/c", "-o/x", "a/b\n"])
def test_what_is_no_space_is_refused(repo_id: str) -> None:
    for name_of in (space_url, space_image, space_repository):
        with pytest.raises(ConfigurationError, match="Expected a Space as OWNER/NAME"):
            name_of(repo_id)
