"""Separation of players: the scripted one above a weak one, that above a random one, and all tasks within reach."""

from collections.abc import Iterator

from openenv.records.evaluation import Estimate
from openenv.train.evaluation.intervals import share_estimate
from openenv.validation.findings import Check, Finding, LeftOutError, Measurement, fail, warn
from openenv.validation.semantic.texts import task_name
from openenv.validation.statistical.figures import in_json
from openenv.validation.statistical.sample import ORACLE, PLAYERS, RANDOM, WEAK, PlayerSample, SampledTask

_SMALL = 1e-9
_NEAR, _SATURATED = 0.05, 0.5
_SHOWN_TASKS = 5
_UNREACHED = "Correct the task's answer, its grading or the player, until some player earns more there."
_SEPARATE = "Let the reward rise with what was done of the task, and fall with mistakes."
_HARDER = "Leave out the tasks that random actions solve, or make them harder: nothing is learned from them."


def find_in_reachability(sample: PlayerSample) -> Iterator[Finding | Measurement]:
    """Find tasks on which no player gets above the floor."""
    floor = min(reward for task in sample.tasks for player in PLAYERS for reward in task.rewards(player))
    missed = [task for task in sample.tasks if _best(task) <= floor + _SMALL]
    reached = [float(task not in missed) for task in sample.tasks]
    share = share_estimate(reached, len(reached))
    yield Measurement({"tasks": len(reached), "floor": round(floor, 4), "reached": in_json(share)})
    if len(missed) == len(reached):
        yield fail(f"every player earns {floor:g} on each of {len(reached)} tasks", _UNREACHED)
    elif missed and sample.graded.has_tasks:  # a game may be lost with some seeds
        named = ", ".join(task_name(task.task) for task in missed[:_SHOWN_TASKS])
        yield fail(
            f"no player gets above {floor:g} on {len(missed)} of {len(reached)} tasks: {named}"
            f"{' and others' if len(missed) > _SHOWN_TASKS else ''}",
            _UNREACHED,
        )


def _best(task: SampledTask) -> float:
    return max(reward for player in PLAYERS for reward in task.rewards(player))


def find_in_separation(sample: PlayerSample) -> Iterator[Finding | Measurement]:
    """Find players that earn as much as a better one; tasks are added until the intervals exclude 0."""
    while not _is_decided(sample) and sample.extend():
        pass
    steps = {(RANDOM, ORACLE): "", (RANDOM, WEAK): "", (WEAK, ORACLE): ""}
    differences = {pair: sample.difference(pair[1], pair[0]) for pair in steps}
    yield Measurement(
        {
            "tasks": len(sample.tasks),
            **{player: in_json(sample.estimate(player)) for player in PLAYERS},
            "weak_share": sample.weak_share,
            **{f"{better}_over_{worse}": in_json(each) for (worse, better), each in differences.items()},
        }
    )
    if not _is_above(differences[RANDOM, ORACLE]):
        yield from _unseparated(sample, RANDOM, ORACLE, differences[RANDOM, ORACLE])
        return
    for worse, better in ((RANDOM, WEAK), (WEAK, ORACLE)):
        if not _is_above(differences[worse, better]):
            yield from _unseparated(sample, worse, better, differences[worse, better])


def _is_above(difference: Estimate) -> bool:
    return difference.low is not None and difference.low > _SMALL


def _is_below(difference: Estimate) -> bool:
    return difference.high is not None and difference.high < -_SMALL


def _is_decided(sample: PlayerSample) -> bool:
    """Return whether each interval lies above 0, or so near to it or below that more tasks change nothing."""
    near = _NEAR * max(sample.gap, 0.0) + _SMALL
    differences = (
        sample.difference(better, worse) for better, worse in ((ORACLE, RANDOM), (WEAK, RANDOM), (ORACLE, WEAK))
    )
    return all(_is_above(each) or (each.high is not None and each.high <= near) for each in differences)


def _unseparated(sample: PlayerSample, worse: str, better: str, difference: Estimate) -> Iterator[Finding]:
    names = {RANDOM: "random actions", WEAK: f"a player with {sample.weak_share:.0%} of random actions"}
    names[ORACLE] = "the scripted player"
    earned = ", ".join(f"{names[player]} {sample.estimate(player).text()}" for player in (worse, better))
    text = f"{earned}: a difference of {difference.text('+')} over {len(sample.tasks)} tasks"
    is_wrong = _is_below(difference) or (worse == RANDOM and better == ORACLE and sample.gap <= _SMALL)
    yield fail(text, _SEPARATE) if is_wrong else warn(text, _SEPARATE)


def find_in_headroom(sample: PlayerSample) -> Iterator[Finding | Measurement]:
    """Find that random actions earn what the scripted player does on most tasks, so that nothing is left to learn."""
    near = _NEAR * max(sample.gap, 0.0) + _SMALL
    low = min(reward for task in sample.first_tasks for reward in task.rewards(RANDOM))
    won = [task for task in sample.first_tasks if task.mean(ORACLE) > low + near]
    if not won:
        raise LeftOutError("the scripted player earns more than the worst random episode on no task")
    saturated = [float(task.mean(RANDOM) >= task.mean(ORACLE) - near) for task in won]
    share = share_estimate(saturated, len(saturated))
    yield Measurement({"tasks": len(won), "saturated": in_json(share), "gap": round(sample.gap, 4)})
    if share.low is not None and share.low > _SATURATED:
        yield warn(
            f"random actions earn what the scripted player does on {sum(saturated):g} of {len(won)} tasks", _HARDER
        )


SEPARATION_CHECKS: tuple[Check[PlayerSample], ...] = (
    Check("statistical.reward_reachability", "some player gets above the floor on each task", find_in_reachability),
    Check("statistical.difficulty_separation", "random < weak < scripted, with 95% intervals", find_in_separation),
    Check(
        "statistical.headroom",
        "random actions leave something to learn on most tasks",
        find_in_headroom,
        "statistical.headroom",
    ),
)
