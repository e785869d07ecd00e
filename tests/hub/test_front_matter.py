"""What the Hub reads of a README."""

import pytest
import yaml

from openenv.core.exceptions import ConfigurationError
from openenv.hub.front_matter import with_front_matter

WHOLE = """---
title: Own title  # and a comment
emoji: 🔊
colorFrom: blue
colorTo: green
sdk: docker
pinned: true
app_port: 9000
base_path: /web
tags: [games, openenv]
---

# Text
"""


def completed(readme: str, *, web_page: bool = True) -> tuple[dict[str, object], str]:
    changed = with_front_matter(readme, title="My env", port=8000, web_page=web_page)
    _, matter, text = changed.split("---\n", 2)
    return yaml.safe_load(matter), text


def test_one_that_says_all_stays_as_it_is() -> None:
    assert with_front_matter(WHOLE, title="My env", port=8000, web_page=True) == WHOLE


def test_what_is_missing_is_added_and_what_is_said_stays() -> None:
    keys, text = completed("---\ntitle: Own\nsdk: gradio\ntags: games\n---\nText\n")
    assert keys == {
        "title": "Own",
        "emoji": "🎮",
        "colorFrom": "blue",
        "colorTo": "green",
        "sdk": "docker",
        "pinned": False,
        "app_port": 8000,
        "tags": ["games", "openenv"],
    }
    assert text == "\nText\n"


def test_without_a_page_the_space_opens_on_the_server_itself() -> None:
    keys, _ = completed(WHOLE, web_page=False)
    assert "base_path" not in keys
    kept, _ = completed(WHOLE.replace("/web", "/docs"), web_page=False)
    assert kept["base_path"] == "/docs"


def test_a_readme_without_any() -> None:
    keys, text = completed("# Go\n\n---\n\nStones.\n")
    assert (keys["title"], text) == ("My env", "\n# Go\n\n---\n\nStones.\n")


def test_three_dashes_end_it_only_on_a_line_of_their_own() -> None:
    changed = with_front_matter("---\ntitle: Go ---\nlicense: mit\n---", title="My env", port=8000, web_page=True)
    assert "title: Go ---\n" in changed
    assert "license: mit\n" in changed[: changed.index("\n---\n")]
    assert changed.endswith("\n---\n\n")


@pytest.mark.parametrize("matter", ["a: [", "- a list", "just text"])
def test_one_that_is_none(matter: str) -> None:
    with pytest.raises(ConfigurationError, match=r"README\.md: "):
        with_front_matter(f"---\n{matter}\n---\n", title="x", port=8000, web_page=True)
