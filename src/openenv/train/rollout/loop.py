"""The loop that plays episodes, for actors of all kinds: players, a model loaded here, one behind an address."""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol

from openenv.core.client_types import StepResult
from openenv.core.exceptions import ConfigurationError, OpenEnvError
from openenv.train.episodes.episode import raise_if_most_failed
from openenv.train.forms.moves import Move
from openenv.train.rollout.play import Play

__all__ = ["Actor", "play_episodes", "play_together"]

Result = StepResult[Any] | OpenEnvError


class Actor(Protocol):
    """Acts in episodes that are played together."""

    def begin(self, plays: Sequence[Play]) -> None:
        """Take the first observations in.

        Args:
            plays: All episodes, those among them that take no moves.
        """
        ...

    async def act(self, plays: Sequence[Play]) -> Sequence[Sequence[Move]]:
        """Choose what to do next in some episodes.

        Args:
            plays: Episodes that are not over.

        Returns:
            The moves in each, to be done in their order; none where the actor ends the episode.
        """
        ...

    def see(self, plays: Sequence[Play]) -> None:
        """Take in what came of the moves.

        Args:
            plays: The episodes of the last `act`, of which some may be over.
        """
        ...


class _PlayedSessions(Protocol):
    """The sessions of episodes that are played together, by the episodes' numbers."""

    async def reset(self, tasks: Sequence[Mapping[str, Any]]) -> Sequence[Result]:
        """Start an episode in each; a failure in one harms no other."""
        ...

    async def step(self, actions: Mapping[int, Any]) -> Mapping[int, Result]:
        """Do one action in each of some; a failure in one harms no other."""
        ...


class _BlockingSessions(Protocol):
    """Sessions whose methods block, as those of ``openenv.train.Sessions`` do."""

    def try_reset(self, tasks: Sequence[Mapping[str, Any]]) -> Sequence[Result]:
        """Start an episode in each; a failure in one harms no other."""
        ...

    def step(self, actions: Mapping[int, Any]) -> Mapping[int, Result]:
        """Do one action in each of some; a failure in one harms no other."""
        ...


async def play_episodes(actor: Actor, plays: Sequence[Play], sessions: _PlayedSessions) -> None:
    """Play episodes to their end, all environments stepped together.

    Args:
        actor: Acts in all of them.
        plays: The episodes, not begun yet, by their numbers from 0. They hold what happened afterwards; one that the
            environment failed in has the error.
        sessions: As many sessions.
    """
    for play, result in zip(plays, await sessions.reset([play.parameters for play in plays]), strict=True):
        play.begin(result)
    actor.begin(plays)
    while playing := [play for play in plays if not play.is_over]:
        for play, moves in zip(playing, await actor.act(playing), strict=True):
            play.act(moves)
        await _do_moves(playing, sessions)
        actor.see(playing)


def play_together(actor: Actor, plays: Sequence[Play], sessions: _BlockingSessions) -> None:
    """Play episodes to their end with an actor and sessions that block.

    Args:
        actor: As in `play_episodes`; it waits for nothing but in blocking calls.
        plays: As in `play_episodes`.
        sessions: As many sessions.

    Raises:
        OpenEnvError: The environment failed in more than half of the episodes.
    """
    _run(play_episodes(actor, plays, _AwaitedSessions(sessions)))
    raise_if_most_failed([play.episode for play in plays])


class _AwaitedSessions:
    """Blocking sessions as the loop takes them."""

    def __init__(self, sessions: _BlockingSessions) -> None:
        self._sessions = sessions

    async def reset(self, tasks: Sequence[Mapping[str, Any]]) -> Sequence[Result]:
        return self._sessions.try_reset(tasks)

    async def step(self, actions: Mapping[int, Any]) -> Mapping[int, Result]:
        return self._sessions.step(actions)


async def _do_moves(plays: Sequence[Play], sessions: _PlayedSessions) -> None:
    """Do the first move of every answer, then the second of those that have one, and so on."""
    while moving := [(play, move) for play in plays if (move := play.next_move) is not None]:
        results = await sessions.step({play.number: move.action for play, move in moving if move.action is not None})
        for play, _ in moving:
            play.note(results.get(play.number))


def _run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in which every call blocks: it is never suspended, so it needs no event loop."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise ConfigurationError("Expected an actor that blocks, got one that waits in an event loop: use play_episodes.")
