"""Models that are loaded here as agents."""

from pathlib import Path

import pytest

from openenv.core.exceptions import ConfigurationError
from openenv.train.agents.policy_agent import StoredModel
from openenv.train.settings.config import TrainConfig
from openenv.train.settings.play_settings import PlaySettings


def settings(model: Path | str, **others: object) -> PlaySettings:
    return PlaySettings(environment="catch", model=str(model), **{"form": "text", **others})


def test_a_run_s_model_plays_as_the_run_has_it_unless_the_settings_say_more(tmp_path: Path) -> None:
    TrainConfig(environment="catch", steps=7, max_turns=5, max_action_tokens=3).save(tmp_path / "config.yaml")
    with pytest.raises(ConfigurationError, match="has not ended, so there is no model in it yet"):
        StoredModel.of(settings(tmp_path))
    (tmp_path / "model").mkdir()
    own = StoredModel.of(settings(tmp_path))
    assert (own.source, own.version, own.config.max_turns) == (tmp_path / "model", "step 7", 5)
    other = StoredModel.of(settings(tmp_path, max_turns=9, max_tokens=2)).config
    assert (other.max_turns, other.max_action_tokens) == (9, 2)


def test_another_model_has_no_training_step() -> None:
    found = StoredModel.of(settings("Qwen/Qwen3-0.6B", max_turns=4))
    assert (found.source, found.version, found.config.model) == ("Qwen/Qwen3-0.6B", None, "Qwen/Qwen3-0.6B")


@pytest.mark.parametrize(
    ("others", "message"),
    [({"form": "tools"}, "acts by texts, as in training"), ({"system_prompt": "Be quick."}, "without a system prompt")],
)
def test_what_a_model_was_not_trained_with_is_refused(others: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        StoredModel.of(settings("Qwen/Qwen3-0.6B", **others))
