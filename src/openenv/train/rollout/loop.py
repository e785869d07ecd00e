"""Loop that plays episodes, for actors of all kinds: players, a model loaded here, one behind an address."""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol

from openenv.core.client_types import StepResult
from openenv.core.exceptions import ConfigurationError, OpenEnvError
from openenv.train.forms.moves import Move
from openenv.train.rollout.play import Play
from openenv.train.time_split import TimeSplit

__all__ = ["Actor", "play_episodes", "play_together"]

Result = StepResult[Any] | OpenEnvError


class Actor(Protocol):
    """Actor in episodes that are played together."""

    def begin(self, plays: Sequence[Play]) -> None:
        """Read the first observations of all episodes, also of those that are over at once."""
        ...

    async def act(self, plays: Sequence[Play]) -> Sequence[Sequence[Move]]:
        """Return the next moves, in their order, in each of the open episodes; none where the actor ends one."""
        ...

    def see(self, plays: Sequence[Play]) -> None:
        """Read the results of the moves in the episodes of the last `act`, of which some may be over."""
        ...


class _PlayedSessions(Protocol):
    """Sessions of episodes that are played together, by the episodes' numbers."""

    async def reset(self, tasks: Sequence[Mapping[str, Any]]) -> Sequence[Result]:
        """Start an episode in each session; a failure in one harms no other."""
        ...

    async def step(self, actions: Mapping[int, Any]) -> Mapping[int, Result]:
        """Do one action in each of some sessions; a failure in one harms no other."""
        ...


class _BlockingSessions(Protocol):
    """Sessions whose methods block, as those of ``openenv.train.Sessions`` do."""

    def try_reset(self, tasks: Sequence[Mapping[str, Any]]) -> Sequence[Result]:
        """Start an episode in each session; a failure in one harms no other."""
        ...

    def step(self, actions: Mapping[int, Any]) -> Mapping[int, Result]:
        """Do one action in each of some sessions; a failure in one harms no other."""
        ...


async def play_episodes(
    actor: Actor, plays: Sequence[Play], sessions: _PlayedSessions, times: TimeSplit | None = None
) -> None:
    """Play episodes, which have the numbers from 0, to their ends; one that the environment failed in has the error."""
    times = times or TimeSplit()
    with times.measure("environment"):
        results = await sessions.reset([play.parameters for play in plays])
    for play, result in zip(plays, results, strict=True):
        play.begin(result)
    with times.measure("generation"):
        actor.begin(plays)
    while playing := [play for play in plays if not play.is_over]:
        with times.measure("generation"):
            answers = await actor.act(playing)
        for play, moves in zip(playing, answers, strict=True):
            play.act(moves)
        with times.measure("environment"):
            await _do_moves(playing, sessions)
        with times.measure("generation"):
            actor.see(playing)


def play_together(
    actor: Actor, plays: Sequence[Play], sessions: _BlockingSessions, times: TimeSplit | None = None
) -> None:
    """Play episodes to their ends with an actor and sessions that wait only in blocking calls."""
    _run(play_episodes(actor, plays, _AwaitedSessions(sessions), times))


class _AwaitedSessions:
    """Adapter of blocking sessions for the loop."""

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
