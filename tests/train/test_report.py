"""The picture and the page of a run."""

from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib.image import imread

from openenv.train.config import TrainConfig
from openenv.train.report import AFTER, BEFORE, RANDOM, SCRIPTED, draw_curve, draw_curves, score_name, write_report
from openenv.train.run_folder import RunFolder
from openenv.train.scores import Score

HOSTILE = "<script>alert(1)</script> & 'ünï'"


def score(mean: float) -> Score:
    turns = [
        {"observation": "ball 3\npaddle 2", "action": "left", "reward": 0.0, "problem": None},
        {"observation": HOSTILE, "action": HOSTILE, "reward": -1.0, "problem": "no such move & more"},
    ]
    return Score(mean, 0.01, 2.0, 0.5, 200, 7, turns)


def run_folder(path: Path, steps: int) -> RunFolder:
    folder = RunFolder.create(TrainConfig(environment=HOSTILE, output_dir=path, name="run"), "catch")
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


@pytest.mark.parametrize("players", [[BEFORE, AFTER], [RANDOM, SCRIPTED, BEFORE, AFTER]])
def test_the_page_holds_all_and_needs_nothing(tmp_path: Path, players: list[str]) -> None:
    folder = run_folder(tmp_path, 30)
    folder.write_scores({player: score(number / 4) for number, player in enumerate(players)})
    write_report(folder, folder.load_config(), HOSTILE)
    page = Page(folder.report.read_text())
    assert "script" not in page.tags
    assert [source.partition(",")[0] for source in page.sources] == ["data:image/png;base64"]
    assert page.words.count(HOSTILE) >= 6, "heading, settings, and both sample episodes"
    for words in (*players, "learning_rate", "0.003", "+0.250 ± 0.010", "before training, greedy: reward -1.00"):
        assert words in page.words
    assert page.titles == ["no such move & more"] * 2
    assert "$" not in folder.report.read_text().replace(HOSTILE, "")


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


@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"]])
def test_there_is_a_curve_for_each_environment_even_one_that_was_not_played(tmp_path: Path, names: list[str]) -> None:
    metrics = [{"step": step, "episode/a/reward": 0.1 * step} for step in range(1, 9)]
    path = tmp_path / "curve.png"
    scores = {score_name(player, name): score(0.5) for player in (BEFORE, AFTER, RANDOM) for name in names}
    draw_curves(metrics, scores, names, "tiny on several", path)
    picture = imread(path)
    assert picture.shape[:2] == (round(150 * (0.8 + 3.2 * len(names))), 1350)
    assert 0.5 < picture[..., :3].mean() < 0.999, "neither empty nor black"
