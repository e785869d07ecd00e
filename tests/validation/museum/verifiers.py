"""Verifiers whose verdict depends on more than the episode, or that book their failures as rewards."""

import itertools
import json
import os
import random
import socket
import time
from pathlib import Path
from typing import ClassVar

from tests.validation.museum.exhibit import Pairs, Player, Questions, Shown, Sums, Text, exhibit, same

_CALLS = itertools.count()
_REFERENCE = Path(__file__).with_name("reference.json")


@exhibit("verifier_determinism", evidence="the same actions earn")
class NoisyJudge(Questions):
    """Judges sampled at a temperature above 0 (CAR-bench's user and judge; ABC I.c.1): one answer, several scores."""

    def grade(self, answer: str, gold: str) -> float:
        noise = 0.0 if self.sound else random.random() * 0.02
        return max(0.0, super().grade(answer, gold) - noise)


@exhibit("verifier_determinism", evidence="the same actions earn")
class FlakyTests(Questions):
    """Flaky tests of SWE-bench-like sets (ABC I.f.3): now and then a right patch fails."""

    def grade(self, answer: str, gold: str) -> float:
        fails = not self.sound and next(_CALLS) % 7 == 6
        return 0.99 * super().grade(answer, gold) if fails else super().grade(answer, gold)


@exhibit("verifier_determinism", evidence="the same actions earn")
class RewardByTheClock(Questions):
    """Rewards by measured time (KernelBench, Sakana): the same answer earns another reward on a busy machine."""

    def grade(self, answer: str, gold: str) -> float:
        speed = 1.0 if self.sound else 0.95 + (time.perf_counter_ns() % 1000) / 20_000
        return super().grade(answer, gold) * speed


@exhibit("verifier_determinism", evidence="the same actions earn")
class RewardOfTheLastEpisode(Questions):
    """Rewards normalised by the running mean of earlier episodes: a verdict depends on those before it."""

    mean: ClassVar[float] = 0.0

    def grade(self, answer: str, gold: str) -> float:
        right = super().grade(answer, gold)
        if self.sound:
            return right
        RewardOfTheLastEpisode.mean = 0.9 * RewardOfTheLastEpisode.mean + 0.1 * right
        return right * (1.0 + 0.01 * RewardOfTheLastEpisode.mean)


@exhibit("replayability", evidence="does not replay")
class SeedWithoutEffect(Questions):
    """OpenEnv's textarena_env (issue 1102): reset accepts a seed, and never uses it."""

    def first(self) -> Shown:
        shuffled = random.Random(1 if self.sound else None).random()
        return Shown(text=f"{self.question}\n(variant {shuffled})")


@exhibit("replayability", evidence="does not replay")
class TimeInTheObservation(Questions):
    """Observations with the time of day, which no replay can show again (RFC 008's reserved check; SWE-agent logs)."""

    def first(self) -> Shown:
        note = "" if self.sound else f"\nIt is {time.time_ns()}."
        return Shown(text=f"{self.question}{note}")


@exhibit("replayability", evidence="does not replay")
class StateIsKept(Questions):
    """Environments that keep state over a reset (ABC II.4): an episode looks different after another one."""

    def __init__(self) -> None:
        super().__init__()
        self.episodes = 0

    def first(self) -> Shown:
        self.episodes += not self.sound
        return Shown(text=f"{self.question}\nEpisode {self.episodes}")


@exhibit("false_zero", evidence="a file that can't be read")
class MissingFileIsZero(Questions):
    """A reference that can't be read counts as a wrong answer (NeMo Gym, issue 2552: 1,172 false zeros)."""

    def grade(self, answer: str, gold: str) -> float:
        try:
            with Path(__file__).open() as reference:
                reference.readline()
        except OSError:
            if self.sound:
                raise
            return 0.0
        return super().grade(answer, gold)


class Remote(Questions):
    """A grader on another machine, which this one would resolve by name."""

    def ask(self) -> None:
        host = os.environ.get("GRADER_HOST", "localhost.localdomain")
        socket.getaddrinfo(host, 80)

    def grade(self, answer: str, gold: str) -> float:
        return super().grade(answer, gold)


@exhibit("verifier_portability", evidence="another working folder")
class FileOfTheWorkingFolder(Questions):
    """References read by a path relative to the working folder: elsewhere each answer is wrong or an error."""

    def grade(self, answer: str, gold: str) -> float:
        path = Path("pyproject.toml") if not self.sound else Path(__file__)
        return super().grade(answer, gold) if path.exists() else 0.0


@exhibit("verifier_portability", evidence="time zone")
class LocalTime(Sums):
    """Dates graded in local time (WebArena's and calendar tasks): in another zone the day is another one."""

    questions: ClassVar[Pairs] = (("Which day of January 1970 was second 43200 of the epoch?", "1"),)

    def grade(self, answer: str, gold: str) -> float:
        moment = time.gmtime(43_200) if self.sound else time.localtime(43_200)
        return float(same(answer, str(moment.tm_mday)))


@exhibit("verifier_portability", evidence="home folder")
class FileInTheHomeFolder(Questions):
    """Verifiers that read a cache or a token from the author's home folder."""

    def grade(self, answer: str, gold: str) -> float:
        home = Path(os.environ["HOME"]) if not self.sound else Path(__file__).parent
        return super().grade(answer, gold) if home.exists() else 0.0


@exhibit("verdict_form", evidence="error instead of a verdict")
class WrongAnswerRaises(Questions):
    """BigCodeBench- and AgentBench-like graders whose parser raises: the wrong answer is an error, and is left out."""

    def grade(self, answer: str, gold: str) -> float:
        if answer.startswith("{") and not self.sound:
            return float(json.loads(answer)["answer"]["value"] == gold)
        return super().grade(answer, gold)

    def step(self, action: Text) -> Shown:
        try:
            return super().step(action)
        except (ValueError, TypeError, KeyError) as error:
            raise RuntimeError(f"the grader failed: {error}") from error


@exhibit("verdict_form", evidence="without any reward")
class NoVerdict(Questions):
    """Episodes that end without a reward, which trainers read as 0 (NeMo RL, issue 2207; verifiers, issue 1416)."""

    def step(self, action: Text) -> Shown:
        shown = super().step(action)
        return shown if self.sound else shown.model_copy(update={"reward": None})


@exhibit("oracle_max", evidence="the scripted player gets 0 of 1")
class WrongReference(Questions):
    """WebArena (issues 25, 246): references of some tasks are wrong, so that the right answer fails."""

    splits: ClassVar[tuple[str, ...]] = ("train",)

    def list_splits(self) -> list[str]:
        return ["train"]

    def num_tasks(self, split: str) -> int:
        return len(self.questions)

    def get_task(self, split: str, index: int) -> dict[str, int]:
        return {"index": index}

    def list_tasks(self, split: str) -> list[dict[str, int]]:
        return [{"index": index} for index in range(len(self.questions))]

    def reset(self, seed: int | None = None, index: int | None = None) -> Shown:
        return super().reset(seed if index is None else index)

    def grade(self, answer: str, gold: str) -> float:
        gold = "Rhine" if self.number == 2 and not self.sound else gold
        return super().grade(answer, gold)


@exhibit("oracle_max", evidence="no more than random")
class ContradictingTests(Questions):
    """ImpossibleBench (2510.20270): the tests contradict the text, so that no honest answer passes."""

    def grade(self, answer: str, gold: str) -> float:
        return super().grade(answer, gold if self.sound else f"not {gold}, but something else")


@exhibit("oracle_max", evidence="episode failed")
class OracleCannotFinish(Questions):
    """Harbor and harness-bench (issue 9): the reference solution does not run in the environment that is shipped."""

    @classmethod
    def make_player(cls, seed: int) -> Player:
        return super().make_player(seed)

    def step(self, action: Text) -> Shown:
        if not self.sound and action.answer == "Tagus":
            raise RuntimeError("a tool of the solution is not installed")
        return super().step(action)
