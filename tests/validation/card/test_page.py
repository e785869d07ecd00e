"""Files of a card."""

from pathlib import Path
from xml.etree import ElementTree

from openenv.validation.card.card import Card, CardFigure, LearningPoints
from openenv.validation.card.page import badge, markdown, page, write_card

FLOOR = CardFigure("floor", "0 [0, 0.1]", "over 24 tasks", values={"mean": 0.0})
ORACLE = CardFigure("oracle", "1 [1, 1]", "over 24 tasks", True, {"mean": 1.0})
PRICE = CardFigure("price", None, "no <prices> | named")
POINTS = LearningPoints([0.0, 0.5, 0.75], [1.0, 2.0, 3.0])


def card(*figures: CardFigure, curve: LearningPoints | None = None) -> Card:
    return Card("catch", "0.1.0", "Catch the ball.", list(figures), curve, 12.0)


def test_the_page_escapes_texts_and_says_what_is_missing() -> None:
    text = page(card(FLOOR, ORACLE, PRICE))
    assert "no &lt;prices&gt; | named" in text
    assert "not measured" in text
    assert "<polyline" not in text
    assert "http" not in text.replace("http://www.w3.org", "")


def test_the_curve_has_a_point_for_each_step_and_the_players_as_lines() -> None:
    text = page(card(FLOOR, ORACLE, curve=POINTS))
    points = text.split('<polyline points="')[1].split('"')[0].split()
    heights = [float(point.split(",")[1]) for point in points]
    assert len(points) == 3
    assert heights == sorted(heights, reverse=True)
    assert text.count("<line class=") == 2


def test_markdown_is_a_table() -> None:
    assert "| price | not measured | no <prices> \\| named |" in markdown(card(FLOOR, PRICE))


def test_the_badge_has_floor_and_oracle_or_what_is_to_be_looked_at() -> None:
    assert "random 0 · oracle 1" in badge(card(FLOOR, ORACLE))
    assert "1 to look at" in badge(card(FLOOR, ORACLE, CardFigure("isolation", "no", "", False)))
    assert "not measured" in badge(card(PRICE))
    assert ElementTree.fromstring(badge(card(FLOOR, ORACLE))).attrib["height"] == "20"


def test_three_files_are_written(tmp_path: Path) -> None:
    files = write_card(card(FLOOR, ORACLE), tmp_path / "card.html")
    assert [file.name for file in files] == ["card.html", "card.md", "card.svg"]
    assert all(file.stat().st_size for file in files)
