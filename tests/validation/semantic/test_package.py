"""Declarations of a package about its rewards."""

import json
from pathlib import Path

import pytest

from openenv.core.exceptions import ConfigurationError
from openenv.validation.semantic.graded import DeclaredRewards
from openenv.validation.semantic.package import declaration_of, read_canaries

DECLARED = """
name: dig
version: "1"
validation:
  reward: {range: [0.0, 2.0], floor_margin: 0.3}
  resources: {cpu: 1, memory_mb: 64, disk_mb: 64, episode_timeout_s: 60}
  capabilities:
    verifier: {kind: reward_channel}
    canaries: canaries.json
  types: {tags: [game]}
"""


def test_declarations_are_read(tmp_path: Path) -> None:
    (tmp_path / "openenv.yaml").write_text(DECLARED)
    (tmp_path / "canaries.json").write_text(json.dumps({"early": [{"type": "finish"}]}))
    declared = declaration_of(tmp_path)
    assert (declared.highest, declared.margin, declared.canaries) == (2.0, 0.3, {"early": [{"type": "finish"}]})


def test_without_declarations_there_are_defaults(tmp_path: Path) -> None:
    assert declaration_of(tmp_path) == DeclaredRewards()


@pytest.mark.parametrize("text", ["{", "[]", '{"early": 1}'])
def test_canaries_of_another_form_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "canaries.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match="Expected canaries"):
        read_canaries(path)
