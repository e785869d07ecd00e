"""Episodes of given players."""

from collections.abc import Mapping, Sequence
from typing import Any

from openenv.train.agents.agent import play
from openenv.train.agents.player_agent import PlayerAgent, form_of
from openenv.train.agents.players import Player
from openenv.train.episodes.episode import Episode
from openenv.train.episodes.played_episode import PlayedEpisode
from openenv.train.forms.form import Form
from openenv.train.rollout.sessions import Sessions


def played_by(
    players: Sequence[Player],
    tasks: Sequence[Mapping[str, Any]],
    sessions: Sessions,
    form: Form | None = None,
    max_turns: int = 9,
) -> list[PlayedEpisode]:
    """Play an episode with each player."""
    agent = PlayerAgent(players.__getitem__, lambda number, task: number, form or form_of(sessions), max_turns)
    return list(play(agent, enumerate(tasks), sessions))


def episodes_of(
    players: Sequence[Player], tasks: Sequence[Mapping[str, Any]], sessions: Sessions, max_turns: int = 9
) -> list[Episode]:
    """Play an episode with each player, without the conversations."""
    return [played.episode for played in played_by(players, tasks, sessions, max_turns=max_turns)]
