"""The picture and the page of a run."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.image import imread

from openenv.records.run_folder import RunFolder
from openenv.records.run_start import RunStart
from openenv.records.scores import AFTER, BEFORE, RANDOM, SCRIPTED, Score, score_name
from openenv.train.run.report import draw_curve, draw_curves, write_report
from openenv.train.run.report_parts import comparison_table, component_table, reward_histogram
from openenv.train.settings.config import TrainConfig, load_config

HOSTILE = "<script>alert(1)</script> & 'ünï'"


def score(mean: float) -> Score:
    turns = [
        {"observation": "ball 3\npaddle 2", "action": "left", "reward": 0.0, "problem": None},
        {"observation": HOSTILE, "action": HOSTILE, "reward": -1.0, "problem": "no such move & more"},
    ]
    return Score(mean, 0.01, 2.0, 0.5, 200, 7, turns, low=mean - 0.02, high=mean + 0.02)


def run_folder(path: Path, steps: int) -> RunFolder:
    folder = TrainConfig(environment=HOSTILE, output_dir=path, name="run").make_folder("catch")
    for step in range(1, steps + 1):
        folder.add_metrics({"step": step, "episode/reward": step / 10, "episode/illegal_actions": 1 / step})
    return folder


class Page(HTMLParser):
    """Notes what a page loads and says."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.sources: list[str] = []
        self.titles: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]
        self.titles += [value or "" for name, value in attrs if name == "title"]

    def handle_data(self, data: str) -> None:
        self.words += f" {data}"


def test_the_page_has_the_price_and_what_participants_used(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, 1)
    used = {"replies": 12, "input_tokens": 340, "output_tokens": 56, "failed": 3}
    costs = {"cost/episodes": 8, "cost/seconds": 90.0, "cost/price_usd": 0.25}
    row = {"step": 2, "episode/reward": 1.0, "episode/illegal_actions": 0.0, **costs}
    folder.add_metrics({**row, **{f"participants/{HOSTILE}/{name}": count for name, count in used.items()}})
    evaluated = {"cost/episodes": 20.0, "cost/seconds": 10.0, "cost/price_usd": 0.5}
    folder.add_metrics({"step": 2, **{f"evaluation/{name}": value for name, value in evaluated.items()}})
    before, after = (replace(score(mean), costs=evaluated) for mean in (0.0, 1.0))
    folder.write_scores({RANDOM: before, BEFORE: before, AFTER: after})
    write_report(folder, load_config(folder.config), "Catch")
    page = Page(folder.report.read_text("utf-8"))
    assert "The episodes of the training cost $0.25 (90 s of episodes)." in page.words
    assert "The model's evaluations cost $1.5 (30 s of episodes)." in page.words
    words = " ".join(page.words.split())
    assert f"name replies tokens read tokens written price, $ failed episodes {HOSTILE} 12 340 56 - 3" in words
    assert "script" not in page.tags


@pytest.mark.parametrize("players", [[BEFORE, AFTER], [RANDOM, SCRIPTED, BEFORE, AFTER]])
def test_the_page_holds_all_and_needs_nothing(tmp_path: Path, players: list[str]) -> None:
    folder = run_folder(tmp_path, 30)
    folder.write_scores({player: score(number / 4) for number, player in enumerate(players)})
    write_report(folder, load_config(folder.config), HOSTILE)
    page = Page(folder.report.read_text())
    assert "script" not in page.tags
    assert [source.partition(",")[0] for source in page.sources] == ["data:image/png;base64"]
    assert page.words.count(HOSTILE) >= 6, "heading, settings, and both sample episodes"
    for words in (
        *players,
        "learning_rate",
        "0.003",
        "+0.250 [+0.230, +0.270]",
        "before training, greedy: reward -1.00",
    ):
        assert words in page.words
    assert page.titles == ["no such move & more"] * 2
    assert "$" not in folder.report.read_text().replace(HOSTILE, "")


def test_the_page_says_what_went_wrong_and_how_it_was_run(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, 30)
    episodes = {
        name: {"seed": number, "reward": 1.5 - number, "turns": score(0.0).sample}
        for number, name in enumerate(("best", "median", "worst"))
    }
    after = replace(score(2.0), rewards=[1.5, 0.5, 0.5, -0.5], examples=episodes)
    folder.write_scores({BEFORE: replace(score(0.0), rewards=[-0.5]), SCRIPTED: score(1.0), AFTER: after})
    folder.add_start(RunStart("2026-03-01T12:00:00+01:00", f"openenv train {HOSTILE}", {"trl": "1.16.0"}))
    folder.add_start(RunStart("2026-03-02T12:00:00+01:00", "openenv train --resume run", {"trl": "1.16.1"}))
    write_report(folder, load_config(folder.config), "tiny on catch")
    text = folder.report.read_text()
    page = Page(text)
    assert "script" not in page.tags
    assert "The model's mean reward +2.000 is above the scripted player's +1.000" in page.words
    for words in ("best episode, seed 0: reward +1.5 in 2 steps", "median episode, seed 1", "worst episode, seed 2"):
        assert words in page.words
    for words in ("2026-03-01 12:00:00+01:00", f"openenv train {HOSTILE}", "trl 1.16.1", "resumed"):
        assert words in page.words
    settings = text[text.index("<h2>Settings") :]
    assert "<details><summary>config.yaml" in settings, "closed"


def test_a_page_of_an_older_run_can_be_written_again(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, 3)
    folder.write_scores({player: score(0.0) for player in (BEFORE, AFTER)})
    kept = ("mean_reward", "standard_error", "mean_length", "illegal_actions", "episodes", "sample_seed", "sample")
    scores = {
        player: {name: fields[name] for name in kept}
        for player, fields in json.loads(folder.scores.read_text()).items()
    }
    folder.scores.write_text(json.dumps(scores))
    write_report(folder, load_config(folder.config), "tiny on catch")
    assert "before training, greedy: reward -1.00" in Page(folder.report.read_text()).words


def test_the_page_has_what_the_time_went_to(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, 2)
    folder.write_scores({player: score(0.0) for player in (BEFORE, AFTER)})
    write_report(folder, load_config(folder.config), "tiny on catch")
    assert "Where the time went" not in folder.report.read_text(), "a run of an earlier version"
    folder.add_metrics({**folder.read_metrics()[1], "step": 3, "time/generation": 6.0, "speed/tokens_per_second": 50.0})
    folder.add_times({"evaluation": 2.0})
    write_report(folder, load_config(folder.config), "tiny on catch")
    words = " ".join(Page(folder.report.read_text()).words.split())
    assert "generation 6.0 s 6.00 s 75% evaluation 2.0 s 25% in all 8.0 s 6.00 s 50 tokens/s of the model." in words


def bars(rewards: dict[str, list[float]]) -> list[tuple[str, list[str]]]:
    """Return the name of each range, and the shares of the players in it."""
    rows = re.findall(r"<tr><th>(.*?)<td>(.*?)</tr>", reward_histogram(rewards))
    return [(name, re.findall(r"<span>(.*?)</span>", shares)) for name, shares in rows]


def test_the_same_tasks_are_beside_each_other_before_and_after() -> None:
    def shown(*answers: tuple[int, str, float]) -> Score:
        episodes = [
            {"seed": seed, "reward": reward, "turns": [{"observation": f"{HOSTILE} {seed}?", "action": action}]}
            for seed, action, reward in answers
        ]
        return replace(score(0.5), first_episodes=episodes)

    table = comparison_table(shown((1, "It is Paris.", 0.5), (2, "", 0.0)), shown((2, "Rome", 1.0), (3, "Bern", 1.0)))
    assert Page(table).words.endswith(f"reward {HOSTILE} 2? (nothing) +0.00 Rome +1.00")
    assert "Paris" not in table
    assert "<script>" not in table
    assert comparison_table(score(0.5), score(0.6)) == ""


def test_few_rewards_have_a_bar_each() -> None:
    assert bars({BEFORE: [0.0, 0.0, 1.0, 0.1 + 0.2], AFTER: [1.0, 0.3], RANDOM: []}) == [
        ("+0", ["50%", "0%"]),
        ("+0.3", ["25%", "50%"]),
        ("+1", ["25%", "50%"]),
    ]
    assert reward_histogram({BEFORE: []}) == ""


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_every_reward_is_in_one_bar(before: list[float], after: list[float]) -> None:
    found = re.findall(r"width: ([\d.]+)%", reward_histogram({BEFORE: before, AFTER: after}))
    for player in (0, 1):
        assert sum(map(float, found[player::2])) == pytest.approx(80, abs=1)
    assert len(found) <= 24


@pytest.mark.parametrize("steps", [1, 2, 400])
def test_the_curve_is_drawn_for_any_length(tmp_path: Path, steps: int) -> None:
    metrics = [
        {"step": step, "episode/reward": 0.1 * step, "episode/illegal_actions": 0.0} for step in range(1, steps + 1)
    ]
    path = tmp_path / "curve.png"
    draw_curve(metrics, {BEFORE: score(0.0), AFTER: score(1.0), RANDOM: score(0.2)}, "tiny on catch", path)
    picture = imread(path)
    assert picture.shape[:2] == (810, 1350)
    assert 0.5 < picture[..., :3].mean() < 0.999, "neither empty nor black"


@pytest.mark.level("socket")
@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"]])
def test_there_is_a_curve_for_each_environment_even_one_that_was_not_played(tmp_path: Path, names: list[str]) -> None:
    metrics = [{"step": step, "episode/a/reward": 0.1 * step} for step in range(1, 9)]
    path = tmp_path / "curve.png"
    scores = {score_name(player, name): score(0.5) for player in (BEFORE, AFTER, RANDOM) for name in names}
    draw_curves(metrics, scores, names, "tiny on several", path)
    picture = imread(path)
    assert picture.shape[:2] == (round(150 * (0.8 + 3.2 * len(names))), 1350)
    assert 0.5 < picture[..., :3].mean() < 0.999, "neither empty nor black"


def test_components_have_a_curve_and_a_table(tmp_path: Path) -> None:
    metrics = [
        {
            "step": step,
            "episode/reward": 0.5,
            "episode/illegal_actions": 0.0,
            "episode/reward_components/format": 1.0,
            **({"episode/reward_components/answer": 0.1 * step} if step > 2 else {}),
        }
        for step in range(1, 9)
    ]
    path = tmp_path / "curve.png"
    draw_curve(metrics, {}, "tiny on maths", path)
    assert imread(path).shape[:2] == (1110, 1350)
    scores = {BEFORE: replace(score(0.0), reward_components={"<format>": 0.5}), RANDOM: score(0.2)}
    table = component_table(scores)
    assert "<th>&lt;format&gt;" in table
    assert "<td>+0.500" in table
    assert component_table({RANDOM: score(0.2)}) == ""


def test_the_headline_has_intervals_episodes_and_what_resampling_cost(tmp_path: Path) -> None:
    config = TrainConfig(environment="catch", output_dir=tmp_path, name="run", resample=1, steps=2, rollouts=8)
    folder = config.make_folder("catch")
    for step in (1, 2):
        cost = {"episode/resampled_episodes": 8.0, "episode/resampled_tokens": 30.0}
        folder.add_metrics({"step": step, "episode/reward": 0.5, "episode/illegal_actions": 0.0, **cost})
    folder.write_scores({BEFORE: score(0.25), AFTER: replace(score(0.5), episodes=8)})
    warnings = write_report(folder, config, "tiny on catch")
    words = " ".join(Page(folder.report.read_text()).words.split())
    assert "Mean reward +0.250 [+0.230, +0.270] before and +0.500 [+0.480, +0.520] after 2 optimiser steps" in words
    assert "Means of 8 episodes of one seed, 1, with 95% intervals." in words
    assert (
        "Illegal answers: each is played as the environment's own fallback, where it has one; each costs 0.1" in words
    )
    assert "16 further episodes of other tasks were played (100% more), with 60 tokens written" in words
    assert [warning.name for warning in warnings] == ["few_episodes"]
    assert folder.read_warnings() == [str(warning) for warning in warnings]
