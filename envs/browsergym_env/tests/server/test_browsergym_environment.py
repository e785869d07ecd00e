import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from PIL import Image

from browsergym_env import BrowserGymAction, BrowserGymObservation
from browsergym_env.player import Page, make_player
from browsergym_env.server.browsergym_environment import BrowserGymEnvironment
from openenv.core.env_server import CallToolAction, ListToolsAction
from openenv.core.exceptions import InvalidRequestError, ResetNeededError

from ..conftest import AddPage, MakeEnvironment

pytestmark = pytest.mark.needs("browser")


def do(environment: BrowserGymEnvironment, action: str) -> BrowserGymObservation:
    return environment.step(BrowserGymAction(action_str=action))


def bid_of(observation: BrowserGymObservation, role: str) -> str:
    return Page(observation.axtree_txt).all(role)[0].bid


# The first observation of enter-text with seed 3, as BrowserGym 0.14 gives it in the same Chromium (without the lines
# of InlineTextBox, which repeat those above them).
BROWSERGYMS = """\
RootWebArea 'Enter Text Task', focused, url='file:///miniwob/miniwob/enter-text.html'
\t[14] textbox ''
\t[15] button 'Submit'"""


def test_a_reset_shows_what_browsergym_shows(environment: BrowserGymEnvironment) -> None:
    observation = environment.reset(seed=3, task_name="enter-text")
    assert observation.goal == 'Enter "Cheree" into the text field and press Submit.'
    assert observation.axtree_txt == BROWSERGYMS
    assert observation.url == "file:///miniwob/miniwob/enter-text.html"
    assert '<input type="text" id="tt" bid="14" value="">' in observation.pruned_html
    assert observation.goal in observation.text
    assert observation.axtree_txt in observation.text
    assert (observation.reward, observation.done, observation.error) == (None, False, "")
    assert observation.screenshot is None


def test_a_task_done_right_gives_one_and_a_wrong_one_nothing(environment: BrowserGymEnvironment) -> None:
    environment.reset(seed=3, task_name="enter-text")
    typed = do(environment, "fill('14', 'Cheree')")
    assert (typed.reward, typed.done) == (0.0, False)
    assert "[14] textbox '' value='Cheree'" in typed.axtree_txt
    assert 'value="Cheree"' in typed.pruned_html
    right = do(environment, "click('15')")
    assert (right.reward, right.done, right.metadata["raw_reward"]) == (1.0, True, 1.0)
    environment.reset(seed=3, task_name="enter-text")
    wrong = do(environment, "click('15')")
    assert (wrong.reward, wrong.done, wrong.metadata["raw_reward"]) == (0.0, True, -1.0)


@pytest.mark.parametrize(
    "text", ["O'Connor", 'say "hi"', "a\\b\\n", "l'été 🎲 ''\"\"", "'); click('15", "${x} <b>&amp;"]
)
def test_text_arrives_as_it_is_by_every_way(environment: BrowserGymEnvironment, text: str) -> None:
    ways: list[Callable[[], BrowserGymObservation]] = [
        lambda: environment.step(BrowserGymAction.call("fill", "14", text)),
        lambda: call(environment, "fill", bid="14", text=text),
        lambda: [call(environment, "click", bid="14"), call(environment, "send_keys", text=text)][1],
    ]
    for way in ways:
        environment.reset(seed=3, task_name="enter-text")
        way()
        shown = do(environment, "noop(0)").axtree_txt
        assert f"[14] textbox '' value={text!r}" in shown


def call(environment: BrowserGymEnvironment, name: str, **arguments: Any) -> Any:
    return environment.step(CallToolAction(tool_name=name, arguments=arguments))  # type: ignore[arg-type]


def test_tools_are_the_five_and_do_a_task(environment: BrowserGymEnvironment) -> None:
    environment.reset(seed=3, task_name="enter-text")
    listed: Any = environment.step(ListToolsAction())  # type: ignore[arg-type]
    assert [found.name for found in listed.tools] == ["click", "fill", "send_keys", "scroll", "noop"]
    filled = call(environment, "fill", bid="14", text="Cheree")
    assert "value='Cheree'" in filled.result
    assert (filled.reward, filled.done) == (0.0, False)
    for name, arguments in (("noop", {}), ("scroll", {"direction": "down"}), ("send_keys", {"text": "Tab"})):
        assert call(environment, name, **arguments).error is None
    assert "[15] button 'Submit', focused" in environment.step(BrowserGymAction(action_str="noop()")).axtree_txt
    done = call(environment, "send_keys", text="Enter")
    assert (done.reward, done.done) == (1.0, True)
    assert environment.state.step_count == 6


def test_a_tool_that_fails_says_so_and_the_episode_goes_on(environment: BrowserGymEnvironment) -> None:
    environment.reset(seed=3, task_name="enter-text")
    failed = call(environment, "click", bid="99")
    assert 'no element with bid "99"' in failed.error.message
    assert not failed.done
    assert call(environment, "scroll", direction="sideways").error.error_type == "invalid_args"
    assert call(environment, "click", bid="15").done


@pytest.mark.parametrize(
    ("action", "says"),
    [
        ("click('99')", 'no element with bid "99"'),
        ("click('1\"]')", "no element"),
        ("fill('15', 'x')", "can't be edited"),
        ("click('2')", "not visible"),
        ("select_option('14', 'x')", "no list"),
        ("fly('12')", "no action 'fly'. Expected one of noop"),
        ("_click('12', 'left', [], 1)", "no action"),
        ("__init__('12')", "no action"),
        ("click()", "missing a required argument: 'bid'"),
        ("click('14', 'thumb')", "'left', 'middle' or 'right'"),
        ("click([14])", "bid: Input should be a valid string"),
        ("noop(1, 2, 3)", "too many positional arguments"),
        ("noop(until=5)", "unexpected keyword argument 'until'"),
        ("noop(-1)", "greater than or equal to 0"),
        ("noop(1e999)", "less than or equal to 60000"),
        ("mouse_click(-5, 5)", "greater than or equal to 0"),
        ("scroll('sideways')", "direction|up"),
        ("keyboard_press('NoSuchKey')", "Unknown key"),
        ("goto('http://example.com')", "goto is not offered"),
        ("upload_file('14', '/etc/passwd')", "no task of MiniWoB takes a file"),
        ("I don't know", "Expected a call"),
        ("fill('14', 'O'Connor')", "O\\'Connor"),
    ],
)
def test_what_can_not_be_done_is_said_and_changes_nothing(
    environment: BrowserGymEnvironment, action: str, says: str
) -> None:
    before = environment.reset(seed=3, task_name="enter-text")
    observation = do(environment, action)
    assert any(part in observation.error for part in says.split("|"))
    assert observation.error in observation.text
    assert (observation.last_action_error, observation.reward, observation.done) == (True, 0.0, False)
    assert observation.axtree_txt == before.axtree_txt
    assert len(observation.error) < 1000
    assert environment.state.step_count == 1


def test_calls_are_done_up_to_the_first_that_fails(environment: BrowserGymEnvironment) -> None:
    environment.reset(seed=3, task_name="enter-text")
    observation = do(environment, "fill('14', 'Cheree'); click('99'); click('15')")
    assert observation.last_action_error
    assert "value='Cheree'" in observation.axtree_txt
    assert not observation.done
    assert do(environment, "fill('14', 'Cheree')\nclick('15')").reward == 1.0


def test_a_reset_chooses_the_task_and_the_seed_its_page(environment: BrowserGymEnvironment) -> None:
    first = environment.reset(seed=1, task_name="click-dialog")
    assert environment.state.task_id == "miniwob.click-dialog"
    other = environment.reset(seed=2, task_name="miniwob.click-dialog")
    assert first.axtree_txt != other.axtree_txt
    assert environment.reset(seed=1, task_name="click-dialog") == first
    assert environment.reset(seed=1).goal == 'Click on the "cancel" button.'
    assert len({environment.reset(task_name="enter-text").goal for _ in range(4)}) > 1


def test_an_unknown_task_is_refused_and_the_episode_goes_on(environment: BrowserGymEnvironment) -> None:
    environment.reset(seed=3, task_name="enter-text", episode_id="goes on")
    with pytest.raises(InvalidRequestError, match="no task 'enter-txt'"):
        environment.reset(task_name="enter-txt")
    assert environment.state.episode_id == "goes on"
    assert do(environment, "fill('14', 'Cheree'); click('15')").reward == 1.0


def test_the_state_follows_the_episode(environment: BrowserGymEnvironment) -> None:
    environment.reset(seed=3, task_name="enter-text", episode_id="e7")
    do(environment, "fill('14', 'Cheree')")
    do(environment, "click('15')")
    state = environment.state
    assert (state.episode_id, state.step_count, state.cum_reward) == ("e7", 2, 1.0)
    assert (state.benchmark, state.task_name, state.max_steps) == ("miniwob", "enter-text", None)
    assert state.goal.startswith("Enter")
    assert state.current_url.startswith("file:///miniwob/")


def test_there_is_nothing_to_do_before_a_reset_and_after_the_end(make_environment: MakeEnvironment) -> None:
    environment = make_environment()
    assert environment.render() is None
    with pytest.raises(ResetNeededError):
        do(environment, "noop()")
    environment.reset(seed=3, task_name="enter-text")
    do(environment, "click('15')")
    with pytest.raises(ResetNeededError):
        do(environment, "noop()")
    environment.close()
    environment.close()
    with pytest.raises(ResetNeededError):
        do(environment, "noop()")


def test_a_page_can_not_be_copied(environment: BrowserGymEnvironment) -> None:
    with pytest.raises(TypeError, match="can't be copied"):
        deepcopy(environment)


def test_screenshots_show_the_page_and_render_does_too(environment: BrowserGymEnvironment) -> None:
    before = environment.reset(seed=3, task_name="enter-text", screenshot=True)
    after = do(environment, "fill('14', 'Cheree')")
    assert before.screenshot is not None
    assert after.screenshot is not None
    assert before.screenshot.shape == (210, 160, 3)
    assert before.screenshot[0, 0].tolist() == [255, 255, 0]  # the goal's empty place
    ys, xs = np.nonzero((before.screenshot != after.screenshot).any(axis=2))
    assert len(ys)
    assert (ys.min() > 50, ys.max() < 130, xs.max() < 140) == (True, True, True)  # the field
    png = environment.render()
    assert png is not None
    with Image.open(io.BytesIO(png)) as picture:
        assert (picture.format, picture.size) == ("PNG", (320, 420))
    assert environment.reset(seed=3).screenshot is None


def test_a_server_sends_screenshots_unless_it_is_told_otherwise(make_environment: MakeEnvironment) -> None:
    environment = make_environment(screenshot=True)
    assert environment.reset(seed=1).screenshot is not None
    assert environment.reset(seed=1, screenshot=False).screenshot is None


def episode(environment: BrowserGymEnvironment, seed: int, **task: Any) -> list[str]:
    """What is seen, as JSON, in an episode of the player's, with waiting between, in which things may move."""
    player = make_player(seed)
    seen = [environment.reset(seed=seed, **task)]
    while len(seen) < 6 and not seen[-1].done:
        action = player(seen[-1]) if len(seen) % 2 else BrowserGymAction(action_str="noop(300)")
        seen.append(environment.step(action))
    return [observation.model_dump_json() for observation in seen]


@pytest.mark.parametrize("task_name", ["chase-circle", "click-checkboxes", "use-autocomplete"])
def test_the_same_seed_and_actions_are_the_same_episode(environment: BrowserGymEnvironment, task_name: str) -> None:
    first = episode(environment, 5, task_name=task_name, screenshot=True)
    episode(environment, 6, task_name="enter-password")  # something else on the same page
    assert episode(environment, 5, task_name=task_name, screenshot=True) == first


def test_many_sessions_in_one_browser_do_not_notice_each_other(
    environment: BrowserGymEnvironment, make_environment: MakeEnvironment
) -> None:
    alone = [episode(environment, seed, task_name="chase-circle") for seed in range(6)]
    environments = [make_environment() for _ in alone]
    with ThreadPoolExecutor(len(alone)) as pool:
        together = [pool.submit(episode, one, seed, task_name="chase-circle") for seed, one in enumerate(environments)]
    assert [playing.result() for playing in together] == alone


def test_held_keys_and_buttons_do_not_reach_the_next_episode(environment: BrowserGymEnvironment) -> None:
    clean = episode(environment, 5, task_name="enter-text", screenshot=True)
    environment.reset(seed=1, task_name="enter-text")
    do(environment, "keyboard_down('Shift'); mouse_down(60, 60); mouse_move(90, 90)")
    assert episode(environment, 5, task_name="enter-text", screenshot=True) == clean


MOVING = """
var genProblem = () => {
  let ticks = 0, frames = 0;
  const area = document.getElementById('area');
  const show = () => area.textContent = `${ticks} ticks ${frames} frames ${Date.now()} ${new Date().getFullYear()}`;
  setInterval(() => { ticks++; show(); }, 100);
  const frame = () => { frames++; requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
};"""


def test_a_pages_time_goes_with_its_actions_alone(own_pages: AddPage, own_environment: BrowserGymEnvironment) -> None:
    own_pages("moving", MOVING)
    shown = [own_environment.reset(task_name="moving").axtree_txt]
    shown += [do(own_environment, action).axtree_txt for action in ("noop(0)", "noop(100)", "mouse_move(1, 1)")]
    start = 1_704_067_200_000  # 2024 begins
    for text, (ticks, ms) in zip(shown, [(5, 500), (5, 500), (6, 600), (11, 1100)], strict=True):
        assert f"StaticText '{ticks} ticks {ms // 16} frames {start + ms // 100 * 100} 2024'" in text
