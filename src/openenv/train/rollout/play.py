"""The loop of a rollout: many episodes at once, all environments stepped together, answers generated together.

It knows neither models nor environments: a `Generator` writes the answers, a dialogue turns tokens into actions and
what comes of these into tokens, and sessions do the actions.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from openenv.core.client_types import StepResult
from openenv.core.exceptions import ConfigurationError, OpenEnvError, RequestRejectedError
from openenv.train.episodes.episode import Episode, raise_if_most_failed
from openenv.train.generation.generator import Completion, Generator

__all__ = ["ActionDialogue", "Limits", "Move", "Outcome", "Stepper", "play_episodes"]

Stepper = Callable[[Mapping[int, Any]], Mapping[int, StepResult[Any] | OpenEnvError]]
"""Does one action in each of some sessions; the actions, and what they came to, by the sessions' numbers."""


# Made for every action of every episode, which a frozen dataclass would be slow at.
class Move(NamedTuple):
    """One action in a model's answer.

    Attributes:
        text: What the model wrote, as text.
        action: What is sent to the environment; ``None`` for nothing.
        problem: Why it is no legal action; ``None`` if it is one.
        tool: The tool that is called; empty where actions are texts, or no call could be read.
        arguments: Its arguments.
    """

    text: str
    action: Any = None
    problem: str | None = None
    tool: str = ""
    arguments: Mapping[str, Any] = MappingProxyType({})


class Outcome(NamedTuple):
    """What came of an action.

    Attributes:
        move: The action.
        observation: What the agent is shown now, as text.
        problem: Why it was no legal action, if it was none.
        result: What the environment answered; ``None`` if it answered nothing, or refused.
    """

    move: Move
    observation: str
    problem: str | None = None
    result: StepResult[Any] | None = None

    @property
    def text(self) -> str:
        """What a tool answers: what the action gave, or why it was not done."""
        return self.observation if self.result is not None or self.problem is None else self.problem


class ActionDialogue(Protocol):
    """How episodes become tokens, and tokens actions.

    Attributes:
        stop_ids: Tokens that end an answer.
        max_action_tokens: How many tokens an answer may have.
        pad_id: A token to pad with.
    """

    stop_ids: frozenset[int]
    max_action_tokens: int
    pad_id: int

    def shown(self, result: StepResult[Any]) -> str:
        """Return what the agent is shown of a result."""
        ...

    def problem(self, result: StepResult[Any]) -> str | None:
        """Return why an action gave no result, where the result says so."""
        ...

    def refusal(self, error: RequestRejectedError) -> str:
        """Return why the environment refused an action, for the agent."""
        ...

    def opening(self, prompt: Any, observation: str) -> list[int]:
        """Return the tokens of an episode's beginning, up to the first answer.

        Args:
            prompt: What the trainer's dataset says of the episode.
            observation: What the agent is shown first.
        """
        ...

    def read(self, written: Sequence[int]) -> list[Move]:
        """Return the actions in an answer, in their order; none if the agent is content with how things are."""
        ...

    def reply(self, written: Sequence[int], moves: Sequence[Move], outcomes: Sequence[Outcome]) -> list[int]:
        """Return the tokens from the end of an answer up to the next one.

        Args:
            written: The answer.
            moves: The actions that were read in it, at least one.
            outcomes: What came of each.
        """
        ...


@dataclass(frozen=True)
class Limits:
    """Where episodes are cut off.

    Attributes:
        max_turns: Actions.
        max_context: Tokens, from the prompt's first on.
        max_completion: Tokens after the prompt.
    """

    max_turns: int
    max_context: int
    max_completion: int = sys.maxsize

    def room(self, episode: Episode) -> int:
        """Return how many tokens an episode may still have."""
        return min(self.max_context - episode.length, self.max_completion - len(episode.completion_ids))


def play_episodes(
    episodes: Sequence[Episode],
    prompts: Sequence[Any],
    first: Sequence[StepResult[Any] | OpenEnvError],
    *,
    generator: Generator,
    dialogue: ActionDialogue,
    step: Stepper,
    limits: Limits,
) -> list[list[Outcome]]:
    """Play episodes that were reset, and write down what happens.

    Args:
        episodes: Their records, still empty.
        prompts: What the trainer's dataset says of each.
        first: What the reset of each came to.
        generator: Writes the answers; nothing was fed to it yet.
        dialogue: Turns observations and actions into tokens.
        step: Does actions; the sessions have the numbers of their episodes.
        limits: Where episodes are cut off.

    Returns:
        What came of each episode's actions, but for one that the environment failed at.

    Raises:
        ConfigurationError: The beginning of an episode leaves no room for an answer.
        OpenEnvError: The environment failed in more than half of the episodes.
    """
    rollout = _Rollout(episodes, generator, dialogue, step, limits)
    rollout.open(prompts, first)
    rollout.run()
    raise_if_most_failed(episodes)
    return rollout.outcomes


class _Rollout:
    """The state of one batch of episodes. Row ``i`` of the generator belongs to the episode ``playing[i]``."""

    def __init__(
        self,
        episodes: Sequence[Episode],
        generator: Generator,
        dialogue: ActionDialogue,
        step: Stepper,
        limits: Limits,
    ) -> None:
        self._episodes = episodes
        self._generator = generator
        self._dialogue = dialogue
        self._step = step
        self._limits = limits
        self._playing: list[int] = []
        self._shown = [""] * len(episodes)
        self.outcomes: list[list[Outcome]] = [[] for _ in episodes]

    def open(self, prompts: Sequence[Any], first: Sequence[StepResult[Any] | OpenEnvError]) -> None:
        for slot, (episode, prompt, result) in enumerate(zip(self._episodes, prompts, first, strict=True)):
            if isinstance(result, OpenEnvError):
                episode.error = result
            else:
                episode.done = result.done
                self._shown[slot] = self._dialogue.shown(result)
            episode.prompt_ids = self._dialogue.opening(prompt, self._shown[slot])
            self._check_room(episode)
            if episode.error is not None or episode.done:
                # A trainer takes no empty completion.
                episode.add_fed([self._dialogue.pad_id])
            else:
                self._playing.append(slot)
        if self._playing:
            self._generator.feed([self._episodes[slot].prompt_ids for slot in self._playing])

    def run(self) -> None:
        while self._playing:
            limits = [
                min(self._dialogue.max_action_tokens, self._limits.room(self._episodes[slot])) for slot in self._playing
            ]
            answers = self._generator.generate(limits, self._dialogue.stop_ids)
            moves = {
                slot: self._dialogue.read(answer.token_ids) for slot, answer in zip(self._playing, answers, strict=True)
            }
            for slot, answer in zip(self._playing, answers, strict=True):
                self._episodes[slot].add_written(answer.token_ids, answer.logprobs)
                self._episodes[slot].cut_answers += self._is_cut(answer)
            self._continue(answers, moves, self._act(moves))

    def _check_room(self, episode: Episode) -> None:
        if episode.length >= self._limits.max_context:
            raise ConfigurationError(
                f"The first observation with what goes before it has {episode.length} tokens (reset "
                f"with {episode.parameters}), and max_context is {self._limits.max_context}; set a larger max_context."
            )

    def _act(self, moves: Mapping[int, Sequence[Move]]) -> dict[int, list[Outcome]]:
        """Do the first action of every answer, then the second of those that have one, and so on."""
        outcomes: dict[int, list[Outcome]] = {slot: [] for slot in moves}
        for number in range(max(map(len, moves.values()))):
            now = {
                slot: answer[number]
                for slot, answer in moves.items()
                if number < len(answer) and (number == 0 or not self._is_over(slot))
            }
            results = self._step({slot: move.action for slot, move in now.items() if move.action is not None})
            for slot, move in now.items():
                outcomes[slot].append(self._note(slot, move, results.get(slot)))
        return outcomes

    def _note(self, slot: int, move: Move, result: StepResult[Any] | OpenEnvError | None) -> Outcome:
        """Write down what came of an action."""
        episode = self._episodes[slot]
        problem = move.problem
        if isinstance(result, StepResult):
            problem = problem or self._dialogue.problem(result)
        episode.add_turn(self._shown[slot], move.text, result, problem)
        if isinstance(result, StepResult):
            self._shown[slot] = self._dialogue.shown(result)
            outcome = Outcome(move, self._shown[slot], problem, result)
        elif isinstance(result, RequestRejectedError):
            outcome = Outcome(move, self._shown[slot], self._dialogue.refusal(result))
        else:
            outcome = Outcome(move, self._shown[slot], problem)
        if episode.error is None:
            self.outcomes[slot].append(outcome)
        return outcome

    def _continue(
        self,
        answers: Sequence[Completion],
        moves: Mapping[int, Sequence[Move]],
        outcomes: Mapping[int, Sequence[Outcome]],
    ) -> None:
        """Feed those that play on; drop the others."""
        rows, fed = [], []
        for row, (slot, answer) in enumerate(zip(self._playing, answers, strict=True)):
            if not moves[slot] or self._is_over(slot):
                self._note_last_turn(slot)
                continue
            reply = self._dialogue.reply(answer.token_ids, moves[slot], outcomes[slot])
            if len(reply) >= self._limits.room(self._episodes[slot]):
                self._episodes[slot].cut_by = "max_context"
                continue
            self._episodes[slot].add_fed(reply)
            rows.append(row)
            # The last token that the model wrote has not been fed yet.
            fed.append([answer.token_ids[-1], *reply])
        if rows and len(rows) < len(self._playing):
            self._generator.keep(rows)
        self._playing = [self._playing[row] for row in rows]
        if rows:
            self._generator.feed(fed)

    def _is_cut(self, answer: Completion) -> bool:
        """Whether an answer ended only because it may have no more tokens."""
        stop_ids = self._dialogue.stop_ids
        full = len(answer.token_ids) >= self._dialogue.max_action_tokens
        return bool(stop_ids) and full and answer.token_ids[-1] not in stop_ids

    def _note_last_turn(self, slot: int) -> None:
        episode = self._episodes[slot]
        if not episode.done and episode.error is None and len(episode.turns) >= self._limits.max_turns:
            episode.cut_by = "max_turns"

    def _is_over(self, slot: int) -> bool:
        return self._episodes[slot].is_over(self._limits.max_turns)
