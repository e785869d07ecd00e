"""The process that ``trial`` starts: it plays a game within limits, and exits with 0 if all went well."""

import json
import resource
import sys
import time
from random import Random
from typing import Any

import pyspiel

from openenv.adapters.openspiel.episode import Episode

_MEMORY_BYTES = 2 << 30
_CPU_S = 20
_EPISODES = 3
# A game that still goes on then has shown what it does.
_PLAY_S = 4.0


def play(game: Any, seed: int, deadline: float) -> None:
    """Play an episode with random moves, looking at all that an observation holds."""
    random = Random(seed)  # noqa: S311  # a game, not a key
    episode = Episode(game, 0, "random", seed)
    while True:
        episode.info_state(), episode.text(), episode.returns
        if episode.over or time.monotonic() > deadline:
            return
        episode.play(random.choice(episode.legal_actions))


def main() -> None:
    """Try the game that the command line names, with the parameters that it gives as JSON."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    deadline = time.monotonic() + _PLAY_S
    try:
        game = pyspiel.load_game(sys.argv[1], json.loads(sys.argv[2]))
        for seed in range(_EPISODES):
            play(game, seed, deadline)
    except (ValueError, TypeError, IndexError, RuntimeError, MemoryError) as error:
        sys.stdout.write(f"{type(error).__name__}: {error}".replace("\n", " "))
        sys.exit(1)


if __name__ == "__main__":
    main()
