"""Players without a model as an agent: a fresh player for each episode."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, cast

from openenv.adapters.text import ActionText
from openenv.train.agents.agent import BatchAgent
from openenv.train.agents.players import Player, RandomPlayer, RandomToolPlayer
from openenv.train.agents.recording import ActionForm
from openenv.train.episodes.played_episode import Message, PlayedEpisode
from openenv.train.rollout.loop import play_together
from openenv.train.rollout.play import Move, Play
from openenv.train.spec.sessions import Sessions
from openenv.train.tasks.task_choice import NumberedTask

__all__ = ["PlayerAgent", "PlayerMaker", "PlayerSeed", "random_players", "scripted_players"]

PlayerMaker = Callable[[int], Player]
"""Makes a player of a seed."""

PlayerSeed = Callable[[int, Mapping[str, Any]], int]
"""Finds the seed of the player of an episode, from its number and its task."""


class PlayerAgent(BatchAgent):
    """Players without a model.

    Args:
        make_player: Makes a player for each episode.
        seed_of: Finds the player's seed.
        form: How actions and observations look as text.
        max_turns: Actions after which an episode is cut off.
        system_prompt: The first message of every conversation; ``None`` for none.
    """

    def __init__(
        self,
        make_player: PlayerMaker,
        seed_of: PlayerSeed,
        form: ActionForm,
        max_turns: int,
        system_prompt: str | None = None,
    ) -> None:
        super().__init__(max_turns, form.shown)
        self._make_player = make_player
        self._seed_of = seed_of
        self._form = form
        self._system: list[Message] = [] if system_prompt is None else [{"role": "system", "content": system_prompt}]

    def _act_in(self, plays: Sequence[Play], tasks: Sequence[NumberedTask], sessions: Sessions) -> None:
        players = [self._make_player(self._seed_of(number, task)) for number, task in tasks]
        play_together(_PlayerActor(players, self._form), plays, sessions)

    def _played(self, number: int, play: Play) -> PlayedEpisode:
        messages: list[Message] = []
        if play.first is not None:  # of an episode whose reset failed nothing was said
            opening: Message = {"role": "user", "content": self._form.opening(self._form.shown(play.first))}
            exchanges = [self._form.exchange(result, turn) for turn, result in enumerate(play.results)]
            messages = [opening, *chain.from_iterable(exchanges)]
        return PlayedEpisode(number, play.episode, [*self._system, *messages], self._form.tools)


class _PlayerActor:
    """Players as an actor, one for each episode of a batch."""

    def __init__(self, players: Sequence[Player], form: ActionForm) -> None:
        self._players = players
        self._form = form

    def begin(self, plays: Sequence[Play]) -> None:
        """Do nothing: a player sees an observation when it has to choose."""

    async def act(self, plays: Sequence[Play]) -> list[list[Move]]:
        """Let each player choose an action."""
        return [[self._move(play)] for play in plays]

    def see(self, plays: Sequence[Play]) -> None:
        """Do nothing, as in `begin`."""

    def _move(self, play: Play) -> Move:
        assert play.last is not None, "an episode whose reset failed takes no moves"
        return self._form.move(self._players[play.number](play.last.observation))


def random_players(
    sessions: Sessions, actions: ActionText | None = None, words: Sequence[str] = ("a", "b", "c")
) -> PlayerMaker:
    """Return what makes random players of an environment: of its tools where they are offered.

    Args:
        sessions: The environment.
        actions: Its actions as text, if they are known.
        words: What texts are made of where actions are no calls of tools.
    """
    if sessions.tools is not None:
        return partial(RandomToolPlayer, sessions.tools)
    return partial(RandomPlayer, actions or ActionText(sessions.action), words=words)


def scripted_players(sessions: Sessions) -> PlayerMaker | None:
    """Return what makes the scripted players that an environment's package has; ``None`` where it has none.

    Args:
        sessions: The environment.
    """
    package = sessions.package
    if package is None or package.manifest.player is None:
        return None
    return cast("PlayerMaker", package.make_player)
