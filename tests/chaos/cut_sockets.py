"""Sockets that are cut at random bytes, in either direction and in every way, while episodes are played."""

import math
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any
from weakref import WeakKeyDictionary

from tests.chaos.effort import Effort
from tests.chaos.environments import LENGTH
from tests.chaos.players import SESSIONS, Match, assert_each_call_happened_once, assert_same, play
from tests.chaos.server import PATIENCE_S, Server
from tests.support.proxy import Proxy, Way, _Tunnel

# A connection carries so many bytes before it is cut: few do not survive the handshake, most a few rounds of steps.
_FEWEST_BYTES = 200
_MOST_BYTES = 60_000
# To find out that one has gone silent takes seconds, in which nothing else happens.
_WAYS_TO_GO = {"reset": 0.48, "closed": 0.48, "silent": 0.04}


class RoughProxy(Proxy):
    """Cuts every connection after a random number of bytes: with a TCP reset, with its end, or without a word.

    Args:
        port: Where the server listens.
        dice: Where all choices come from.

    Attributes:
        rough: Whether it does so by now; the connections that there are have it before them too.
        fates: How often each way to go was taken.
    """

    def __init__(self, port: int, dice: Random) -> None:
        super().__init__(port)
        self.fates: Counter[str] = Counter()
        self.rough = False
        self._dice = dice
        self._left: WeakKeyDictionary[_Tunnel, int] = WeakKeyDictionary()

    def be_rough(self) -> None:
        """Begin."""
        self.rough = True

    def carry(self, tunnel: _Tunnel, way: Way, data: bytes) -> None:
        """Pass bytes on, as far as the connection has some left, and cut it then."""
        if not self.rough:
            super().carry(tunnel, way, data)
            return
        left = self._left.get(tunnel)
        if left is None:
            left = int(math.exp(self._dice.uniform(math.log(_FEWEST_BYTES), math.log(_MOST_BYTES))))
        self._left[tunnel] = max(0, left - len(data))
        if left == 0:  # it went silent
            return
        super().carry(tunnel, way, data[:left])
        if len(data) >= left:
            self._end(tunnel)

    def _end(self, tunnel: _Tunnel) -> None:
        fate = self._dice.choices(list(_WAYS_TO_GO), list(_WAYS_TO_GO.values()))[0]
        self.fates[fate] += 1
        if fate == "reset":
            tunnel.reset()
        elif fate == "closed":
            tunnel.close()


def run(effort: Effort, folder: Path) -> str:
    """Play the same episodes undisturbed and through a proxy that cuts, and compare.

    Args:
        effort: How many episodes.
        folder: Where logs go.

    Returns:
        The counts.
    """
    fates: Counter[str] = Counter()
    for environment in ("ChainEnvironment", "ThreadedChainEnvironment"):
        fates += _play_on(environment, effort.cut_episodes // 2, effort.seed, folder)
    assert fates.total() > effort.cut_episodes / 20, fates
    cuts = ", ".join(f"{count} {fate}" for fate, count in sorted(fates.items()))
    return (
        f"{effort.cut_episodes:,} episodes, {effort.cut_episodes * LENGTH:,} steps, {fates.total()} cuts ({cuts}): "
        "0 lost, 0 doubled, rewards equal"
    )


def _play_on(environment: str, episodes: int, seed: int, folder: Path) -> "Counter[str]":
    settings: dict[str, Any] = {"max_concurrent_envs": 2 * SESSIONS, "resume_window_s": PATIENCE_S}
    with Server.of(environment, folder, **settings) as server:
        expected = play(Match(server.url, seed, "undisturbed"), episodes)
        with RoughProxy(server.port, Random(seed)) as proxy:
            match = Match(proxy.url, seed, "cut", proxy.be_rough)
            rewards = play(match, episodes)
        assert_same(rewards, expected)
        assert_each_call_happened_once(match, episodes, server.ask("/calls"))
        server.assert_nothing_unhandled()
    return proxy.fates
