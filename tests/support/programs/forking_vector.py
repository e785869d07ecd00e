"""Fork with sessions open in a vector and beside it, and play in the child; the exit status says whether it worked.

Arguments: the server's address, and what the child does with what it has of its parent: uses the ``inherited`` clients,
has them ``closed`` first, or has them ``dropped`` for its own.
"""

import gc
import os
import sys
from typing import Any

from openenv.core.generic_client import GenericEnvClient

SLOTS = 4
ONE = {"amount": 1}


def totals(results: list[Any]) -> list[int]:
    return [result.observation["total"] for result in results]


class Player:
    """A client with a session, and a vector."""

    def __init__(self, url: str) -> None:
        self.client = GenericEnvClient(base_url=url, message_timeout_s=60).sync()
        self.vector = self.client.vector(SLOTS)

    def begin(self) -> None:
        self.client.reset()
        self.vector.reset()

    def play(self) -> list[int]:
        return [*totals(self.vector.step([ONE] * SLOTS)), *totals([self.client.step(ONE)])]


def play_child(url: str, players: list[Player], which: str) -> int:
    if which == "closed":
        for player in players:
            player.client.close()
    if which != "inherited":
        players[:] = [Player(url) for _ in players]
    gc.collect()  # what came from the parent goes, and must not take its sockets along
    for player in players:
        player.begin()
    counted = [player.play() for player in players for _ in range(3)]
    return 0 if counted == [[n] * (SLOTS + 1) for _ in players for n in (1, 2, 3)] else 1


def main(url: str, which: str) -> int:
    players = [Player(url) for _ in range(2)]
    for player in players:
        player.begin()
        player.play()
    child = os.fork()
    if child == 0:
        status = 2
        try:
            status = play_child(url, players, which)
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    continued = [player.play() for player in players]
    for player in players:
        player.client.close()
    return os.waitstatus_to_exitcode(status) if continued == [[2] * (SLOTS + 1)] * 2 else 3


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
