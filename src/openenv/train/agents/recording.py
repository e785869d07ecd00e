"""Recording episodes of players without a model as conversations: what a model would be shown, and should answer.

There are two forms of them. In the form of tools an action is a call of a tool; in the form of texts it is the text
that `ActionText` reads. Pictures are left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from openenv.adapters.text import ActionText, observation_text
from openenv.core.client_types import StepResult
from openenv.core.exceptions import OpenEnvError, RequestRejectedError
from openenv.train.agents.players import Player
from openenv.train.agents.tool_policy import call_text
from openenv.train.episodes.episode import Episode, raise_if_most_failed
from openenv.train.episodes.played_episode import Message, PlayedEpisode, text_of
from openenv.train.rollout.dialogue import first_content, next_content
from openenv.train.spec.sessions import Sessions
from openenv.train.tools.contents import call_content, call_problem, refusal_text
from openenv.train.tools.environment_tools import EnvironmentTools

__all__ = ["ActionForm", "TextForm", "ToolForm", "play_players", "play_tasks", "record_episodes"]


class ActionForm(Protocol):
    """How actions, and what comes of them, look in a conversation.

    Attributes:
        tools: The tools that are offered, as chat templates take them; empty if there are none.
    """

    tools: list[dict[str, Any]]

    def opening(self, result: StepResult[Any]) -> str:
        """Return what the user says after a reset."""
        ...

    def shown(self, result: StepResult[Any]) -> str:
        """Return what an agent is shown of a result, for the episode's record."""
        ...

    def action_text(self, action: Any) -> str:
        """Return an action as text, for the episode's record."""
        ...

    def answer(self, action: Any, turn: int) -> Message:
        """Return the assistant's message for an action, the episode's ``turn``-th, from 0."""
        ...

    def result(self, action: Any, turn: int, result: StepResult[Any]) -> Message:
        """Return the message that shows what an action did."""
        ...

    def refusal(self, action: Any, turn: int, error: RequestRejectedError, last: StepResult[Any]) -> Message:
        """Return the message that says why an action was refused; ``last`` is what was seen before it."""
        ...


class ToolForm:
    """Actions are calls of tools, and what they do is the tools' answers.

    Args:
        tools: The environment's tools.
    """

    def __init__(self, tools: EnvironmentTools) -> None:
        self._tools = tools
        self.tools = tools.schemas()

    def opening(self, result: StepResult[Any]) -> str:
        """Return the observation."""
        return self.shown(result)

    def shown(self, result: StepResult[Any]) -> str:
        """Return what a tool gives, or the first observation."""
        return text_of(call_content(result))

    def action_text(self, action: Any) -> str:
        """Return the tool's name and the arguments in JSON."""
        return call_text(*self._tools.call(action))

    def answer(self, action: Any, turn: int) -> Message:
        """Return a message with the call."""
        name, arguments = self._tools.call(action)
        call = {"id": _call_id(turn), "type": "function", "function": {"name": name, "arguments": arguments}}
        return {"role": "assistant", "content": "", "tool_calls": [call]}

    def result(self, action: Any, turn: int, result: StepResult[Any]) -> Message:
        """Return the tool's answer."""
        return self._answer_of_tool(action, turn, self.shown(result))

    def refusal(self, action: Any, turn: int, error: RequestRejectedError, last: StepResult[Any]) -> Message:
        """Return the reason as the tool's answer."""
        return self._answer_of_tool(action, turn, refusal_text(error))

    def _answer_of_tool(self, action: Any, turn: int, content: str) -> Message:
        name, _ = self._tools.call(action)
        return {"role": "tool", "tool_call_id": _call_id(turn), "name": name, "content": content}


class TextForm:
    """Actions are texts, and what they do is said by the user, as `ChatDialogue` has it.

    Args:
        actions: The environment's actions as text.
        instructions: What comes before the first observation.
    """

    def __init__(self, actions: ActionText, instructions: str) -> None:
        self._actions = actions
        self._instructions = instructions
        self.tools: list[dict[str, Any]] = []

    def opening(self, result: StepResult[Any]) -> str:
        """Return the instructions and the observation."""
        return first_content(self._instructions, self.shown(result))

    def shown(self, result: StepResult[Any]) -> str:
        """Return the observation's text."""
        return observation_text(result.observation)

    def action_text(self, action: Any) -> str:
        """Return the action's text."""
        return self._actions.write(action)

    def answer(self, action: Any, turn: int) -> Message:
        """Return a message with the action's text."""
        return {"role": "assistant", "content": self._actions.write(action)}

    def result(self, action: Any, turn: int, result: StepResult[Any]) -> Message:
        """Return the observation."""
        return {"role": "user", "content": self.shown(result)}

    def refusal(self, action: Any, turn: int, error: RequestRejectedError, last: StepResult[Any]) -> Message:
        """Return the reason and the last observation."""
        return {"role": "user", "content": next_content(self.shown(last), error.message)}


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
    records = [
        _Record(index, player, task, form, system_prompt)
        for index, (player, task) in enumerate(zip(players, tasks, strict=True))
    ]
    for record, outcome in zip(records, sessions.try_reset(tasks), strict=True):
        record.begin(outcome)
    while playing := {number: record for number, record in enumerate(records) if not record.episode.is_over(max_turns)}:
        outcomes = sessions.step({number: record.choose() for number, record in playing.items()})
        for number, outcome in outcomes.items():
            playing[number].note(outcome)
    raise_if_most_failed([record.episode for record in records])
    return [record.played() for record in records]


def play_players(
    sessions: Sessions,
    players: Sequence[Player],
    seeds: Sequence[int],
    *,
    max_turns: int,
    reset: Mapping[str, Any] | None = None,
) -> list[Episode]:
    """Play one episode with each player, all at once.

    Args:
        sessions: The environment; at least as many sessions as players.
        players: A fresh player for each episode.
        seeds: The seed of each episode.
        max_turns: Actions after which an episode is cut off.
        reset: What every reset is passed beside its seed.

    Returns:
        The episodes, without tokens; the texts of the actions are those that the players meant.

    Raises:
        OpenEnvError: The environment failed in more than half of the episodes.
    """
    return play_tasks(sessions, players, [{**(reset or {}), "seed": seed} for seed in seeds], max_turns=max_turns)


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
    tools = sessions.tools
    form = TextForm(ActionText(sessions.action), "") if tools is None else ToolForm(tools)
    return [played.episode for played in record_episodes(sessions, players, tasks, form, max_turns=max_turns)]


class _Record:
    """One episode while it is played."""

    def __init__(
        self, index: int, player: Player, task: Mapping[str, Any], form: ActionForm, system_prompt: str | None
    ) -> None:
        self.episode = Episode.of_task(task)
        self._index = index
        self._player = player
        self._form = form
        self._messages: list[Message] = []
        if system_prompt is not None:
            self._messages.append({"role": "system", "content": system_prompt})
        self._last: StepResult[Any]
        self._action: Any = None

    def begin(self, outcome: StepResult[Any] | OpenEnvError) -> None:
        if isinstance(outcome, OpenEnvError):
            self.episode.error = outcome
            return
        self._last = outcome
        self.episode.done = outcome.done
        self._messages.append({"role": "user", "content": self._form.opening(outcome)})

    def choose(self) -> Any:
        self._action = self._player(self._last.observation)
        self._messages.append(self._form.answer(self._action, len(self.episode.turns)))
        return self._action

    def note(self, outcome: StepResult[Any] | OpenEnvError) -> None:
        turn = len(self.episode.turns)
        problem = call_problem(outcome) if isinstance(outcome, StepResult) else None
        self.episode.add_turn(self._form.shown(self._last), self._form.action_text(self._action), outcome, problem)
        if isinstance(outcome, StepResult):
            self._messages.append(self._form.result(self._action, turn, outcome))
            self._last = outcome
        elif isinstance(outcome, RequestRejectedError):
            self._messages.append(self._form.refusal(self._action, turn, outcome, self._last))

    def played(self) -> PlayedEpisode:
        return PlayedEpisode(self._index, self.episode, self._messages, self._form.tools)


def _call_id(turn: int) -> str:
    # Nine letters and digits, which is what the strictest of the chat templates asks for.
    return f"call{turn:05}"
