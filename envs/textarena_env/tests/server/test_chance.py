import random
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from threading import Barrier
from typing import Any

import numpy

from textarena_env.server.chance import Chance, draw_from_episodes


def module() -> dict[str, Any]:
    """The names of a module that imported both, one of them under another name."""
    names: dict[str, Any] = {"random": random, "np": numpy, "other": 5}
    draw_from_episodes(names)
    return names


def draws(names: dict[str, Any]) -> list[Any]:
    chance, np = names["random"], names["np"]
    return [
        chance.random(),
        chance.choice("abcdef"),
        chance.sample(range(1000), 3),
        chance.Random().random(),
        np.random.randint(0, 1000),
        np.random.default_rng().integers(1000),
    ]


def test_a_seed_determines_all_that_is_drawn() -> None:
    names = module()
    with Chance(1).in_use():
        first = draws(names)
    with Chance(1).in_use():
        again = draws(names)
    with Chance(2).in_use():
        other = draws(names)
    assert first == again
    assert all(one != two for one, two in zip(first, other, strict=True))


def test_a_seed_that_a_game_gives_itself_counts() -> None:
    names = module()
    with Chance(1).in_use():
        assert names["random"].Random(5).random() == random.Random(5).random()
        assert names["np"].random.default_rng(5).random() == numpy.random.default_rng(5).random()
        names["random"].seed(5)
        assert names["random"].random() == random.Random(5).random()


def test_the_process_s_own_generators_are_left_alone() -> None:
    python, numbers = random.getstate(), numpy.random.get_state()[1].tolist()  # type: ignore[index]  # a tuple
    with Chance(1).in_use():
        draws(module())
        module()["random"].seed(5)
    assert random.getstate() == python
    assert numpy.random.get_state()[1].tolist() == numbers  # type: ignore[index]  # a tuple


def test_outside_an_episode_they_are_the_modules_themselves() -> None:
    names = module()
    random.seed(7)
    expected = random.random()
    random.seed(7)
    assert names["random"].random() == expected
    assert names["random"].Random is not random.Random
    assert isinstance(names["random"].Random(), random.Random)
    assert names["np"].array([1]).sum() == 1
    assert names["other"] == 5


def test_threads_draw_each_from_their_own_episode() -> None:
    names, together = module(), Barrier(16)

    def play(seed: int) -> list[list[Any]]:
        chance, drawn = Chance(seed), []
        for _ in range(50):
            together.wait()
            with chance.in_use():
                drawn.append(draws(names))
        return drawn

    with ThreadPoolExecutor(16) as threads:
        at_once = list(threads.map(play, range(16)))
    together = Barrier(1)
    assert at_once == [play(seed) for seed in range(16)]


def test_a_copy_goes_on_alike_and_apart() -> None:
    names, chance = module(), Chance(1)
    with chance.in_use():
        draws(names)
    copy = deepcopy(chance)
    with chance.in_use():
        expected = draws(names)
    with copy.in_use():
        assert draws(names) == expected
