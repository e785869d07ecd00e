"""Policies: made for an environment, loaded from a folder."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.environment_folders import scaffold
from tests.support.environments.training import seeded
from tests.support.models.chat_models import save_chat_model

from openenv.core.exceptions import ConfigurationError
from openenv.train.agents.agent import play
from openenv.train.agents.policy import load_policies, make_policy, takes_gpu
from openenv.train.agents.policy_agent import PolicyAgent
from openenv.train.rollout.chat_renderer import ChatRenderer
from openenv.train.rollout.plain_renderer import PlainRenderer
from openenv.train.rollout.sessions import Sessions
from openenv.train.settings.config import TrainConfig


def config(**settings: Any) -> TrainConfig:
    return TrainConfig(**{"environment": "stairs", "rollouts": 8, "max_turns": 8, **settings})


def test_the_tiny_policy_speaks_the_environments_words(stairs: Sessions) -> None:
    policy = make_policy(config(), stairs)
    assert isinstance(policy.renderer, PlainRenderer)
    words = sorted(policy.tokenizer.get_vocab(), key=policy.tokenizer.get_vocab().__getitem__)
    # "and" is said on the way only: the vocabulary comes from episodes that were played.
    assert words[13:] == ["up", "wait", "fall", "asleep", "step", "of", "and", "fall asleep"]


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("rows.csv", "seed,difficulty,group\n2,1,short\n3,2,long\n"),
        (
            "rows.jsonl",
            '{"seed": 2, "difficulty": 1, "group": "short"}\n{"seed": 3, "difficulty": 2, "group": "long"}\n',
        ),
    ],
)
def test_the_tiny_policy_learns_words_of_tasks_with_labels(
    stairs: Sessions, tmp_path: Path, name: str, rows: str
) -> None:
    (tmp_path / name).write_text(rows)
    policy = make_policy(config(tasks=str(tmp_path / name)), stairs)
    assert {"step", "of", "fall asleep"} <= set(policy.tokenizer.get_vocab())


def test_the_tiny_policy_is_made_from_the_seed_alone(stairs: Sessions) -> None:
    one, same, other = (make_policy(config(seed=seed), stairs) for seed in (1, 1, 2))
    assert one.tokenizer.get_vocab() == same.tokenizer.get_vocab()
    assert all(torch.equal(a, b) for a, b in zip(one.model.parameters(), same.model.parameters(), strict=True))
    assert not torch.equal(one.model.lm_head.weight, other.model.lm_head.weight)


def test_free_text_is_made_of_the_environments_words(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "magpie_env")
    with Sessions.open(str(folder), 4) as sessions:
        policy = make_policy(config(max_action_tokens=5), sessions)
        assert {"environment", "ready", "echoed_message", "message_length"} <= set(policy.tokenizer.get_vocab())
        assert policy.renderer.max_action_tokens == 5
        agent = PolicyAgent(policy, config(), temperature=1.0)
        episodes = [played.episode for played in play(agent, enumerate(seeded([1, 2, 3, 4])), sessions)]
    assert {len(episode.turns) for episode in episodes} == {8}
    assert sum(episode.reward for episode in episodes) > 0
    assert all(turn.problem is None for episode in episodes for turn in episode.turns)


def test_a_scripted_player_teaches_its_words(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "rook_env")
    said = "RookAction(message='caw caw')"
    (folder / "player.py").write_text(
        f"from .models import RookAction\n\ndef make_player(seed):\n    return lambda observation: {said}\n"
    )
    with Sessions.open(str(folder), 2) as sessions:
        assert "caw" in make_policy(config(), sessions).tokenizer.get_vocab()


@pytest.mark.parametrize(
    ("has_gpu", "settings", "expected"),
    [
        (True, {"model": "chat"}, True),
        (True, {"model": "chat", "device": "cpu"}, False),
        (True, {"model": "tiny"}, False),
        (False, {"model": "chat"}, False),
    ],
)
def test_only_a_pretrained_model_takes_a_gpu(
    monkeypatch: pytest.MonkeyPatch, has_gpu: bool, settings: dict[str, str], expected: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    assert takes_gpu(config(**settings)) is expected


def test_what_was_trained_on_the_cpu_is_evaluated_there(
    stairs: Sessions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = config(model=save_chat_model(tmp_path), device="cpu")
    policy = load_policies(settings, {"": stairs}, tmp_path)[""]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    policy.to_device(settings)
    assert policy.model.device == torch.device("cpu")


def test_a_saved_policy_plays_the_same(stairs: Sessions, tmp_path: Path) -> None:
    policy = make_policy(config(), stairs)
    policy.model.save_pretrained(tmp_path)
    policy.tokenizer.save_pretrained(tmp_path)
    loaded = load_policies(config(), {"": stairs}, tmp_path)[""]
    agents = [PolicyAgent(each, config(), temperature=1.0) for each in (policy, loaded)]
    first, again = [list(play(agent, enumerate(seeded(range(8))), stairs)) for agent in agents]
    assert first == again


def test_a_folder_with_a_chat_model_is_a_policy(stairs: Sessions, tmp_path: Path) -> None:
    policy = make_policy(config(model=save_chat_model(tmp_path)), stairs)
    assert isinstance(policy.renderer, ChatRenderer)
    opening = policy.tokenizer.decode(policy.renderer.opening(policy.renderer.form.opening_messages("step of 3")))
    assert "Answer with exactly one of these and nothing else: up, wait, fall asleep." in opening
    assert policy.model.dtype == torch.float32


def test_no_model_is_an_error_that_says_what_was_expected(stairs: Sessions, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"No language model could be loaded from .*/empty\. Expected 'tiny'"):
        make_policy(config(model=str(tmp_path / "empty")), stairs)
    with pytest.raises(ConfigurationError, match="has no chat template"):
        make_policy(config(model=save_chat_model(tmp_path, template=None)), stairs)


def test_the_fallback_of_the_settings_counts(stairs: Sessions) -> None:
    assert make_policy(config(fallback="up"), stairs).actions.fallback == "up"
    with pytest.raises(ConfigurationError, match="The fallback 'down' is no legal action"):
        make_policy(config(fallback="down"), stairs)
