"""Growth an episode: a slope with a margin, not one noisy number."""

import os
from pathlib import Path
from random import Random

import pytest

from openenv.validation.runtime.endurance import ProcessSize, growth


def sizes(values: list[int]) -> list[ProcessSize]:
    return [ProcessSize(number, value, value, 1, 0) for number, value in enumerate(values)]


def test_growth_is_that_of_the_later_samples() -> None:
    filled = [10 * min(number, 10) for number in range(60)]
    assert growth(sizes(filled), "files") == (0.0, 0.0)
    slope, error = growth(sizes([3 * number for number in range(60)]), "files")
    assert slope == pytest.approx(3.0)
    assert error == pytest.approx(0.0, abs=1e-6)


def test_noise_is_within_its_margin() -> None:
    random = Random(1)
    slope, error = growth(sizes([1000 + random.randint(-100, 100) for _ in range(200)]), "memory")
    assert abs(slope) < 3 * error


@pytest.mark.parametrize("count", [0, 1, 5])
def test_few_samples_prove_nothing(count: int) -> None:
    assert growth(sizes(list(range(count))), "files") == (0.0, 0.0)


def test_a_process_has_a_size_while_it_runs() -> None:
    own = ProcessSize.of(os.getpid(), 7)
    assert own is not None
    assert own.episodes == 7
    assert own.memory > 2**20
    with Path(os.devnull).open() as _:
        more = ProcessSize.of(os.getpid())
    assert more is not None
    assert more.files == own.files + 1
    assert ProcessSize.of(2**22) is None
