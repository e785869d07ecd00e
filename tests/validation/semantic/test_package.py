"""Declarations of a package about its rewards."""

import json
from pathlib import Path

import pytest

from openenv.auto.discovery import find_environment
from openenv.core.exceptions import ConfigurationError
from openenv.validation.semantic.graded import DeclaredRewards
from openenv.validation.semantic.package import declaration_of, each_package_results, read_canaries
from openenv.validation.trials import RunLimits
from openenv.validation.types import CheckStatus

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


QUIZ = """
from openenv import Action, Environment, Observation, State

class Text(Action):
    answer: str

class Shown(Observation):
    text: str

class Quiz(Environment[Text, Shown, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_RESET = True

    def reset(self, seed=None):
        return Shown(text="Which river flows through Prague?")

    def step(self, action):
        return Shown(text="over", reward=float("vltava" in action.answer.casefold()), done=True)

    @property
    def state(self):
        return State()

def make_player(seed):
    return lambda observation: Text(answer="Vltava")
"""


@pytest.mark.level("process")
def test_a_file_with_a_player_is_examined(tmp_path: Path) -> None:
    file = tmp_path / f"rivers_{tmp_path.name}.py"
    file.write_text(QUIZ)
    results = [result for found in each_package_results(find_environment(str(file)), RunLimits()) for result in found]
    failed = [result for result in results if result.status is CheckStatus.FAIL]
    assert [result.check_id for result in failed] == ["semantic.probe_list_all"], failed[0].evidence
    assert "many answers with commas earns 1 of 1; sent as text.answer" in failed[0].evidence[0]
