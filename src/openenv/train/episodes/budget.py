"""Budget of an episode: answers, tokens, seconds and money that its player may spend."""

from dataclasses import dataclass

from openenv.core.exceptions import ConfigurationError
from openenv.train.episodes.episode import Limit
from openenv.train.episodes.played_episode import Usage

__all__ = ["NO_BUDGET", "Budget"]


@dataclass(frozen=True)
class Budget:
    """Limits after which a player gives no further answer; ``None`` for no limit.

    Attributes:
        max_answers: Answers of the player, of which each may have several actions.
        max_episode_tokens: Tokens that a model reads and writes, in all of its answers together.
        max_seconds: Seconds from the reset's answer on.
        max_price: Price in US dollars of a model's tokens, in all of its answers together.
    """

    max_answers: int | None = None
    max_episode_tokens: int | None = None
    max_seconds: float | None = None
    max_price: float | None = None

    def reached(self, answers: int, usage: Usage | None, seconds: float) -> Limit | None:
        """Return the first limit that an episode has reached.

        Raises:
            ConfigurationError: Tokens or their price are limited, and not known.
        """
        if self.max_answers is not None and answers >= self.max_answers:
            return "max_answers"
        if self.max_episode_tokens is not None and usage is not None and _tokens(usage) >= self.max_episode_tokens:
            return "max_episode_tokens"
        if self.max_price is not None and usage is not None and _price(usage) >= self.max_price:
            return "max_price"
        return "max_seconds" if self.max_seconds is not None and seconds >= self.max_seconds else None


NO_BUDGET = Budget()


def _tokens(usage: Usage) -> int:
    if usage.input_tokens is None or usage.output_tokens is None:
        raise ConfigurationError(
            "The model's server does not count the tokens of its answers, so --max-episode-tokens can't be kept. Leave "
            "it out, or set --max-answers or --max-seconds."
        )
    return usage.input_tokens + usage.output_tokens


def _price(usage: Usage) -> float:
    if usage.cost_usd is None:
        raise ConfigurationError(
            "The price of the model's answers is not known, so --max-price can't be kept. Name a file with the model's "
            "price by --prices, or set --max-episode-tokens instead."
        )
    return usage.cost_usd
