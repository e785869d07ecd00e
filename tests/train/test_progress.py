"""What is shown while any work with equal parts goes on."""

import threading
from io import StringIO
from itertools import count

import pytest
from rich.console import Console

from openenv.train.progress import WorkProgress


def lines(seconds_each: float, advances: int, **options: int) -> list[str]:
    """Return the plain lines of a work of four parts, with this much time from one look at the clock to the next."""
    clock = count(0, seconds_each)
    file = StringIO()
    with WorkProgress(Console(file=file), "parts", 4, clock=lambda: next(clock), **options) as progress:  # type: ignore[arg-type]
        for done in range(1, advances + 1):
            progress.advance(done, "", f"news {done}")
    return file.getvalue().splitlines()


def test_plain_lines_come_now_and_then_and_at_the_end() -> None:
    assert lines(0.1, 4) == ["4/4 parts  news 4"]
    assert lines(0.1, 3) == []
    # Two looks at each advance: one for the time left, one for the line.
    assert lines(6.0, 4) == [
        "1/4 parts  news 1  0:18 left",
        "2/4 parts  news 2  0:18 left",
        "3/4 parts  news 3  0:10 left",
        "4/4 parts  news 4",
    ]
    assert lines(6.0, 4, recent=1)[-2] == "3/4 parts  news 3  0:12 left"


def test_a_work_whose_result_follows_has_no_last_line() -> None:
    assert lines(0.1, 4, has_last_line=False) == []


def test_a_terminal_has_a_line_for_each_of_the_news() -> None:
    file = StringIO()
    console = Console(file=file, force_terminal=True, width=60)
    with WorkProgress(console, "parts", 2) as progress:
        progress.advance(2, "one", "two")
    first, second = (line for line in file.getvalue().splitlines() if "one" in line or "two" in line)
    assert "2/2 parts" in first
    assert "one" in first
    assert "two" in second


class Lines(StringIO):
    """A file that says when something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        self.written.set()
        return count

    def wait_for(self, text: str) -> None:
        self.written.clear()
        while text not in self.getvalue():
            assert self.written.wait(60)
            self.written.clear()


def test_lines_come_while_no_part_ends() -> None:
    file = Lines()
    with WorkProgress(Console(file=file), "parts", 2, heading="digging", line_every_s=0.02):
        assert file.written.wait(60)
    assert file.getvalue().startswith("digging  0/2 parts  after 0 s\n")
    assert not [thread for thread in threading.enumerate() if thread.name == "work-progress"]


def test_the_time_left_goes_down_while_no_part_ends() -> None:
    now = [0.0]
    file = Lines()
    with WorkProgress(Console(file=file), "parts", 2, clock=lambda: now[0], line_every_s=0.02) as progress:
        now[0] = 100.0
        progress.advance(1, "news")
        assert "1/2 parts  news  1:40 left\n" in file.getvalue()
        now[0] = 150.0
        file.wait_for("1/2 parts  news  0:50 left\n")
        now[0] = 250.0
        file.wait_for("1/2 parts  news  after 250 s\n")


@pytest.mark.parametrize("total", [0, 3])
def test_nothing_is_written_where_nothing_is_left_to_do(total: int) -> None:
    file = StringIO()
    with WorkProgress(Console(file=file), "parts", total, total, line_every_s=0.001):
        pass
    assert file.getvalue() == ""
