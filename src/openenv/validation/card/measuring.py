"""Measurements that only a card has: steps beside each other, CPU, and a learning curve."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from openenv.auto.package import EnvironmentPackage
from openenv.core.client.blocking import Attempt
from openenv.core.env_server.settings import environment_variables
from openenv.core.exceptions import OpenEnvError, ServerCapacityError
from openenv.core.providers.local_process import LocalProcessProvider
from openenv.validation.findings import Check, Finding, LeftOutError, Measurement, run_check
from openenv.validation.report import CheckResult
from openenv.validation.semantic.episodes import Clock, GradedEpisode
from openenv.validation.semantic.graded import GradedEnvironment
from openenv.validation.semantic.package import graded_package
from openenv.validation.statistical.learning import figures_of, imported_training
from openenv.validation.trials import Client, RunLimits

if TYPE_CHECKING:
    from openenv.validation.statistical.training import LearningCurve

SESSIONS = (1, 4, 16)
CURVE_S = 90.0
# Seconds that a training takes beside its steps, for imports, the server and the model.
_CURVE_START_S, _MIN_CURVE_S = 25.0, 10.0
_STEPS = 10_000
_LOAD_S, _MAX_EPISODES = 3.0, 20
_P99 = 0.99


@dataclass(frozen=True)
class CardTarget:
    """Environment that a card is made of.

    Attributes:
        package: Its package.
        limits: Limits of the run.
    """

    package: EnvironmentPackage
    limits: RunLimits


@dataclass
class _Replay:
    """Session that plays recorded episodes.

    Attributes:
        client: Its client.
        latencies: Seconds of each step.
        lines: Of each episode, seconds, CPU seconds and steps, under the names of a `Collection`.
    """

    client: Client
    latencies: list[float] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)

    def play(self, episodes: Sequence[GradedEpisode], seconds: float, count: int | None = None) -> None:
        """Play episodes again and again, until the time is over or there are so many."""
        clock = Clock(seconds)
        while not clock.is_over and (count is None or len(self.lines) < count):
            self._play_once(episodes[len(self.lines) % len(episodes)], clock)

    def _play_once(self, episode: GradedEpisode, clock: Clock) -> None:
        result = self.client.reset(**episode.task)
        begun, steps = time.perf_counter(), 0
        for action in episode.actions:
            if result.done or (steps and clock.is_over):
                break
            start = time.perf_counter()
            result = self.client.step(action)
            self.latencies.append(time.perf_counter() - start)
            steps += 1
        is_whole = result.done or steps == len(episode.actions)
        self.lines.append(
            {"took_s": time.perf_counter() - begun, "cpu_s": result.cpu_s, "steps": steps, "is_whole": is_whole}
        )


def find_in_speed(card: CardTarget) -> Iterator[Finding | Measurement]:
    """Measure the time and the CPU of steps, and what episodes use; it finds no faults."""
    measured = LocalProcessProvider(card.package.target, env_vars=environment_variables({"measure_cpu": True}))
    with graded_package(card.package, card.limits, measured) as graded:
        episodes = [each for each in graded.solved or graded.random if each.actions]
        if not episodes:
            raise LeftOutError("no episode could be played")
        graded.client.disconnect()
        alone = _Replay(graded.client)
        alone.play(episodes, card.limits.play_s, _MAX_EPISODES)
        yield Measurement({"player": "scripted" if graded.solved else "random", "episodes": alone.lines})
        yield Measurement({"p99_ms": {str(count): _p99(graded, episodes, count) for count in SESSIONS}})


def _p99(graded: GradedEnvironment, episodes: Sequence[GradedEpisode], count: int) -> float | str:
    """Return the 99th percentile of a step's milliseconds over so many sessions; a text where there are not so many."""
    assert graded.beside is not None
    graded.client.disconnect()
    replays: list[_Replay] = []
    try:
        for _ in range(count):
            replays.append(_Replay(graded.beside()))
            replays[-1].client.reset(**episodes[0].task)
        attempts = [Attempt(replay.play, episodes, _LOAD_S) for replay in replays]
        for attempt in attempts:
            attempt.join()
        errors = [attempt.error for attempt in attempts if attempt.error is not None]
    except ServerCapacityError:
        return f"its server holds {len(replays) - 1} sessions"
    finally:
        for replay in replays:
            replay.client.close()
    latencies = sorted(each for replay in replays for each in replay.latencies)
    if errors or not latencies:
        return f"a session failed: {errors[0]}" if errors else "no step was done in time"
    return round(1000 * latencies[int(_P99 * (len(latencies) - 1))], 3)


def find_in_curve(card: CardTarget) -> Iterator[Finding | Measurement]:
    """Train the tiny policy for a minute and a half, and keep the curve; it finds no faults."""
    until = card.limits.until
    left_s = CURVE_S if until is None else min(CURVE_S, until - time.monotonic() - _CURVE_START_S)
    if left_s < _MIN_CURVE_S:
        raise LeftOutError("no time was left for a training")
    training = imported_training()
    try:
        curve: LearningCurve = training.train_tiny(card.package.target, 1, _STEPS, left_s, to_the_end=True)
    except (OpenEnvError, NotImplementedError) as error:
        raise LeftOutError(f"the tiny policy can't be trained on it: {error}") from error
    if not curve.rewards:
        raise LeftOutError(f"no step of a training ended within {left_s:.0f} s")
    yield Measurement({**figures_of(curve), "rewards": curve.rewards, "seconds": curve.seconds})


CARD_CHECKS: tuple[Check[CardTarget], ...] = (
    Check("card.speed", "the time and the CPU of steps", find_in_speed),
    Check("card.curve", "the tiny policy's learning curve", find_in_curve),
)


def each_card_results(package: EnvironmentPackage, limits: RunLimits) -> Iterator[list[CheckResult]]:
    """Iterate over the measurements that a card has beside the checks, as soon as they are known."""
    for check in CARD_CHECKS:
        yield run_check(check, CardTarget(package, limits))
