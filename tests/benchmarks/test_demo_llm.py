"""The tables of ``benchmarks.demo_llm``; its trainings are too long for a test."""

import pytest
from benchmarks.demo_llm import EXAMPLES, table

from openenv.records.scores import AFTER, BEFORE, WARMED_UP, Score, sampled
from openenv.train.settings.config import load_config

ONE_WORD = EXAMPLES["one_word"].columns


def test_means_have_intervals_over_the_seeds() -> None:
    rows = [[0.0, after, 0.1, 0.9, 7.0] for after in (0.8, 0.9, 1.0)]
    heading, _, *seeds, mean = table(ONE_WORD, rows).splitlines()
    assert heading == "| seed | greedy before | greedy after | sampled before | sampled after | minutes |"
    assert seeds[0] == "| 1 | 0.000 | 0.800 | 0.100 | 0.900 | 7.0 |"
    assert (
        mean
        == "| mean | 0.000 [0.000, 0.000] | 0.900 [0.652, 1.000] | 0.100 [0.100, 0.100] | 0.900 [0.900, 0.900] | 7.0 |"
    )


def test_cpu_time_is_shown_where_every_row_has_it() -> None:
    new, old = [0.0, 0.8, 0.1, 0.9, 7.0, 6.5], [0.0, 0.8, 0.1, 0.9, 7.0]
    assert table(ONE_WORD, [new, new]).splitlines()[-1].endswith("| 7.0 | 6.5 |")
    assert table(ONE_WORD, [new, old]).splitlines()[0].endswith("| minutes |")
    assert table(ONE_WORD, [new, old]).splitlines()[-1].endswith("| 7.0 |")


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_has_a_figure_in_each_column(name: str) -> None:
    def score(mean_reward: float) -> Score:
        return Score(mean_reward, 0.1, 2.0, 0.0, 8, None, [], legal_answers=mean_reward + 0.5)

    stages = {BEFORE: 0.0, WARMED_UP: 0.2, AFTER: 0.4}
    scores = {name: score(mean) for stage, mean in stages.items() for name in (stage, sampled(stage))}
    example = EXAMPLES[name]
    figures = example.figures(scores)
    assert len(figures) == len(example.columns)
    assert figures[example.columns.index("greedy after")] == 0.4
    config = load_config(example.config, environment=example.environment)
    assert (config.form == "tools") == example.calls
    assert (config.sft is not None) == (WARMED_UP in example.headings)
    if example.calls:
        assert figures[example.columns.index("legal calls warmed up")] == 0.7
