"""Agent with a model that is loaded here: a run's, one in a folder, or one of the Hub."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Self

from openenv.records.prices import TokenPrice
from openenv.records.run_folder import RunFolder
from openenv.train.agents.agent import BatchAgent
from openenv.train.agents.policy import Policy, load_policies
from openenv.train.episodes.budget import NO_BUDGET, Budget
from openenv.train.episodes.played_episode import PlayedEpisode, Usage
from openenv.train.forms.moves import Move
from openenv.train.generation.sampling import Sampling
from openenv.train.generation.transformers_generator import TransformersGenerator
from openenv.train.quiet import quiet_libraries
from openenv.train.rollout.loop import play_together
from openenv.train.rollout.model_actor import ModelActor
from openenv.train.rollout.play import Limits, Play
from openenv.train.rollout.sessions import Sessions
from openenv.train.settings.config import TrainConfig, load_config
from openenv.train.settings.play_settings import PlaySettings
from openenv.train.tasks.seeds import evaluation_draws
from openenv.train.tasks.task_choice import NumberedTask

__all__ = ["PolicyAgent", "StoredModel"]


class PolicyAgent(BatchAgent):
    """Agent with a model; an episode's tokens depend on the seed and its number, and on no other episode.

    Args:
        policy: The model and its renderer.
        config: Settings, of which ``max_turns`` and ``max_context`` limit episodes.
        temperature: Temperature of sampling; 0 draws the most likely token.
        seed: Seed of the draws; by default that of ``config``.
        version: The training step of the weights, in words; ``None`` if it is not known.
        budget: Limits of each episode's answers, tokens, seconds and price.
        price: Price of the model's tokens; ``None`` if it is not known.
    """

    def __init__(
        self,
        policy: Policy,
        config: TrainConfig,
        *,
        temperature: float,
        seed: int | None = None,
        version: str | None = None,
        budget: Budget = NO_BUDGET,
        price: TokenPrice | None = None,
    ) -> None:
        super().__init__(config.max_turns, policy.renderer.shown, config.answer_rule, budget)
        self._policy = policy
        self._limits = Limits(config.max_turns, config.max_context)
        self._sampling = Sampling(temperature)
        self._seed = config.seed if seed is None else seed
        self._version = version
        self._price = price

    def _act_in(self, plays: Sequence[Play], tasks: Sequence[NumberedTask], sessions: Sessions) -> None:
        model = self._policy.model
        draws = evaluation_draws(self._seed, [number for number, _ in tasks])
        was_training = model.training
        model.eval()  # type: ignore[no-untyped-call]
        try:
            play_together(_PolicyActor(self._policy, self._limits, self._sampling, draws, self._price), plays, sessions)
        finally:
            model.train(was_training)

    def _played(self, number: int, play: Play) -> PlayedEpisode:
        episode, usage = play.episode, replace(_usage_of(play, self._price), model_version=self._version)
        renderer = self._policy.renderer
        texts = renderer.texts([*episode.prompt_ids, *episode.completion_ids])
        return PlayedEpisode(number, episode, play.messages, renderer.form.tools, usage, texts)


class _PolicyActor:
    """Actor with a policy in the episodes of a batch, each with draws of its own."""

    def __init__(
        self, policy: Policy, limits: Limits, sampling: Sampling, draws: Sequence[Random], price: TokenPrice | None
    ) -> None:
        self._policy = policy
        self._price = price
        self._limits = limits
        self._sampling = sampling
        self._draws = draws

    def begin(self, plays: Sequence[Play]) -> None:
        """Feed the beginnings of episodes; one that is over has no row in the generator, and no draws."""
        renderer = self._policy.renderer
        draws = [self._draws[play.number] for play in plays if not play.is_over]
        generator = TransformersGenerator(self._policy.model, renderer.pad_id, self._sampling, draws)
        self._actor = ModelActor(generator, renderer, self._limits)
        self._actor.begin(plays)

    async def act(self, plays: Sequence[Play]) -> list[list[Move]]:
        """Let the model write an answer in each episode."""
        moves = await self._actor.act(plays)
        for play in plays:
            play.usage = _usage_of(play, self._price)
        return moves

    def see(self, plays: Sequence[Play]) -> None:
        """Feed the results of the moves."""
        self._actor.see(plays)


def _usage_of(play: Play, price: TokenPrice | None) -> Usage:
    """Return the tokens of an episode so far, each of which the model has read or written once."""
    read, written = play.episode.tokens_read, play.episode.tokens_written
    return Usage(read, written, None if price is None else price.of(read, written))


@dataclass(frozen=True)
class StoredModel:
    """Model that is not loaded yet.

    Attributes:
        config: Settings with which it plays.
        source: Its folder, or its id on the Hub.
        version: The training step of its weights, in words; ``None`` if it is of no run.
    """

    config: TrainConfig
    source: str | Path
    version: str | None = None

    @classmethod
    def of(cls, settings: PlaySettings) -> Self:
        """Find the model that settings name: in a run's folder, in a folder of its own, or on the Hub.

        Raises:
            ConfigurationError: The run has no model yet.
        """
        path = Path(str(settings.model))
        run = RunFolder.of_model(path)
        own = {
            "max_turns": settings.max_turns,
            "max_action_tokens": settings.max_tokens,
            "system_prompt": settings.system_prompt,
            "form": settings.form,
        }
        given: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
        rule = asdict(settings.answer_rule)
        if not run.config.is_file():
            config = load_config(environment=settings.environment, model=settings.model, **given)
            return cls(config.model_copy(update=rule), str(settings.model))
        return cls(load_config(run.config, **given).model_copy(update=rule), *run.weights_of(path))

    def agent(self, settings: PlaySettings, sessions: Sessions) -> PolicyAgent:
        """Load the model for an environment.

        Raises:
            ConfigurationError: There is no such model, or it is not made for conversation.
        """
        with quiet_libraries():
            (policy,) = load_policies(self.config, {"": sessions}, self.source).values()
        policy.to_device(self.config)
        return PolicyAgent(
            policy,
            self.config,
            temperature=settings.temperature,
            seed=settings.seed,
            version=self.version,
            budget=settings.budget,
            price=settings.token_price,
        )
