"""Text that stays text, whoever reads the YAML."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.support.services.kubernetes_tools import run_tool

from openenv.deploy.yaml_text import yaml_text

CONTENT = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abyno", min_size=1), inner, max_size=3),
    max_leaves=8,
)


@given(CONTENT)
def test_what_is_written_is_read_again(content: Any) -> None:
    assert yaml.safe_load(yaml_text(content)) == content


def test_words_that_were_no_text_once_are_quoted_for_kubectl(tmp_path: Path) -> None:
    words = ["y", "Y", "n", "yes", "No", "ON", "off", "true", "null", "~", "1", "0o17", "0x1F", "1e3", "1_000", "12:30"]
    data = {f"key-{number}": word for number, word in enumerate(words)} | {"y": "a key may be such a word too"}
    folder = tmp_path / "folder"
    folder.mkdir()
    written = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "on"}, "data": data}
    (folder / "map.yaml").write_text(yaml_text(written))
    (folder / "kustomization.yaml").write_text("resources: [map.yaml]\n")

    finished = run_tool("kubectl", "kustomize", str(folder), home=tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert yaml.safe_load(finished.stdout)["data"] == data


@pytest.mark.parametrize("text", ["echo", "/health", "apps/v1", "2048-game", "registry.test/echo:1"])
def test_text_beyond_doubt_is_left_as_it_is_or_quoted(text: str) -> None:
    assert yaml_text(text).split("\n")[0] in (text, f'"{text}"')
