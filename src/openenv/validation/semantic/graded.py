"""Environment whose grading is examined: its sessions, its tasks, its oracle's episodes, and its floor."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from openenv.adapters.text import observation_text
from openenv.core.exceptions import ConfigurationError, OpenEnvError
from openenv.train.agents.players import RandomToolPlayer
from openenv.train.tools.environment_tools import EnvironmentTools
from openenv.validation.semantic.episodes import (
    Action,
    Clock,
    GradedAnswer,
    GradedEpisode,
    Player,
    play_actions,
    play_player,
)
from openenv.validation.semantic.fields import FieldRole, OpenField, choices_of, open_fields
from openenv.validation.semantic.texts import WRONG
from openenv.validation.trials import Client, FaultError, RunLimits, action_fields, within

MAX_TASKS, MAX_SEEDS, PROBED_TASKS = 5, 30, 2
MAX_STEPS, FEW_STEPS, MAX_RANDOM_STEPS, MAX_RANDOM = 2000, 50, 200, 20
MAX_REPLAYED = 200
"""Length of an episode that is played again and again."""

# Shares of the time for all episodes.
_ORACLE, _RANDOM = 0.7, 0.2
# Reward that solves a task where neither a player nor a declaration says which does.
_USUAL_TOP = 1.0
_MIN_SEEDS = 2
_SPLITS = ("train", "test", "validation")


@dataclass(frozen=True)
class DeclaredRewards:
    """Declaration of an environment about its rewards.

    Attributes:
        highest: The highest total reward of an episode; ``None`` where that is not declared.
        margin: Share of the way from floor to top that an episode without work may not pass.
        tolerance: Difference from the top that an oracle may have.
        canaries: Actions of episodes that must stay at the floor, by name.
        artifacts: Artifacts from which alone episodes are graded, as ``Environment.GRADED_FROM`` names them; empty
            where nothing is promised.
    """

    highest: float | None = None
    margin: float = 0.1
    tolerance: float = 1e-6
    canaries: Mapping[str, Sequence[Action]] = field(default_factory=dict)
    artifacts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Hit:
    """Reward that an exploit earned.

    Attributes:
        text: The exploit, the action and the reward, for people.
        is_full: Whether the reward was the oracle's.
    """

    text: str
    is_full: bool


class GradedEnvironment:
    """Environment whose grading is examined, over a server's address.

    Args:
        client: A client whose actions and observations are dicts.
        make_player: Makes the scripted player of a seed; ``None`` where there is none.
        player_client: The client that the player's observations and actions are of; ``client`` if ``None``.
        declared: Declaration about the rewards.
        limits: Seconds that answers may take.
        elsewhere: Starts another server of the same environment in a separate process; ``None`` where that is not
            possible.
        code: Files and folders of the environment's code.
        beside: Makes a client of the same server, for another session; ``None`` where that is not possible.
        serve_here: Serves the same environment in this process, so that failures can be planted; ``None`` where that
            is not possible.

    Attributes:
        paid: Names of the checks that have found a field to pay for an exploit, by the field's key. More elaborate
            exploits are not sent there: their reward would have the same cause.
        faults: Faults of the environment with the action and the task that caused each first; set by ``play``.
        is_repeatable: Whether the same actions earn the same; set by ``verifier_determinism``.
        is_isolated: Whether it is graded from declared artifacts alone; set by ``isolated_grading``.
        played: Number of episodes that were played with given actions, exploits among them; set by ``play``.
        pays_nothing_done: Whether an episode without work is paid; then exploits prove nothing. Set by ``floor_gap``.
    """

    def __init__(
        self,
        client: Client,
        make_player: Callable[[int], Player] | None,
        *,
        player_client: Client | None = None,
        declared: DeclaredRewards | None = None,
        limits: RunLimits | None = None,
        elsewhere: Callable[[], Client] | None = None,
        beside: Callable[[], Client] | None = None,
        serve_here: Callable[[], Client] | None = None,
        code: Sequence[str] = (),
    ) -> None:
        self.client = client
        self.make_player = make_player
        self.declared = declared or DeclaredRewards()
        self.limits = limits or RunLimits()
        self.elsewhere = elsewhere
        self.beside = beside
        self.serve_here = serve_here
        self.code = tuple(code)
        self.paid: dict[tuple[str, str], str] = {}
        self.pays_nothing_done = False
        self.is_repeatable = True
        self.is_isolated = False
        self.played = 0
        self.faults: dict[str, tuple[Action, Mapping[str, Any]]] = {}
        self._player_client = player_client or client
        # The oracle's episodes, so that their ids stay theirs, and the calls that their actions are; set by ``calls``.
        self._calls: dict[int, tuple[GradedEpisode, list[tuple[str, dict[str, Any]]]]] = {}

    @cached_property
    def tools(self) -> EnvironmentTools:
        """Kinds of actions and tools of the first task."""
        return EnvironmentTools.of(self.client, self.tasks[0])

    @cached_property
    def player_tools(self) -> EnvironmentTools:
        """The same for the client of the scripted player."""
        if self._player_client is self.client:
            return self.tools
        self.client.disconnect()
        return EnvironmentTools.of(self._player_client, self.tasks[0])

    @cached_property
    def splits(self) -> dict[str, int]:
        """Number of tasks of each split; empty where the environment lists none."""
        counts: dict[str, int] = {}
        with suppress(OpenEnvError):
            for split in self.client.splits():
                with suppress(OpenEnvError):
                    counts[split] = self.client.num_tasks(split)
        return {split: count for split, count in counts.items() if count}

    @cached_property
    def tasks(self) -> list[Mapping[str, Any]]:
        """Arguments of the resets: a sample of the tasks where the environment lists them, else seeds."""
        if not self.splits:
            return [{"seed": seed} for seed in range(1, MAX_TASKS + 1)]
        return self.listed_tasks(MAX_TASKS)

    def listed_tasks(self, number: int) -> list[Mapping[str, Any]]:
        """Return the arguments of the resets of listed tasks of one split, evenly spaced, so many at most."""
        split = next((each for each in _SPLITS if each in self.splits), next(iter(self.splits)))
        count = self.splits[split]
        indices = sorted({each * count // number for each in range(number)})
        return [{"split": split, "index": index, "seed": 1} for index in indices]

    @property
    def has_tasks(self) -> bool:
        """Return whether the environment lists its tasks."""
        return bool(self.splits)

    @cached_property
    def oracle(self) -> list[GradedEpisode]:
        """Episode of the scripted player on each task; empty without a player."""
        if self.make_player is None:
            return []
        clock, episodes = Clock(self.limits.play_s * _ORACLE), list[GradedEpisode]()
        for task in self.tasks:
            ends = all(episode.is_over or episode.fault is not None for episode in episodes)
            if (episodes and clock.is_over) or (not self.has_tasks and _are_same(episodes)):
                break
            episodes.append(self.play_scripted(task, self.make_player, MAX_STEPS if ends else FEW_STEPS))
        # A game of chance may be lost five times.
        seed = len(self.tasks)
        while not self.has_tasks and not any(each.total > 0 for each in episodes) and seed < MAX_SEEDS:
            seed += 1
            if clock.is_over or episodes[-1].fault is not None:
                break
            episodes.append(self.play_scripted({"seed": seed}, self.make_player, MAX_STEPS))
        return episodes

    def play_scripted(
        self, task: Mapping[str, Any], make_player: Callable[[int], Player], max_steps: int, max_refusals: int = 0
    ) -> GradedEpisode:
        """Play a task with a player whose observations and actions are those of the scripted player's client."""
        try:
            player = within(self.limits.answer_s, make_player, int(task.get("seed", 1)))
        except (OpenEnvError, FaultError, TimeoutError) as error:  # all that `within` lets through
            return GradedEpisode(task, fault=f"the scripted player can't be made: {error}")
        own = self._player_client
        if own is not self.client:
            self.client.disconnect()
        episode = play_player(
            own, task, player, max_steps, self.limits.answer_s, self.limits.play_s * _ORACLE, max_refusals
        )
        if own is not self.client:
            own.disconnect()
        return episode

    @cached_property
    def solved(self) -> list[GradedEpisode]:
        """Those of the oracle's episodes that earned a reward, or all whole ones where none did."""
        whole = [episode for episode in self.oracle if episode.fault is None and episode.actions]
        return [episode for episode in whole if episode.total > 0] or whole

    @cached_property
    def probed(self) -> list[GradedEpisode]:
        """The first of the solved episodes that earned a reward, whose first observations differ.

        Without a player they have no actions, and the reward that solves their task is an assumption.
        """
        if self.make_player is None:
            return [self._assumed(task) for task in self.tasks[:PROBED_TASKS]]
        found: dict[str, GradedEpisode] = {}
        for episode in self.solved:
            if episode.total > 0:
                found.setdefault(self.prompt_of(episode), episode)
        return list(found.values())[:PROBED_TASKS]

    def _assumed(self, task: Mapping[str, Any]) -> GradedEpisode:
        top = GradedAnswer(reward=self.declared.highest or _USUAL_TOP, done=True)
        return GradedEpisode(task, first=self.play(task, []).first, answers=[top])

    def floor_of(self, episode: GradedEpisode) -> float:
        """Return the reward of the task of an oracle's episode for no work: 0, unless its rewards are costs."""
        if episode.total > 0:
            return 0.0
        return min((each.total for each in self.random), default=episode.total - 1.0)

    @cached_property
    def random(self) -> list[GradedEpisode]:
        """Episodes of random players, as many as there is time for."""
        clock, episodes = Clock(self.limits.play_s * _RANDOM), list[GradedEpisode]()
        for number in range(MAX_RANDOM):
            if clock.is_over:
                break
            player = RandomToolPlayer(self.tools, seed=number)
            task = self.tasks[number % len(self.tasks)]
            episodes.append(
                play_player(
                    self.client, task, player, MAX_RANDOM_STEPS, self.limits.answer_s, self.limits.play_s * _RANDOM
                )
            )
        return [episode for episode in episodes if episode.fault is None]

    def share(self, total: float, episode: GradedEpisode) -> float:
        """Return how far a total reward is on the way from the floor to the oracle's."""
        floor = self.floor_of(episode)
        return 0.0 if episode.total <= floor else (total - floor) / (episode.total - floor)

    @cached_property
    def used(self) -> dict[str, dict[str, Any]]:
        """Arguments of the oracle's last call of each tool, in its first solved episode."""
        return {} if not self.solved else dict(self.calls(self.solved[0]))

    def calls(self, episode: GradedEpisode) -> list[tuple[str, dict[str, Any]]]:
        """Return the calls that an episode's actions are."""
        known = self._calls.get(id(episode))
        if known is None or known[0] is not episode:
            known = self._calls[id(episode)] = (episode, list(self._read_calls(episode)))
        return known[1]

    def _read_calls(self, episode: GradedEpisode) -> Iterator[tuple[str, dict[str, Any]]]:
        for action in episode.actions:
            with suppress(ConfigurationError):
                yield self.tools.call(action)

    @cached_property
    def fields(self) -> list[OpenField]:
        """Open fields of the actions; those that the oracle wrote to last come first."""
        found = open_fields(list(self.tools.tools), self.used)
        order = list(reversed(self.used))
        return sorted(found, key=lambda each: order.index(each.tool) if each.tool in order else len(order))

    @cached_property
    def choices(self) -> dict[str, list[dict[str, Any]]]:
        """Arguments of the tools whose fields have few possible values, by the tool's name."""
        return choices_of(list(self.tools.tools))

    def answer_of(self, episode: GradedEpisode, field: OpenField) -> Any:
        """Return the value that the oracle wrote to a field last; ``None`` where it wrote none."""
        values = [call[field.name] for name, call in self.calls(episode) if name == field.tool and field.name in call]
        return values[-1] if values else None

    @cached_property
    def answer_field(self) -> OpenField | None:
        """The open field that the oracle wrote to last: where the answer of a task is handed in."""
        if self.make_player is None:
            return next(iter(self.fields), None)
        return next(
            (each for each in self.fields if each.tool in self.used and each.name in self.used[each.tool]), None
        )

    def closing(self, episode: GradedEpisode, field: OpenField | None) -> list[Action]:
        """Return the oracle's last action where that is of another tool than a field, as one that submits the work.

        An answer in it is a wrong one; without a field, an action with an answer is left out.
        """
        calls = self.calls(episode)
        if not calls:
            names = [name for name, choices in self.choices.items() if choices == [{}]]
            return [action_fields(self.tools.action(names[-1], {}))] if names else []
        if field is not None and calls[-1][0] == field.tool:
            return []
        written = self.main_field(calls[-1][0])
        if written is None:
            return [episode.actions[-1]]
        if field is None or written.role in (FieldRole.NUMBER, FieldRole.VALUES):
            return []
        return [self.action(written, WRONG, episode)]

    def main_field(self, tool: str) -> OpenField | None:
        """Return the open field of a tool that the oracle wrote the longest value to."""
        found = [each for each in self.fields if each.tool == tool]
        return max(found, key=lambda each: len(str(self.used.get(tool, {}).get(each.name, ""))), default=None)

    def action(
        self, field: OpenField, value: Any, episode: GradedEpisode, set_to: Mapping[str, Any] = MappingProxyType({})
    ) -> Action:
        """Make the action with a value in a field, and the oracle's values in others, but no answer of the oracle's.

        Args:
            field: The field.
            value: Its value.
            episode: The oracle's episode.
            set_to: Values of other fields.

        Raises:
            OpenEnvError: The other values do not fit.
        """
        used = [call for name, call in self.calls(episode) if name == field.tool]
        others = {**field.others, **(used[-1] if used else {})}
        main = self.main_field(field.tool)
        if main is not None and main.name != field.name:
            others[main.name] = WRONG if isinstance(others.get(main.name, WRONG), str) else None
        return action_fields(self.tools.action(field.tool, {**others, **set_to, field.name: value}))

    def play(self, task: Mapping[str, Any], actions: Sequence[Action], *, past_end: bool = False) -> GradedEpisode:
        """Play actions; after a fault, a new session is opened."""
        self.played += 1
        episode = play_actions(self.client, task, actions, past_end=past_end)
        if episode.fault is not None:
            self.faults.setdefault(episode.fault, (episode.actions[-1] if episode.actions else {}, task))
            self.client.disconnect()
        return episode

    def prompt_of(self, episode: GradedEpisode) -> str:
        """Return the text of a task's first observation."""
        return observation_text(episode.first.observation)


def _are_same(episodes: Sequence[GradedEpisode]) -> bool:
    """Return whether two seeds made no difference."""
    if len(episodes) < _MIN_SEEDS:
        return False
    first, second = episodes[:_MIN_SEEDS]
    return (first.first.observation, first.actions, first.answers) == (
        second.first.observation,
        second.actions,
        second.answers,
    )
