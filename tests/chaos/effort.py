"""How much havoc is made."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Effort:
    """How much havoc is made, and by which random numbers.

    Attributes:
        seed: What every random choice of a scenario derives from.
        cut_episodes: Episodes that are played while their sockets are cut.
        kills: How often a server is killed while episodes are played.
        killed_episodes: Episodes that are played meanwhile.
        dropped_sessions: Sessions that are opened and dropped uncleanly, in each of the rounds.
        mischiefs: Sessions whose environment misbehaves, of each kind.
        hostile_frames: Frames and requests that make no sense.
        disconnects: Clients that leave properly, of each kind.
        training_steps: Optimiser steps of the training that is interrupted.
        training_kills: How often its server is killed.
    """

    seed: int
    cut_episodes: int
    kills: int
    killed_episodes: int
    dropped_sessions: int
    mischiefs: int
    hostile_frames: int
    disconnects: int
    training_steps: int
    training_kills: int

    def with_seed(self, seed: int) -> "Effort":
        """Return the same with other random numbers."""
        return replace(self, seed=seed)


FULL = Effort(
    seed=1,
    cut_episodes=1000,
    kills=20,
    killed_episodes=600,
    dropped_sessions=10_000,
    mischiefs=10,
    hostile_frames=100_000,
    disconnects=200,
    training_steps=12,
    training_kills=3,
)
"""What the design asks for; ``make chaos``."""

SMALL = Effort(
    seed=1,
    cut_episodes=40,
    kills=1,
    killed_episodes=24,
    dropped_sessions=300,
    mischiefs=1,
    hostile_frames=3000,
    disconnects=10,
    training_steps=2,
    training_kills=1,
)
"""What fits among the other tests; ``make test``."""
