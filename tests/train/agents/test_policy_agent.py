"""Models that are loaded here as agents."""

from pathlib import Path

import pytest

from openenv.core.exceptions import ConfigurationError
from openenv.train.agents.policy_agent import StoredModel
from openenv.train.settings.config import TrainConfig, load_config
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
    ("of_run", "given", "expected"),
    [
        ("tools", None, "tools"),
        ("text", None, "text"),
        ("text", "tools", "tools"),
        ("tools", "text", "text"),
        (None, None, "text"),
        (None, "tools", "tools"),
    ],
)
def test_actions_have_the_form_of_the_settings_else_that_of_the_run(
    tmp_path: Path, of_run: str | None, given: str | None, expected: str
) -> None:
    if of_run is not None:
        load_config(environment="catch", form=of_run).save(tmp_path / "config.yaml")
        (tmp_path / "model").mkdir()
    model = "Qwen/Qwen3-0.6B" if of_run is None else tmp_path
    filled_in = settings(model, form=given).with_defaults()
    assert filled_in.form == expected
    assert StoredModel.of(filled_in).config.form == expected
    assert StoredModel.of(filled_in).config.with_tools == (True if expected == "tools" else None)


def test_models_behind_addresses_and_players_call_tools_unless_the_settings_say_more() -> None:
    served = settings("m", form=None, llm_endpoint="http://localhost:1/v1")
    player = PlaySettings(environment="catch", player="random")
    assert [each.with_defaults().form for each in (served, player)] == ["tools", "tools"]
    assert served.model_copy(update={"form": "text"}).with_defaults().form == "text"


def test_the_system_prompt_is_that_of_the_settings_else_that_of_the_run(tmp_path: Path) -> None:
    run = TrainConfig(environment="catch", model="smollm2", system_prompt="Be kind.")
    run.save(tmp_path / "config.yaml")
    (tmp_path / "model").mkdir()
    assert settings(tmp_path).with_defaults().system_prompt == "Be kind."
    assert StoredModel.of(settings(tmp_path)).config.system_prompt == "Be kind."
    assert StoredModel.of(settings(tmp_path, system_prompt="Be quick.")).config.system_prompt == "Be quick."
    tiny = settings("tiny", system_prompt="Be quick.")
    with pytest.raises(ConfigurationError, match="system_prompt needs a pretrained model"):
        StoredModel.of(tiny)
