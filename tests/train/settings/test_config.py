"""Settings from a file and from the command line."""

import typing
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.exceptions import ConfigurationError
from openenv.train.settings.config import LoraSettings, TrainConfig, load_config


def test_the_tiny_policys_defaults_are_the_recipe() -> None:
    config = load_config(environment="catch")
    assert config.is_tiny
    assert (config.steps, config.rollouts, config.group_size, config.learning_rate) == (300, 128, 8, 3e-3)
    assert (config.scale_rewards, config.loss_type, config.beta, config.temperature) == ("batch", "dapo", 0.0, 1.0)
    assert (config.lr_schedule, config.threads) == ("linear", 1)


def test_a_pretrained_model_has_other_defaults() -> None:
    config = load_config(environment="catch", model="Qwen/Qwen3-0.6B", rollouts=16)
    assert not config.is_tiny
    assert (config.steps, config.rollouts, config.learning_rate) == (200, 16, 2e-6)
    assert (config.micro_batch, config.gradient_checkpointing, config.threads) == (None, None, None)


def test_a_warm_up_leaves_no_bonus_for_entropy_unless_it_is_set() -> None:
    assert load_config(environment="catch").entropy_bonus == 0.02
    warm = load_config(environment="catch", sft=1000)
    assert (warm.sft_batch, warm.entropy_bonus) == (2, 0.0)
    assert load_config(environment="catch", sft=1000, entropy_coef=0.01).entropy_bonus == 0.01
    pretrained = load_config(environment="catch", model="Qwen/Qwen3-0.6B", sft=1000)
    assert (pretrained.sft_batch, pretrained.entropy_bonus) == (8, 0.0)


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("environment: catch\nsteps: 7\nseed: 5\nreport_to: [tensorboard]\n")
    config = load_config(file, seed=0, rollouts=None)
    assert (config.environment, config.steps, config.seed, config.rollouts) == ("catch", 7, 0, 128)
    assert config.report_to == ["tensorboard"]


def test_the_command_line_wins_over_a_section_of_the_file_one_by_one(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("environment: catch\nlora: {rank: 4, alpha: 8}\nreset: {size: 1, speed: 2}\n")
    config = load_config(file, lora={"alpha": 9}, reset={"size": 3})
    assert config.lora == LoraSettings(rank=4, alpha=9)
    assert config.reset == {"size": 3}, "what resets are passed is one setting"
    assert load_config(environment="catch", lora={}).lora == LoraSettings()


def test_a_model_from_the_file_has_its_defaults_and_one_from_the_command_line_too(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("environment: catch\nmodel: some/model\n")
    assert load_config(file).rollouts == 32
    assert load_config(file, model="tiny").rollouts == 128


@pytest.mark.parametrize("model", ["tiny", "some/model"])
def test_saved_settings_are_the_same(tmp_path: Path, model: str) -> None:
    config = load_config(environment="catch", model=model, steps=3, name="ünïcode", output_dir=tmp_path)
    config.save(tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml") == config


@pytest.mark.parametrize("text", ["\x85", "a\u2028b", "\u00fcber", "\U0001f7e9", "a: b\n- c"])
def test_text_survives_the_file(tmp_path: Path, text: str) -> None:
    config = load_config(environment=text, report_to=[text], fallback=text)
    config.save(tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml") == config


@given(st.data())
def test_any_settings_survive_the_file(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    given: dict[str, Any] = data.draw(
        st.fixed_dictionaries(
            {"environment": st.text(min_size=1)},
            optional={
                "model": st.sampled_from(["tiny", "a/b"]),
                "learning_rate": st.floats(1e-9, 1.0),
                "fallback": st.text(),
                "seed": st.integers(0, 2**40),
                "report_to": st.lists(st.text(min_size=1)),
            },
        )
    )
    config = load_config(**given)
    config.save(file)
    assert load_config(file) == config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "environment is missing"),
        ({"environment": "catch", "step": 3}, r"there is no setting 'step'; did you mean 'steps'\?"),
        ({"environment": "catch", "zzz": 3}, r"there is no setting 'zzz'\."),
        ({"environment": "catch", "steps": 0}, "steps: Input should be greater than or equal to 1; got 0"),
        ({"environment": "catch", "steps": "many"}, "steps: Input should be a valid integer.*; got 'many'"),
        ({"environment": "catch", "rollouts": 30}, r"rollouts \(30\) must be a multiple of group_size \(8\); .* is 32"),
        ({"environment": "catch", "rollouts": 3}, r"rollouts \(3\) must be a multiple of group_size \(8\); .* is 8"),
        ({"environment": "catch", "micro_batch": 3}, r"must be a multiple of micro_batch \(3\)"),
        ({"environment": "catch", "learning_rate": float("nan")}, "learning_rate"),
        ({"environment": "catch", "temperature": 0}, "temperature"),
        ({"environment": "catch", "tiny_hidden": 40}, "tiny_hidden: Input should be a multiple of 16"),
        ({"environment": "catch", "reward_components": {"a": float("inf")}}, "reward_components: expected finite"),
        (
            {"environments": {"a": {"environment": "catch"}}, "reward_components": {"a": 1.0}},
            "reward_components is for a run of one environment",
        ),
    ],
)
def test_faults_are_told(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load_config(**settings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a list", "must hold a mapping"),
        ("a: [", "is not valid YAML"),
        ("", "must hold a mapping"),
        ("!!python/x y", "not valid YAML"),
    ],
)
def test_a_broken_file_is_told(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        load_config(file)


def test_a_fault_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("stepps: 3\nenvironment: catch\n")
    with pytest.raises(ConfigurationError, match=r"settings\.yaml and the command line"):
        load_config(file)
    with pytest.raises(ConfigurationError, match=r"There is no file .*other\.yaml"):
        load_config(tmp_path / "other.yaml")


def test_every_setting_is_described_and_plain_in_yaml(tmp_path: Path) -> None:
    assert all(field.description for field in TrainConfig.model_fields.values())
    TrainConfig(environment="catch").save(tmp_path / "config.yaml")
    written = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert list(written) == list(TrainConfig.model_fields)
    assert typing.get_type_hints(TrainConfig)["environment"] is str


def test_what_is_learned_from_is_a_number_or_a_place() -> None:
    assert [load_config(environment="catch", sft=sft).sft for sft in ("12", 12, "data", None)] == [12, 12, "data", None]
    for sft in (0, "0", -1):
        with pytest.raises(ConfigurationError, match="sft: expected at least one episode to learn from"):
            load_config(environment="catch", sft=sft)
    for address in ("postgresql://me:hidden-pass@db/traces", "postgresql://db/traces?user=me&password=hidden-pass"):
        with pytest.raises(ConfigurationError, match="sft: expected the address of a database without its") as raised:
            load_config(environment="catch", sft=address)
        assert "hidden-pass" not in f"{raised.value} {raised.value.__cause__}"
    with pytest.raises(ConfigurationError, match="without grpo there has to be sft, or nothing is learned"):
        load_config(environment="catch", grpo=False)
    assert load_config(environment="catch", grpo=False, sft=1).grpo is False


def test_stages_follow_each_other() -> None:
    stages = [{"steps": 2, "reset": {"level": 1}}, {"steps": 3, "reset": {"level": 2, "hints": True}}]
    config = load_config(environment="catch", reset={"level": 9, "board": "big"}, curriculum=stages)
    first, second = {"level": 1, "board": "big"}, {"level": 2, "board": "big", "hints": True}
    last = {"level": 9, "board": "big"}
    assert [config.reset_at(step) for step in range(7)] == [first, first, second, second, second, last, last]
    assert config.resets == [first, second, last]
    assert load_config(environment="catch").reset_at(3) == {}


@pytest.mark.parametrize("fields", [{"reset": {"seed": 1}}, {"curriculum": [{"steps": 1, "reset": {"seed": 1}}]}])
def test_seeds_are_the_runs(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="resets get their seeds from the run's seed; leave out seed"):
        load_config(environment="catch", **fields)


def test_weights_are_rounded_only_where_additions_are_learned() -> None:
    with pytest.raises(ConfigurationError, match=r"dtype bfloat16 rounds away what all weights learn in a step"):
        load_config(environment="catch", model="smollm2", dtype="bfloat16")
    assert load_config(environment="catch", model="smollm2", dtype="bfloat16", lora={}).dtype == "bfloat16"
    assert load_config(environment="catch", model="smollm2").dtype == "float32"
