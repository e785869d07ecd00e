"""Names of repositories."""

import pytest
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.exceptions import ConfigurationError
from openenv.hub.names import RepoName, checked_repo_id, is_hub_address, read_repo_name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ada/my_env", RepoName("ada/my_env")),
        ("ada/2048.v2", RepoName("ada/2048.v2")),
        ("https://huggingface.co/spaces/ada/my_env", RepoName("ada/my_env")),
        ("https://huggingface.co/spaces/ada/my_env/", RepoName("ada/my_env")),
        ("https://hf.co/spaces/ada/my_env/tree/v1", RepoName("ada/my_env", revision="v1")),
        ("https://huggingface.co/spaces/ada/my_env/tree/refs%2Fpr%2F1", RepoName("ada/my_env", revision="refs/pr/1")),
        ("https://huggingface.co/datasets/ada/words", RepoName("ada/words", "dataset")),
        ("https://huggingface.co/ada/model?x=1", RepoName("ada/model", "model")),
    ],
)
def test_ids_and_addresses(text: str, expected: RepoName) -> None:
    assert read_repo_name(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "my_env",
            "",
            "/",
            "a/b/c",
            "-a/b",
            "a/b-",
            "a/..",
            "../a",
            "a/b--c",
            "a/b.git",
            "ä/b",
            "a/" + "b" * 97,
            "a b/c",
        ),
        *("https://example.com/spaces/ada/my_env", "https://huggingface.co/spaces/ada", "https://huggingface.co/"),
    ],
)
def test_what_is_no_repository(text: str) -> None:
    with pytest.raises(ConfigurationError, match="OWNER/NAME"):
        read_repo_name(text)


@given(st.from_regex(r"[a-z0-9._/-]{1,20}", fullmatch=True) | st.text(max_size=100))
def test_what_is_taken_the_library_takes_too(text: str) -> None:
    try:
        checked_repo_id(text)
    except ConfigurationError:
        return
    validate_repo_id(text)


def test_another_hub_is_known_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_hub_address("http://hub.example:8080/spaces/a/b")
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.example:8080")
    assert read_repo_name("http://hub.example:8080/spaces/a/b") == RepoName("a/b")
    assert not is_hub_address("http://localhost:8000")
