"""Price of a model's tokens."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Dollars", "TokenPrice"]

_MILLION = 1_000_000

Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class TokenPrice(BaseModel):
    """Price of a model's tokens, in US dollars for a million.

    Attributes:
        input: Of tokens that the model reads.
        output: Of tokens that it writes.

    Example:
        >>> TokenPrice(input=0.5, output=2.0).of(1_000_000, 500_000)
        1.5
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: Dollars
    output: Dollars

    def of(self, input_tokens: int | None, output_tokens: int | None) -> float | None:
        """Return the price of so many tokens; ``None`` where a number is not known."""
        if input_tokens is None or output_tokens is None:
            return None
        return (input_tokens * self.input + output_tokens * self.output) / _MILLION
