"""A player that can count and look up: sums, products, two numbers' common divisor, and who did what in a text."""

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from .models import AnswerAction, ReasoningObservation

_TERM = re.compile(r"\s*(\d+(?:\.\d+)?|[-+*/()])")
_EXPRESSION = re.compile(r"-?[\d(][-+*/().\d\s]*")
_LOOKED_UP = re.compile(r"(?P<text>.*)\nWho (?P<deed>[^\n]+)\? Reply only with a name\.", re.DOTALL)
_COMMON: dict[str, Callable[..., int]] = {"Greatest Common Divisor": math.gcd, "Least Common Multiple": math.lcm}


class ArithmeticPlayer:
    """Works out arithmetic: ``chain_sum``, ``basic_arithmetic``, ``products``, ``decimal_chain_sum``, ``gcd``, ``lcm``.

    In ``needle_haystack`` it looks the name up.

    Any other question it answers with ``0``.
    """

    def __call__(self, observation: ReasoningObservation) -> AnswerAction:
        """Answer a question.

        Args:
            observation: The question.

        Returns:
            The answer.
        """
        return AnswerAction(answer=answer_to(observation.text))


def answer_to(question: str) -> str:
    r"""Work out the answer to a question.

    Args:
        question: The question.

    Example:
        >>> answer_to("State the final answer to the following arithmetic problem: 2 + 3 * (1 - 4) =")
        '-7'
        >>> answer_to("Find the Least Common Multiple (LCM) of these numbers: 4, 6")
        '12'
        >>> answer_to("Ada likes tea. Bo likes rain. \nWho likes rain? Reply only with a name.")
        'Bo'
    """
    looked_up = _LOOKED_UP.fullmatch(question)
    if looked_up is not None:
        deed = f" {looked_up['deed']}."
        return next((each[: -len(deed)] for each in _sentences(looked_up["text"]) if each.endswith(deed)), "0")
    for name, common in _COMMON.items():
        if name in question:
            return str(common(*map(int, re.findall(r"\d+", question.partition("numbers:")[2]))))
    try:
        return _written(Calculation(max(_EXPRESSION.findall(question), key=len, default="")).value())
    except (ValueError, ZeroDivisionError):
        return "0"


def _sentences(text: str) -> list[str]:
    return [f"{sentence}." for sentence in text.strip().removesuffix(".").split(". ")]


class Calculation:
    """Works out an expression of numbers, ``+ - * /`` and brackets, without rounding.

    A division gives the whole number below, as ``basic_arithmetic`` has it.

    Args:
        text: The expression; a full stop may follow.

    Raises:
        ValueError: It is none.

    Example:
        >>> Calculation("7 / 2 - (1.5 + -3).").value()
        Fraction(9, 2)
    """

    def __init__(self, text: str) -> None:
        text = text.strip().rstrip(".")
        self._terms = _TERM.findall(text)
        if "".join(self._terms) != "".join(text.split()):
            raise ValueError(f"Expected numbers, + - * / and brackets, got {text!r}.")

    def value(self) -> Fraction:
        """Work it out.

        Raises:
            ValueError: It is no expression.
            ZeroDivisionError: It divides by zero.
        """
        value = self._sum()
        if self._terms:
            raise ValueError(f"Expected an operator, got {self._terms[0]!r}.")
        return value

    def _sum(self) -> Fraction:
        value = self._product()
        while self._next() in ("+", "-"):
            value = value + self._product() if self._terms.pop(0) == "+" else value - self._product()
        return value

    def _product(self) -> Fraction:
        value = self._factor()
        while self._next() in ("*", "/"):
            value = value * self._factor() if self._terms.pop(0) == "*" else Fraction(value // self._factor())
        return value

    def _factor(self) -> Fraction:
        if not self._terms:
            raise ValueError("Expected a number, got the end of the expression.")
        term = self._terms.pop(0)
        if term == "-":
            return -self._factor()
        if term != "(":
            return Fraction(term)
        value = self._sum()
        if self._next() != ")":
            raise ValueError("Expected a closing bracket.")
        self._terms.pop(0)
        return value

    def _next(self) -> str | None:
        return self._terms[0] if self._terms else None


def _written(value: Fraction) -> str:
    """Write a number as datasets do: whole, or with as many decimals as it has."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{float(value):.10f}".rstrip("0")


def make_player(seed: int) -> Callable[[Any], AnswerAction]:
    """Make a player for one episode.

    Args:
        seed: Has no effect: nothing here is random.

    Returns:
        A function from observations to actions.
    """
    return ArithmeticPlayer()
