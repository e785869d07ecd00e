"""What is shown while episodes are played."""

from io import StringIO
from itertools import count

from rich.console import Console

from openenv.core.client_types import StepResult
from openenv.core.exceptions import OpenEnvError
from openenv.train.dataset.play_progress import PlayProgress
from openenv.train.episodes.episode import Episode
from openenv.train.episodes.played_episode import PlayedEpisode, Usage


def played(reward: float, error: OpenEnvError | None = None, tokens: int | None = None) -> PlayedEpisode:
    episode = Episode(1, error=error)
    episode.add_turn("", "", StepResult({}, reward))
    return PlayedEpisode(0, episode, [], [], None if tokens is None else Usage(0, tokens))


def shown(*, terminal: bool, seconds_each: float, tokens: int | None = None) -> str:
    """What is written of four episodes, one of which was played before and one of which failed."""
    clock = count(0, seconds_each)
    file = StringIO()
    console = Console(file=file, force_terminal=terminal, width=100)
    with PlayProgress(console, 4, 1, clock=lambda: next(clock)) as progress:
        progress.add(played(1.0, tokens=tokens))
        progress.add(played(99.0, OpenEnvError("broken")))
        progress.add(played(0.0))
    return file.getvalue()


def test_a_terminal_has_a_bar() -> None:
    text = shown(terminal=True, seconds_each=0.1)
    assert "4/4 episodes" in text
    assert "mean reward +0.500" in text


def test_elsewhere_there_are_lines_with_the_time_left() -> None:
    assert shown(terminal=False, seconds_each=0.1) == "4/4 episodes  mean reward +0.500\n"
    lines = shown(terminal=False, seconds_each=11.0).splitlines()
    assert lines == [
        "2/4 episodes  mean reward +1.000  0:22 left",
        "3/4 episodes  mean reward +1.000  0:16 left",
        "4/4 episodes  mean reward +0.500",
    ]


def test_the_tokens_of_a_model_are_counted() -> None:
    line, *_ = shown(terminal=False, seconds_each=11.0, tokens=220).splitlines()
    assert line == "2/4 episodes  mean reward +1.000  20 tokens/s  0:44 left"


def test_nothing_is_known_of_failed_episodes() -> None:
    file = StringIO()
    with PlayProgress(Console(file=file), 1) as progress:
        progress.add(played(0.0, OpenEnvError("broken")))
    assert file.getvalue() == "1/1 episodes\n"
