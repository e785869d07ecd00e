"""Episodes of players without a model, and how they look as conversations: what a model would see, and should answer.

There are two forms of them. In the form of tools an action is a call of a tool; in the form of texts it is the text
that `ActionText` reads. Pictures are left out.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

from openenv.adapters.text import ActionText, observation_text
from openenv.core.client_types import StepResult
from openenv.train.agents.players import Player
from openenv.train.episodes.episode import Episode
from openenv.train.episodes.played_episode import Message, PlayedEpisode, text_of
from openenv.train.rollout.loop import play_together
from openenv.train.rollout.play import Move, MoveResult, Play, call_text
from openenv.train.rollout.renderer import first_content, next_content
from openenv.train.spec.sessions import Sessions
from openenv.train.tools.contents import call_content
from openenv.train.tools.environment_tools import EnvironmentTools

__all__ = [
    "ActionForm",
    "PlayerAgent",
    "TextForm",
    "ToolForm",
    "form_of",
    "play_all",
    "play_tasks",
    "record_episodes",
]


class ActionForm(Protocol):
    """How actions, and what comes of them, look in a conversation.

    Attributes:
        tools: The tools that are offered, as chat templates take them; empty if there are none.
    """

    tools: list[dict[str, Any]]

    def shown(self, result: StepResult[Any]) -> str:
        """Return what an agent is shown of a result."""
        ...

    def move(self, action: Any) -> Move:
        """Write an action as a move."""
        ...

    def opening(self, observation: str) -> str:
        """Return what the user says after a reset."""
        ...

    def exchange(self, result: MoveResult, turn: int) -> list[Message]:
        """Return the assistant's message for a move, the episode's ``turn``-th from 0, and the answer to it."""
        ...


class ToolForm:
    """Actions are calls of tools, and what they do is the tools' answers.

    Args:
        tools: The environment's tools.
        pixels: The fields of observations that are declared as the pixels of a picture.
    """

    def __init__(self, tools: EnvironmentTools, pixels: Collection[str] = ()) -> None:
        self._tools = tools
        self._pixels = pixels
        self.tools = tools.schemas()

    def shown(self, result: StepResult[Any]) -> str:
        """Return what a tool gives, or the first observation."""
        return text_of(call_content(result, self._pixels))

    def move(self, action: Any) -> Move:
        """Return a call, whose text is the tool's name and the arguments in JSON."""
        name, arguments = self._tools.call(action)
        return Move(call_text(name, arguments), action, tool=name, arguments=arguments)

    def opening(self, observation: str) -> str:
        """Return the observation."""
        return observation

    def exchange(self, result: MoveResult, turn: int) -> list[Message]:
        """Return a message with the call, and the tool's answer."""
        name = result.move.tool
        # Nine letters and digits, which is what the strictest of the chat templates asks for.
        number = f"call{turn:05}"
        call = {"id": number, "type": "function", "function": {"name": name, "arguments": result.move.arguments}}
        return [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": number, "name": name, "content": result.text},
        ]


class TextForm:
    """Actions are texts, and what they do is said by the user, as `ChatRenderer` has it.

    Args:
        actions: The environment's actions as text.
        instructions: What comes before the first observation.
    """

    def __init__(self, actions: ActionText, instructions: str) -> None:
        self._actions = actions
        self._instructions = instructions
        self.tools: list[dict[str, Any]] = []

    def shown(self, result: StepResult[Any]) -> str:
        """Return the observation's text."""
        return observation_text(result.observation)

    def move(self, action: Any) -> Move:
        """Return the action with its text."""
        return Move(self._actions.write(action), action)

    def opening(self, observation: str) -> str:
        """Return the instructions and the observation."""
        return first_content(self._instructions, observation)

    def exchange(self, result: MoveResult, turn: int) -> list[Message]:
        """Return a message with the action's text, and one with what is seen now, or was wrong."""
        problem = result.problem if result.result is None else None
        return [
            {"role": "assistant", "content": result.move.text},
            {"role": "user", "content": next_content(result.observation, problem)},
        ]


class PlayerAgent:
    """Players without a model as an agent, one for each episode.

    Args:
        players: A fresh player for each episode.
        form: How their actions look as text.
    """

    def __init__(self, players: Sequence[Player], form: ActionForm) -> None:
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
    form: ActionForm,
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
    system: list[Message] = [] if system_prompt is None else [{"role": "system", "content": system_prompt}]
    return [PlayedEpisode(play.number, play.episode, [*system, *_messages(play, form)], form.tools) for play in plays]


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
    form: ActionForm,
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


def form_of(sessions: Sessions) -> ActionForm:
    """Return the form of an environment's actions: calls where its tools are offered, else texts, without instructions.

    Args:
        sessions: The environment.
    """
    if sessions.tools is None:
        return TextForm(ActionText(sessions.action), "")
    return ToolForm(sessions.tools, sessions.pixels)


def _messages(play: Play, form: ActionForm) -> list[Message]:
    """Write an episode as a conversation; one whose reset failed has none."""
    if play.first is None:
        return []
    opening: Message = {"role": "user", "content": form.opening(form.shown(play.first))}
    exchanges = [form.exchange(result, turn) for turn, result in enumerate(play.results)]
    return [opening, *chain.from_iterable(exchanges)]
