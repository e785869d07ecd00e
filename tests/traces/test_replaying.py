"""Scripted episodes of the catalog, recorded and replayed."""

from pathlib import Path

import pytest
from tests.support.traces import recorded

from openenv import find_environment, make
from openenv.traces import replay

# Not code_feedback, whose observations have the milliseconds that the code took.
CATALOG = (
    *("catch", "blackjack", "2048", "openspiel", "echo", "wordle", "sudoku", "sql", "textarena"),
    pytest.param("browsergym", marks=pytest.mark.needs("browser")),
    pytest.param("reasoning_gym", marks=pytest.mark.needs("reasoning-gym")),
    *(pytest.param(name, marks=pytest.mark.needs("sandbox")) for name in ("coding", "terminal")),
)


@pytest.mark.parametrize("name", CATALOG)
def test_a_scripted_episode_replays_equal(name: str, tmp_path: Path) -> None:
    file = tmp_path / "traces.db"
    package = find_environment(name)
    player = package.make_player(3)
    assert player is not None
    with make(name, env_vars={"OPENENV_TRACES": str(file)}).sync() as client:
        result = client.reset(seed=3)
        for _ in range(20):
            if result.done:
                break
            result = client.step(player(result.observation))
    ((episode, entries),) = recorded(file)
    assert find_environment(episode.environment).name == name
    assert episode.steps == len(entries) - 1 > 0
    assert [step.parts for step in replay(entries, package.app())] == [()] * len(entries)
