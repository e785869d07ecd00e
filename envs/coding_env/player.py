"""A player that writes short, harmless and correct code."""

from collections.abc import Callable

from openenv.core.seeding import rng

from .models import CodeAction, CodeObservation

_PROGRAMS = (
    "total = sum(range({a}, {a} + {b}))\nprint(total)",
    "words = ['{a}', '{b}']\nprint(' and '.join(words))",
    "print(sorted([{b}, {a}, {a} * {b}]))",
    "squares = [n * n for n in range({a})]\nprint(squares[-1])",
    "assert {a} + {b} == {b} + {a}\nprint('it holds')",
)


class CodingPlayer:
    """Writes one of a few small programs, with numbers of its own.

    Args:
        seed: The same seed writes the same code.
    """

    def __init__(self, seed: int) -> None:
        self._random = rng(seed, "player")

    def __call__(self, observation: CodeObservation) -> CodeAction:
        """Write the next piece of code.

        Args:
            observation: What the last one gave.

        Returns:
            The code.
        """
        program = self._random.choice(_PROGRAMS)
        return CodeAction(code=program.format(a=self._random.randint(1, 50), b=self._random.randint(1, 50)))


def make_player(seed: int) -> Callable[[CodeObservation], CodeAction]:
    """Make a player for one episode.

    Args:
        seed: Of its random choices.

    Returns:
        A function from observations to actions.
    """
    return CodingPlayer(seed)
