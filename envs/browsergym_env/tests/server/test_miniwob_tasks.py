import sys

import pytest

from browsergym_env.server import miniwob_tasks
from browsergym_env.server.miniwob_tasks import page_seed, shown, task_named, task_names, task_url
from openenv.core.exceptions import ConfigurationError, InvalidRequestError


def test_the_tasks_are_miniwobs_and_nothing_else_of_it_is_loaded() -> None:
    assert len(task_names()) == 130
    assert {"click-button", "enter-text", "book-flight"} < set(task_names())
    assert "miniwob" not in sys.modules


@pytest.mark.parametrize("name", ["click-test", "miniwob.click-test", "browsergym/miniwob.click-test"])
def test_a_task_has_three_names(name: str) -> None:
    assert task_named(name) == "click-test"


@pytest.mark.parametrize(
    "name", ["", "click", "../core/core", "/etc/passwd", "click-test.html", 7, None, ["click-test"]]
)
def test_no_other_name_is_taken(name: object) -> None:
    with pytest.raises(InvalidRequestError, match="Expected one of 130"):
        task_named(name)


def test_a_misspelt_name_is_told_its_neighbours() -> None:
    with pytest.raises(InvalidRequestError, match="enter-text"):
        task_named("entertext")


def test_the_servers_folders_are_not_shown() -> None:
    assert shown(f"url='{task_url('click-test')}'") == "url='file:///miniwob/miniwob/click-test.html'"


def test_a_seed_is_browsergyms() -> None:
    assert [page_seed(seed) for seed in (0, 3, 2**32 - 1)] == [985772, 71530, 944547]
    assert page_seed(2**32 + 3) == page_seed(3)


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(miniwob_tasks, "find_spec", lambda name: None)
    miniwob_tasks.pages_folder.cache_clear()
    try:
        with pytest.raises(ConfigurationError, match="pip install miniwob"):
            miniwob_tasks.pages_folder()
    finally:
        miniwob_tasks.pages_folder.cache_clear()
