"""What is shown while episodes are played."""

import threading
from io import StringIO
from itertools import count

import pytest
from rich.console import Console

from openenv.core.client_types import StepResult
from openenv.core.exceptions import OpenEnvError
from openenv.train.dataset.play_progress import PlayProgress
from openenv.train.episodes.episode import Episode
from openenv.train.episodes.played_episode import PlayedEpisode


def played(reward: float, error: OpenEnvError | None = None) -> PlayedEpisode:
    episode = Episode(1, error=error)
    episode.add_turn("", "", StepResult({}, reward))
    return PlayedEpisode(0, episode, [], [])


def shown(*, terminal: bool, seconds_each: float) -> str:
    """What is written of four episodes, one of which was played before and one of which failed."""
    clock = count(0, seconds_each)
    file = StringIO()
    console = Console(file=file, force_terminal=terminal, width=100)
    with PlayProgress(console, 4, 1, clock=lambda: next(clock)) as progress:
        progress.advance(played(1.0))
        progress.advance(played(99.0, OpenEnvError("broken")))
        progress.advance(played(0.0))
    return file.getvalue()


def test_a_terminal_has_a_bar() -> None:
    text = shown(terminal=True, seconds_each=0.1)
    assert "4/4" in text
    assert "mean reward +0.500" in text


def test_elsewhere_there_are_lines_now_and_then() -> None:
    assert shown(terminal=False, seconds_each=0.1) == "4/4 episodes  mean reward +0.500\n"
    lines = shown(terminal=False, seconds_each=11.0).splitlines()
    assert lines == [
        "2/4 episodes  mean reward +1.000  after 11 s",
        "3/4 episodes  mean reward +1.000  after 22 s",
        "4/4 episodes  mean reward +0.500",
    ]


def test_nothing_is_known_of_failed_episodes() -> None:
    file = StringIO()
    with PlayProgress(Console(file=file), 1) as progress:
        progress.advance(played(0.0, OpenEnvError("broken")))
    assert file.getvalue() == "1/1 episodes\n"


class Lines(StringIO):
    """A file that says when something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        self.written.set()
        return count


def test_lines_come_while_no_episode_ends() -> None:
    file = Lines()
    with PlayProgress(Console(file=file), 2, line_every_s=0.02):
        assert file.written.wait(60)
    assert file.getvalue().startswith("0/2 episodes  after 0 s\n")
    assert not [thread for thread in threading.enumerate() if thread.name == "play-progress"]


@pytest.mark.parametrize("total", [0, 3])
def test_nothing_is_written_where_nothing_is_left_to_play(total: int) -> None:
    file = StringIO()
    with PlayProgress(Console(file=file), total, total, line_every_s=0.001):
        pass
    assert file.getvalue() == ""
