"""Players without a model as an agent: a fresh player for each episode."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from openenv.adapters.text import ActionText
from openenv.records.answers import AnswerRule
from openenv.train.agents.agent import BatchAgent
from openenv.train.agents.players import Player, RandomPlayer, RandomToolPlayer
from openenv.train.episodes.budget import NO_BUDGET, Budget
from openenv.train.episodes.played_episode import PlayedEpisode
from openenv.train.forms.form import Form, prompt_messages
from openenv.train.forms.moves import Move
from openenv.train.forms.text_form import TextForm
from openenv.train.forms.tool_form import ToolForm
from openenv.train.rollout.loop import play_together
from openenv.train.rollout.play import Play
from openenv.train.rollout.sessions import Sessions
from openenv.train.tasks.task_choice import NumberedTask

__all__ = ["PlayerAgent", "PlayerMaker", "PlayerSeed", "form_of", "random_players", "scripted_players"]

PlayerMaker = Callable[[int], Player]
"""Function that makes a player of a seed."""

PlayerSeed = Callable[[int, Mapping[str, Any]], int]
"""Function from an episode's number and task to the seed of its player."""


class PlayerAgent(BatchAgent):
    """Agent without a model, which makes a player for each episode."""

    def __init__(
        self,
        make_player: PlayerMaker,
        seed_of: PlayerSeed,
        form: Form,
        max_turns: int,
        rule: AnswerRule = AnswerRule(),  # noqa: B008  # it can't be changed
        budget: Budget = NO_BUDGET,
    ) -> None:
        super().__init__(max_turns, form.shown, rule, budget)
        self._make_player = make_player
        self._seed_of = seed_of
        self._form = form

    def _act_in(self, plays: Sequence[Play], tasks: Sequence[NumberedTask], sessions: Sessions) -> None:
        players = [self._make_player(self._seed_of(number, task)) for number, task in tasks]
        play_together(_PlayerActor(players, self._form), plays, sessions)

    def _played(self, number: int, play: Play) -> PlayedEpisode:
        return PlayedEpisode(number, play.episode, play.messages, self._form.tools)


class _PlayerActor:
    """Actor with a player for each episode of a batch."""

    def __init__(self, players: Sequence[Player], form: Form) -> None:
        self._players = players
        self._form = form

    def begin(self, plays: Sequence[Play]) -> None:
        """Write the first messages; a player itself sees an observation when it has to choose."""
        for play in plays:
            play.messages = self._form.opening_messages(None if play.first is None else play.observation)

    async def act(self, plays: Sequence[Play]) -> list[list[Move]]:
        """Return the action that each player chooses."""
        return [[self._move(play)] for play in plays]

    def see(self, plays: Sequence[Play]) -> None:
        """Write the results of the actions."""
        for play in plays:
            play.append_replies(self._form)

    def _move(self, play: Play) -> Move:
        assert play.last is not None, "an episode whose reset failed takes no moves"
        move = self._form.move(self._players[play.number](play.last.observation))
        play.messages.append(self._form.answer(move, len(play.results)))
        return move


def random_players(
    sessions: Sessions, actions: ActionText | None = None, words: Sequence[str] = ("a", "b", "c")
) -> PlayerMaker:
    """Return a maker of random players, of the environment's tools where they are offered, else with texts of words."""
    if sessions.tools is not None:
        return partial(RandomToolPlayer, sessions.tools)
    return partial(RandomPlayer, actions or ActionText(sessions.action), words=words)


def scripted_players(sessions: Sessions) -> PlayerMaker | None:
    """Return the maker of the scripted players that an environment's package has; ``None`` where it has none."""
    package = sessions.package
    if package is None or package.manifest.player is None:
        return None
    return cast("PlayerMaker", package.make_player)


def form_of(sessions: Sessions, system_prompt: str | None = None) -> Form:
    """Return the form of an environment's conversations: calls where its tools are offered, else texts."""
    prompt = prompt_messages(sessions.goal, system_prompt)
    if sessions.tools is not None:
        return ToolForm(sessions.tools, sessions.pixels, prompt)
    actions = ActionText(sessions.action)
    return TextForm(actions, actions.instructions(), sessions.pixels, prompt)
