"""Rollouts: the tokens of an episode are exactly what was fed and sampled, whatever happens in it."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.environments.training import CRASHING_SEEDS, ENDLESS_REWARD_SEEDS, FAILING_RESET_SEEDS, seeded
from tests.support.models.chat_models import CHATML, THINKING, save_chat_model
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from openenv.adapters.text import ActionText
from openenv.core.exceptions import ConfigurationError, EnvironmentFailedError, OpenEnvError, ServerExecutionError
from openenv.train.agents.agent import play
from openenv.train.agents.policy import Policy
from openenv.train.agents.policy_agent import PolicyAgent
from openenv.train.agents.tiny import build_model, build_tokenizer
from openenv.train.episodes.episode import Episode
from openenv.train.forms.moves import MoveResult
from openenv.train.forms.text_form import TextForm
from openenv.train.rollout.chat_renderer import ChatRenderer
from openenv.train.rollout.plain_renderer import PlainRenderer
from openenv.train.rollout.renderer import Renderer
from openenv.train.rollout.sessions import Sessions
from openenv.train.settings.config import TrainConfig

SEEDS = list(range(12))
NO_TOKENIZER: Any = None  # the renderer has it


class Setting:
    """A model with its renderer, and what plays it."""

    def __init__(self, model: PreTrainedModel, renderer: Renderer, actions: ActionText) -> None:
        self.model = model
        self.renderer = renderer
        self.actions = actions

    def play(
        self,
        sessions: Sessions,
        seeds: Sequence[int] = SEEDS,
        *,
        max_turns: int = 6,
        max_context: int = 1000,
        temperature: float = 1.0,
        sampling_seed: int = 1,
    ) -> list[Episode]:
        config = TrainConfig(environment=sessions.name, max_turns=max_turns, max_context=max_context)
        policy = Policy(self.model, NO_TOKENIZER, self.renderer, self.actions)
        agent = PolicyAgent(policy, config, temperature=temperature, seed=sampling_seed)
        return [played.episode for played in play(agent, enumerate(seeded(seeds)), sessions)]

    def own_logprobs(self, episode: Episode, temperature: float = 1.0) -> torch.Tensor:
        """The model's log-probability of each completion token, computed at once and without a cache."""
        tokens = torch.tensor([episode.prompt_ids + episode.completion_ids])
        with torch.no_grad():
            logits = self.model(input_ids=tokens, use_cache=False).logits[0, len(episode.prompt_ids) - 1 : -1]
        logprobs = (logits / temperature).log_softmax(-1)
        own: torch.Tensor = logprobs.gather(1, tokens[0, len(episode.prompt_ids) :, None]).squeeze(1)
        return own

    def assert_exact(self, episode: Episode, temperature: float = 1.0) -> None:
        """Check an episode's tokens against its turns, and its log-probabilities against the model."""
        assert len(episode.completion_ids) == len(episode.logprobs) == len(episode.env_mask)
        form = self.renderer.form
        assert episode.prompt_ids == self.renderer.opening(form.opening_messages(episode.turns[0].observation))
        runs = [
            (mask, [token for _, token in run]) for mask, run in groupby(self._masked(episode), lambda pair: pair[0])
        ]
        written = [tokens for mask, tokens in runs if mask == 1]
        fed = [tokens for mask, tokens in runs if mask == 0]
        assert [mask for mask, _ in runs] == [1, 0] * (len(written) - 1) + [1]
        assert [move.text for tokens in written for move in self.renderer.read(tokens).moves] == [
            turn.action for turn in episode.turns
        ]
        assert all(len(tokens) <= self.renderer.max_action_tokens for tokens in written)
        for tokens, reply, before, after in zip(written, fed, episode.turns, episode.turns[1:], strict=False):
            message, (move,) = self.renderer.read(tokens)
            replies = form.replies(message, [MoveResult(move, after.observation, before.problem)])
            assert reply == self.renderer.reply(tokens, replies)
        mask = torch.tensor(episode.env_mask)
        own = self.own_logprobs(episode, temperature) * mask
        torch.testing.assert_close(torch.tensor(episode.logprobs), own, rtol=1e-3, atol=1e-4)

    def _masked(self, episode: Episode) -> list[tuple[int, int]]:
        return list(zip(episode.env_mask, episode.completion_ids, strict=True))


def tiny_setting(sessions: Sessions, fallback: str = "up") -> Setting:
    actions = ActionText(sessions.action, fallback)
    tokenizer = build_tokenizer(actions.choices, ["step and of"])
    return Setting(build_model(tokenizer, layers=2, seed=1), PlainRenderer(tokenizer, actions, 4), actions)


def chat_setting(sessions: Sessions, folder: Path, template: str = CHATML) -> Setting:
    """A real model's way: from a folder, with its chat template."""
    source = save_chat_model(folder, template)
    tokenizer = AutoTokenizer.from_pretrained(source)
    model = AutoModelForCausalLM.from_pretrained(source)
    actions = ActionText(sessions.action, "up")
    return Setting(model, ChatRenderer(tokenizer, model, TextForm(actions, actions.instructions()), 6), actions)


@pytest.fixture(params=["tiny", "chat", "thinking chat"])
def setting(request: pytest.FixtureRequest, stairs: Sessions, tmp_path: Path) -> Setting:
    if request.param == "tiny":
        return tiny_setting(stairs)
    return chat_setting(stairs, tmp_path, THINKING if "thinking" in request.param else CHATML)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_tokens_mask_and_logprobs_are_exact(setting: Setting, stairs: Sessions, temperature: float) -> None:
    episodes = setting.play(stairs, temperature=temperature)
    assert [episode.seed for episode in episodes] == SEEDS
    assert len({len(episode.turns) for episode in episodes}) > 2, "episodes should end at different times"
    for seed, episode in zip(SEEDS, episodes, strict=True):
        setting.assert_exact(episode, temperature)
        assert episode.error is None
        assert episode.done == (episode.turns[-1].reward == 0.25 * (1 + seed % 4))
        assert episode.done or len(episode.turns) == 6


def test_the_same_seeds_give_the_same_episodes(setting: Setting, stairs: Sessions) -> None:
    first, again, other = (setting.play(stairs, sampling_seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_an_episode_does_not_depend_on_its_neighbours(stairs: Sessions) -> None:
    setting = tiny_setting(stairs)
    together = setting.play(stairs, SEEDS, temperature=0.0)
    for seed in SEEDS:
        (alone,) = setting.play(stairs, [seed], temperature=0.0)
        assert alone.completion_ids == together[seed].completion_ids
        assert alone.turns == together[seed].turns


def test_refused_and_illegal_actions_are_told_apart_from_legal_ones(stairs: Sessions) -> None:
    episodes = tiny_setting(stairs).play(stairs, max_turns=10)
    turns = [turn for episode in episodes for turn in episode.turns]
    refused = [turn for turn in turns if turn.action == "fall asleep"]
    illegal = [turn for turn in turns if turn.action not in ("up", "wait", "fall asleep")]
    assert refused
    assert illegal
    assert {turn.problem for turn in refused} == {"No sleeping on the stairs."}
    assert all((turn.problem or "").startswith("expected one of up, wait, fall asleep; got ") for turn in illegal)
    assert all(turn.problem is None for turn in turns if turn.action in ("up", "wait"))
    for episode in episodes:
        assert episode.illegal_actions == sum(turn.problem is not None for turn in episode.turns)
        assert episode.reward == pytest.approx(sum(turn.reward for turn in episode.turns))


def test_an_illegal_action_counts_as_the_fallback(stairs: Sessions) -> None:
    for fallback, progress in (("wait", 0.0), ("up", 0.25), ("fall asleep", 0.0)):
        setting = tiny_setting(stairs, fallback)
        actions = setting.actions
        episodes = setting.play(stairs, max_turns=1)
        rewards = {turn.reward for episode in episodes for turn in episode.turns if turn.action not in actions.choices}
        assert rewards == {progress}


@pytest.mark.parametrize("max_context", [60, 90])
def test_an_episode_is_cut_off_where_its_context_ends(stairs: Sessions, tmp_path: Path, max_context: int) -> None:
    setting = chat_setting(stairs, tmp_path)
    episodes = setting.play(stairs, max_turns=100, max_context=max_context)
    for episode in episodes:
        setting.assert_exact(episode)
        assert episode.length <= max_context
        assert episode.env_mask[-1] == 1, "an episode ends with what the model wrote"
    assert any(not episode.done and len(episode.turns) < 100 for episode in episodes)


def test_an_observation_that_leaves_no_room_is_an_error(stairs: Sessions, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"first observation .* has \d+ tokens .*set a larger max_context"):
        chat_setting(stairs, tmp_path).play(stairs, max_context=20)


@pytest.mark.parametrize("trouble", [CRASHING_SEEDS, ENDLESS_REWARD_SEEDS])
def test_a_failing_environment_spoils_only_its_own_episode(stairs: Sessions, trouble: int) -> None:
    setting = tiny_setting(stairs)
    seeds = [trouble + 3, *SEEDS[1:]]
    episodes = setting.play(stairs, seeds)
    assert isinstance(episodes[0].error, OpenEnvError)
    assert [episode.error for episode in episodes[1:]] == [None] * 11
    for episode in episodes[1:]:
        setting.assert_exact(episode)


def test_an_environment_that_mostly_fails_ends_the_training(stairs: Sessions) -> None:
    with pytest.raises(EnvironmentFailedError, match="12 of the last 12 episodes failed"):
        tiny_setting(stairs).play(stairs, [CRASHING_SEEDS + 3] * 12)
    with pytest.raises(EnvironmentFailedError, match="11 of the last 12 episodes failed"):
        tiny_setting(stairs).play(stairs, [*[FAILING_RESET_SEEDS] * 11, SEEDS[0]])


def test_a_reset_that_fails_is_one_failed_episode(stairs: Sessions) -> None:
    setting = tiny_setting(stairs)
    failed, *others = setting.play(stairs, [FAILING_RESET_SEEDS, *SEEDS[1:]])
    assert isinstance(failed.error, ServerExecutionError)
    assert failed.turns == []
    for episode in others:
        setting.assert_exact(episode)


def test_the_model_is_left_in_the_mode_it_was_in(stairs: Sessions) -> None:
    setting = tiny_setting(stairs)
    for training in (True, False):
        setting.model.train(training)
        setting.play(stairs)
        assert setting.model.training is training
        with pytest.raises(EnvironmentFailedError):
            setting.play(stairs, [FAILING_RESET_SEEDS] * 8)
        assert setting.model.training is training
