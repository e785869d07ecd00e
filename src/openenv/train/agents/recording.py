"""Episodes of players without a model, and their conversations: what a model would see, and should answer."""

from collections.abc import Mapping, Sequence
from typing import Any

from openenv.adapters.text import ActionText
from openenv.train.agents.players import Player
from openenv.train.episodes.episode import Episode
from openenv.train.episodes.played_episode import PlayedEpisode
from openenv.train.forms.form import Form
from openenv.train.forms.moves import Move
from openenv.train.forms.text_form import TextForm
from openenv.train.forms.tool_form import ToolForm
from openenv.train.rollout.loop import play_together
from openenv.train.rollout.play import Play
from openenv.train.spec.sessions import Sessions

__all__ = ["PlayerAgent", "form_of", "play_all", "play_tasks", "record_episodes"]


class PlayerAgent:
    """Players without a model as an agent, one for each episode.

    Args:
        players: A fresh player for each episode.
        form: How their actions look as text.
    """

    def __init__(self, players: Sequence[Player], form: Form) -> None:
        self._players = players
        self._form = form

    def begin(self, plays: Sequence[Play]) -> None:
        """Do nothing: a player sees an observation when it has to choose."""

    async def act(self, plays: Sequence[Play]) -> list[list[Move]]:
        """Let each player choose an action.

        Args:
            plays: Episodes that are not over.
        """
        return [[self._move(play)] for play in plays]

    def see(self, plays: Sequence[Play]) -> None:
        """Do nothing, as in `begin`."""

    def _move(self, play: Play) -> Move:
        assert play.last is not None, "an episode whose reset failed takes no moves"
        return self._form.move(self._players[play.number](play.last.observation))


def record_episodes(
    sessions: Sessions,
    players: Sequence[Player],
    tasks: Sequence[Mapping[str, Any]],
    form: Form,
    *,
    max_turns: int,
    system_prompt: str | None = None,
) -> list[PlayedEpisode]:
    """Play one episode with each player, all at once, and record the conversations.

    Args:
        sessions: The environment; at least as many sessions as players.
        players: A fresh player for each episode.
        tasks: What the reset of each episode is passed.
        form: How the conversations look.
        max_turns: Actions after which an episode is cut off.
        system_prompt: The first message of every conversation; ``None`` for none.

    Returns:
        The episodes, in the order of the tasks, without tokens.

    Raises:
        OpenEnvError: The environment failed in more than half of the episodes.
    """
    plays = play_all(sessions, players, tasks, form, max_turns)
    return [_played(play, form, system_prompt) for play in plays]


def play_tasks(
    sessions: Sessions, players: Sequence[Player], tasks: Sequence[Mapping[str, Any]], *, max_turns: int
) -> list[Episode]:
    """Play one episode with each player, all at once, without the conversations.

    Args:
        sessions: The environment; at least as many sessions as players.
        players: A fresh player for each episode.
        tasks: What the reset of each episode is passed.
        max_turns: Actions after which an episode is cut off.

    Returns:
        The episodes, without tokens; the texts of the actions are those that the players meant.

    Raises:
        OpenEnvError: The environment failed in more than half of the episodes.
    """
    return [play.episode for play in play_all(sessions, players, tasks, form_of(sessions), max_turns)]


def play_all(
    sessions: Sessions,
    players: Sequence[Player],
    tasks: Sequence[Mapping[str, Any]],
    form: Form,
    max_turns: int,
) -> list[Play]:
    """Play one episode with each player, all at once, and keep what came of each action.

    Args:
        sessions: The environment; at least as many sessions as players.
        players: A fresh player for each episode.
        tasks: What the reset of each episode is passed, an ``episode_id`` among it if its episode has one.
        form: How actions and observations look as text.
        max_turns: Actions after which an episode is cut off.

    Returns:
        The episodes, in the order of the tasks.

    Raises:
        OpenEnvError: The environment failed in more than half of the episodes.
    """
    plays = [Play(task, number=number, max_turns=max_turns, shown=form.shown) for number, task in enumerate(tasks)]
    play_together(PlayerAgent(players, form), plays, sessions)
    return plays


def form_of(sessions: Sessions) -> Form:
    """Return the form of an environment's conversations: calls where its tools are offered, else texts.

    Args:
        sessions: The environment.
    """
    if sessions.tools is not None:
        return ToolForm(sessions.tools, sessions.pixels)
    actions = ActionText(sessions.action)
    return TextForm(actions, sessions.instructions(actions), sessions.pixels)


def _played(play: Play, form: Form, system_prompt: str | None) -> PlayedEpisode:
    observation = None if play.first is None else form.shown(play.first)
    messages = form.conversation(observation, play.results, system_prompt)
    return PlayedEpisode(play.number, play.episode, messages, form.tools)
