"""What the time of a thread went to."""

from hypothesis import given
from hypothesis import strategies as st

from openenv.train.time_split import Activity, TimeSplit

ACTIVITIES: list[Activity] = ["generation", "environment", "training", "evaluation", "waiting"]
BLOCKS = st.recursive(
    st.tuples(st.sampled_from(ACTIVITIES), st.just(())),
    lambda inner: st.tuples(st.sampled_from(ACTIVITIES), st.lists(inner, max_size=3)),
)


class Clock:
    """A clock that moves by hand, and what went by in each activity."""

    def __init__(self) -> None:
        self.now = 0.0
        self.passed: dict[str, float] = {}

    def pass_in(self, activity: Activity, seconds: float) -> None:
        self.now += seconds
        self.passed[activity] = self.passed.get(activity, 0.0) + seconds


def play(split: TimeSplit, clock: Clock, block: tuple[Activity, list[object]]) -> None:
    activity, inner = block
    with split.measure(activity):
        clock.pass_in(activity, 1.0)
        for each in inner:
            play(split, clock, each)  # type: ignore[arg-type]
            clock.pass_in(activity, 2.0)


@given(st.lists(BLOCKS, max_size=4))
def test_every_second_counts_once_for_the_innermost_block(blocks: list[tuple[Activity, list[object]]]) -> None:
    clock = Clock()
    split = TimeSplit(lambda: clock.now)
    for block in blocks:
        play(split, clock, block)
        clock.pass_in("waiting", 4.0)
    drained = split.drain()
    assert {name: seconds for name, seconds in drained.items() if seconds} == clock.passed
    assert sum(split.drain().values()) == 0


def test_a_block_that_fails_ends_its_activity() -> None:
    clock = Clock()
    split = TimeSplit(lambda: clock.now)
    try:
        with split.measure("training"):
            clock.pass_in("training", 1.0)
            raise KeyError
    except KeyError:
        clock.pass_in("waiting", 3.0)
    assert split.drain() == {"waiting": 3.0, "training": 1.0}
