"""The table of ``benchmarks.demo_llm``; its trainings are too long for a test."""

from benchmarks.demo_llm import table


def test_means_have_intervals_over_the_seeds() -> None:
    rows = [[0.0, after, 0.1, 0.9, 7.0] for after in (0.8, 0.9, 1.0)]
    heading, _, *seeds, mean = table(rows).splitlines()
    assert heading.startswith("| seed | greedy before | after |")
    assert seeds[0] == "| 1 | 0.000 | 0.800 | 0.100 | 0.900 | 7.0 |"
    assert (
        mean
        == "| mean | 0.000 [0.000, 0.000] | 0.900 [0.652, 1.000] | 0.100 [0.100, 0.100] | 0.900 [0.900, 0.900] | 7.0 |"
    )
