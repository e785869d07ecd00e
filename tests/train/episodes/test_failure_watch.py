"""End of what plays episodes that mostly fail."""

from collections.abc import Sequence

import pytest

from openenv.core.exceptions import EnvironmentFailedError, ServerExecutionError, ServerTimeoutError
from openenv.train.episodes.episode import Episode
from openenv.train.episodes.failure_watch import FailureWatch


def episodes(failed: Sequence[bool]) -> list[Episode]:
    played = [Episode(seed) for seed in range(len(failed))]
    for number, (episode, has_failed) in enumerate(zip(played, failed, strict=True)):
        if has_failed:
            error = ServerTimeoutError("slow", "TIMEOUT") if number % 4 == 0 else ServerExecutionError("kaboom", "X")
            episode.fail(error)
    return played


@pytest.mark.parametrize("failed", [[True] * 6, [True, False] * 40, [False] * 40 + [True] * 8, [True, True, False] * 6])
def test_failures_that_may_be_chance_end_nothing(failed: list[bool]) -> None:
    watch = FailureWatch()
    for episode in episodes(failed):
        watch.add([episode])


@pytest.mark.parametrize("failed", [[True] * 7, [False] * 100 + [True] * 24, [True, True, True, False] * 8])
def test_more_than_half_beyond_chance_ends_it_with_the_kinds_and_the_last_failure(failed: list[bool]) -> None:
    watch = FailureWatch()
    with pytest.raises(EnvironmentFailedError, match=r"of the last \d+ episodes failed.* times the environment raised"):
        watch.add(episodes(failed))


def test_one_bad_batch_among_good_ones_ends_nothing() -> None:
    watch = FailureWatch()
    for has_failed in (False, False, True, False):
        watch.add(episodes([has_failed] * 8))
