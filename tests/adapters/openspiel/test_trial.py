import pytest

from openenv.adapters.openspiel import trial
from openenv.adapters.openspiel.trial import try_game


def test_a_game_that_can_be_played_passes() -> None:
    assert try_game("go", '{"board_size": 5}') is None


def test_a_crash_is_a_refusal() -> None:
    refusal = try_game("connect_four", '{"rows": 0}')
    assert refusal is not None
    assert "crashed" in refusal


def test_openspiels_own_words_are_handed_on() -> None:
    refusal = try_game("go", '{"board_sizes": 5}')
    assert refusal is not None
    assert "Unknown parameter 'board_sizes'" in refusal


def test_a_game_that_is_too_large_is_refused() -> None:
    refusal = try_game("gomoku", '{"size": 100000}')
    assert refusal is not None
    assert "MemoryError" in refusal


def test_a_game_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_WALL_S", 0.01)
    assert try_game("catch", "{}") == "a trial game did not end within 0.01 s."
