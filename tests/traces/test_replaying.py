"""Scripted episodes of the catalog, recorded and replayed."""

from pathlib import Path

import pytest
from tests.support.stored_episodes import entries as entries_of
from tests.support.traces import recorded

from openenv import find_environment, make
from openenv.traces import differences, replay

# Milliseconds that the player's code took.
MEASURED = {"code_feedback": ["observation.execution_time_ms"]}
CATALOG = (
    *("catch", "blackjack", "2048", "openspiel", "echo", "wordle", "sudoku", "sql", "textarena"),
    pytest.param("browsergym", marks=pytest.mark.needs("browser")),
    pytest.param("reasoning_gym", marks=pytest.mark.needs("reasoning-gym")),
    *(pytest.param(name, marks=pytest.mark.needs("sandbox")) for name in ("coding", "terminal", "code_feedback")),
)


@pytest.mark.parametrize("name", CATALOG)
def test_a_scripted_episode_replays_equal(name: str, tmp_path: Path) -> None:
    file = tmp_path / "traces.db"
    package = find_environment(name)
    player = package.make_player(3)
    assert player is not None
    with make(name, traces=file).sync() as client:
        result = client.reset(seed=3)
        for _ in range(20):
            if result.done:
                break
            result = client.step(player(result.observation))
    ((episode, entries),) = recorded(file)
    assert find_environment(episode.environment).name == name
    assert episode.steps == len(entries) - 1 > 0
    measured = MEASURED.get(name, [])
    compared = replay(entries, package.app(), measured)
    assert [(step.parts, step.left_out) for step in compared] == [((), measured)] * len(entries)


def test_what_is_measured_is_no_difference_where_it_is_left_out() -> None:
    first, second = (entries_of(2, {"took_ms": took, "said": "a"}) for took in (1.5, 2.5))
    assert {step.parts for step in differences(first, second)} == {("observation",)}
    assert {step.parts for step in differences(first, second, ["observation.took_ms"])} == {()}
