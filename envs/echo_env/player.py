"""Player with longer messages than a random one."""

from collections.abc import Callable

from openenv.core.seeding import rng

from .models import EchoAction, EchoObservation

# Each has every letter of the alphabet.
_SAYINGS = (
    "Sphinx of black quartz, judge my vow.",
    "Pack my box with five dozen liquor jugs.",
    "The quick brown fox jumps over the lazy dog.",
)


class EchoPlayer:
    """Sends a saying, any of them with equal chance.

    Args:
        seed: Of its choices.
    """

    def __init__(self, seed: int) -> None:
        self._random = rng(seed, "player")

    def __call__(self, observation: EchoObservation) -> EchoAction:
        """Choose a message.

        Args:
            observation: Not used.

        Returns:
            The message.
        """
        return EchoAction(message=self._random.choice(_SAYINGS))


def make_player(seed: int) -> Callable[[EchoObservation], EchoAction]:
    """Make a player for one episode, which is as long as one likes.

    Args:
        seed: Of its choices.

    Returns:
        A function from observations to actions.
    """
    return EchoPlayer(seed)
