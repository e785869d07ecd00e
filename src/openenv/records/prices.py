"""Prices of models and environments, from a small file, and what episodes have cost by them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from openenv.core.documents import read_json, read_toml, read_yaml
from openenv.core.exceptions import ConfigurationError
from openenv.core.llm.token_price import Dollars, TokenPrice
from openenv.core.wire.results import (
    PARTICIPANTS,
    Number,
    ParticipantUsage,
    known_sum,
    participant_totals,
    participants_of,
)

__all__ = ["Prices", "Spending", "TokenPrice", "participants_in_lines", "read_prices"]

_HOUR_S = 3600
_READERS = {".yaml": read_yaml, ".yml": read_yaml, ".toml": read_toml, ".json": read_json}


class Prices(BaseModel):
    """Prices in US dollars.

    Attributes:
        models: Price of each model's tokens, by the model's name.
        sandbox_hour: Price of an hour of an environment's sandbox or container, which an episode uses from the reset's
            answer to the last step's; ``None`` where it is not counted.
        cpu_hour: Price of an hour of CPU that the environment uses, as its server measures it; ``None`` where it is not
            counted.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: dict[str, TokenPrice] = {}
    sandbox_hour: Dollars | None = None
    cpu_hour: Dollars | None = None


def read_prices(file: Path) -> Prices:
    """Read prices from a YAML, TOML or JSON file.

    Raises:
        ConfigurationError: It is none of these, can't be read, or has something else in it.
    """
    reader = _READERS.get(file.suffix)
    if reader is None:
        raise ConfigurationError(f"Expected a file of prices that ends in {', '.join(_READERS)}, got {file}.")
    try:
        return Prices.model_validate(reader(file) or {})
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"])) or "the file"
        raise ConfigurationError(
            f"{file}: {where} is not as prices are written ({fault['msg']}). Expected models, each a name with input "
            "and output, the dollars for a million tokens; and sandbox_hour and cpu_hour, the dollars for an hour."
        ) from error


@dataclass(frozen=True)
class Spending:
    """Tokens, time and money that episodes have used; ``None`` where it is not known of one of them.

    Attributes:
        episodes: Number of episodes.
        input_tokens: Tokens that the model read.
        output_tokens: Tokens that it wrote.
        seconds: Seconds from the resets' answers to the last steps'.
        price_usd: Price in US dollars.
        cpu_s: Seconds of CPU that the environment used.
    """

    episodes: int
    input_tokens: int | None = None
    output_tokens: int | None = None
    seconds: float | None = None
    price_usd: float | None = None
    cpu_s: float | None = None

    @classmethod
    def of_lines(cls, lines: Iterable[Mapping[str, Any]], model: str | None, prices: Prices | None) -> Self:
        """Sum the spending of episodes in lines of a `Collection`, of a model or a player without one."""
        lines = list(lines)
        return cls(
            len(lines),
            _sum([line.get("input_tokens") for line in lines]),
            _sum([line.get("output_tokens") for line in lines]),
            _sum([line.get("took_s") for line in lines]),
            _sum([_price(line, model, prices) for line in lines]),
            _sum([line.get("cpu_s") for line in lines]),
        )

    @property
    def price_of_one(self) -> float | None:
        """Mean price of an episode; ``None`` where the price is not known."""
        return None if self.price_usd is None else self.price_usd / self.episodes


def participants_in_lines(lines: Iterable[Mapping[str, Any]], prices: Prices | None) -> dict[str, ParticipantUsage]:
    """Sum what participants used in lines of a `Collection`, by name, at the prices of their models where named."""
    totals = participant_totals(participants_of(line.get(PARTICIPANTS)) for line in lines)
    return {name: _at_price(usage, prices) for name, usage in totals.items()}


def _at_price(usage: ParticipantUsage, prices: Prices | None) -> ParticipantUsage:
    price = None if prices is None or usage.model is None else prices.models.get(usage.model)
    return usage if price is None else replace(usage, cost_usd=price.of(usage.input_tokens, usage.output_tokens))


def _price(line: Mapping[str, Any], model: str | None, prices: Prices | None) -> float | None:
    """Return the price of an episode's tokens, as the server reports it where no price is named, its time and CPU."""
    parts = []
    if model is not None:
        price = None if prices is None else prices.models.get(model)
        tokens = (line.get("input_tokens"), line.get("output_tokens"))
        parts.append(line.get("cost_usd") if price is None else price.of(*tokens))
    hours = {} if prices is None else {"took_s": prices.sandbox_hour, "cpu_s": prices.cpu_hour}
    for name, price_of_hour in hours.items():
        if price_of_hour is not None:
            seconds = line.get(name)
            parts.append(None if seconds is None else seconds * price_of_hour / _HOUR_S)
    return _sum(parts)


def _sum(values: list[Number | None]) -> Number | None:
    """Return the sum; ``None`` of no values, and where one is not known."""
    return reduce(known_sum, values) if values else None
