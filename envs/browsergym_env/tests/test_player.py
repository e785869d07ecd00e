import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import mean

import pytest

from browsergym_env import BrowserGymAction, BrowserGymObservation
from browsergym_env.player import Page, make_player, plan
from browsergym_env.server.browsergym_environment import BrowserGymEnvironment

pytestmark = pytest.mark.needs("browser")

Player = Callable[[BrowserGymObservation], BrowserGymAction]

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
STEPS = 5
# 200 episodes take half a minute and more; the README says what they give, and these are enough to tell.
SEEDS = range(20)

KNOWN = re.findall(
    r"`([a-z0-9-]+)`", README.partition("## The player")[2].partition("\n## ")[0].partition("It knows")[2]
)


def score(environment: BrowserGymEnvironment, seed: int, player: Player, **task: str) -> float:
    observation = environment.reset(seed=seed, **task)  # type: ignore[arg-type]  # a task's name
    for _ in range(STEPS):
        observation = environment.step(player(observation))
        if observation.done:
            break
    return float(observation.reward or 0)


def make_random_player(seed: int) -> Player:
    random = Random(f"{seed}/random")
    return lambda observation: BrowserGymAction.call(
        "click", random.choice([one.bid for one in Page(observation.axtree_txt).elements])
    )


def test_the_player_scores_what_the_readme_says_and_a_random_one_much_less(environment: BrowserGymEnvironment) -> None:
    stated = re.search(r"mean reward (\d\.\d+); .*? has (\d\.\d+)", README.partition("## The player")[2], re.DOTALL)
    assert stated is not None
    players = mean(score(environment, seed, make_player(seed)) for seed in SEEDS)
    randoms = mean(score(environment, seed, make_random_player(seed)) for seed in SEEDS)
    assert players == float(stated[1]) == 1.0
    assert randoms == pytest.approx(float(stated[2]), abs=0.25)


@pytest.mark.parametrize("task", KNOWN)
def test_the_player_knows_the_tasks_that_the_readme_lists(environment: BrowserGymEnvironment, task: str) -> None:
    assert [score(environment, seed, make_player(seed), task_name=task) for seed in (0, 8)] == [1.0, 1.0]


def test_the_readme_lists_what_is_known() -> None:
    assert len(KNOWN) >= 15


def test_what_it_does_not_know_it_tries_at_random_but_repeatably(environment: BrowserGymEnvironment) -> None:
    assert plan("Fold the page.", "[3] button 'x'") == []
    observation = environment.reset(seed=1, task_name="click-collapsible")
    assert make_player(4)(observation) == make_player(4)(observation)
    assert make_player(4)(BrowserGymObservation()).action_str == "noop()"


def test_a_page_without_what_the_goal_names_is_no_task_it_knows() -> None:
    assert plan('Click on the "Yes" button.', "[3] button 'No'") == []
    assert plan("Focus into the 3rd input textbox.", "[3] textbox ''") == []
