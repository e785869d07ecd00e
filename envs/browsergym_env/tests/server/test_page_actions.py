from collections.abc import Callable
from pathlib import Path

import pytest

from browsergym_env import BrowserGymAction, BrowserGymObservation
from browsergym_env.server.browsergym_environment import BrowserGymEnvironment
from browsergym_env.server.page_actions import ACTION_NAMES, is_key

from ..conftest import AddPage

pytestmark = pytest.mark.needs("browser")

Act = Callable[[str], BrowserGymObservation]

# A page that says what happens on it.
PLAYGROUND = """
var genProblem = () => {
  const area = document.getElementById('area');
  area.innerHTML = `<input id=text><textarea id=long readonly>x</textarea><input id=box type=checkbox>
    <select id=list multiple><option value=r>Red</option><option value=g>Green</option></select>
    <button id=off disabled>Off</button><button id=on>On</button><i id=hidden style="display:none">x</i>
    <p id=edit contenteditable>old</p><div id=far style="margin-top:900px">far</div><p id=log></p>`;
  const log = document.getElementById('log');
  const say = (event) => log.textContent += ` ${event.type}:${event.target.id || event.target.localName}` +
    (event.key ? `:${event.key}` : '') + (event.button > 0 ? `:${event.button}` : '') +
    (event.shiftKey ? ':shift' : '');
  for (const type of ['click', 'auxclick', 'dblclick', 'change', 'keydown', 'keyup', 'mousedown', 'mouseup'])
    area.addEventListener(type, say);
};"""


@pytest.fixture
def playground(own_pages: AddPage, own_environment: BrowserGymEnvironment) -> Act:
    """Does an action on a page on which nothing has happened yet. An element's id in angles stands for its bid."""
    own_pages("playground", PLAYGROUND)

    def do(action: str) -> BrowserGymObservation:
        observation = own_environment.reset(task_name="playground")
        for name in ("text", "long", "box", "list", "off", "on", "hidden", "edit", "far", "log"):
            _, _, after = observation.pruned_html.partition(f'id="{name}"')
            action = action.replace(f"<{name}>", "'" + after.partition('bid="')[2].partition('"')[0] + "'")
        return own_environment.step(BrowserGymAction(action_str=action))

    return do


def happened(observation: BrowserGymObservation) -> str:
    """What the page has noted; of keys and buttons of the mouse only where the test is about them."""
    assert observation.error == ""
    return observation.pruned_html.partition('id="log"')[2].partition("\n")[2].strip().removesuffix("</p>").strip()


@pytest.mark.parametrize(
    ("action", "noted"),
    [
        ("click(<on>)", "mousedown:on mouseup:on click:on"),
        ("click(<on>, 'right')", "mousedown:on:2 mouseup:on:2 auxclick:on:2"),
        ("click(<on>, button='middle')", "mousedown:on:1 mouseup:on:1 auxclick:on:1"),
        ("click(<on>, modifiers=['Shift'])", "mousedown:on:shift mouseup:on:shift click:on:shift"),
        ("dblclick(<on>)", "mousedown:on mouseup:on click:on mousedown:on mouseup:on click:on dblclick:on"),
        ("check(<box>)", "mousedown:box mouseup:box click:box change:box"),
        ("check(<box>); uncheck(<box>)", "mousedown:box mouseup:box click:box change:box " * 2),
        ("select_option(<list>, 'Green')", "change:list"),
        ("select_option(<list>, ['r', 'Green'])", "change:list"),
        ("press(<text>, 'a')", "keydown:text:a keyup:text:a"),
        ("focus(<text>); keyboard_press('Shift+b')", "keydown:text:Shift:shift keydown:text:b:shift"),
        ("focus(<text>); keyboard_down('x'); keyboard_up('x')", "keydown:text:x keyup:text:x"),
        ("focus(<text>); send_keys('Tab')", "keydown:text:Tab keyup:long:Tab"),
        ("focus(<text>); send_keys('hi')", "keydown:text:h keyup:text:h keydown:text:i keyup:text:i"),
        ("drag_and_drop(<on>, <box>)", "mousedown:on mouseup:box"),
        ("click(<far>)", "mousedown:far mouseup:far click:far"),
        ("hover(<on>); noop(0)", ""),
        ("send_msg_to_user('hello'); report_infeasible('why')", ""),
    ],
)
def test_an_action_does_what_a_person_would(playground: Act, action: str, noted: str) -> None:
    assert happened(playground(action)).startswith(noted.strip())


@pytest.mark.parametrize(
    ("action", "shows"),
    [
        ("fill(<text>, 'a&b')", 'id="text" bid="10" value="a&amp;b"'),
        ("fill(<text>, 'abc'); clear(<text>)", 'id="text" bid="10" value=""'),
        ("fill(<text>, 'abc', True)", 'value="abc"'),
        ("fill(<edit>, 'new')", "\n   new\n"),
        ("fill(<text>, 12)", 'value="12"'),
        ("focus(<text>); keyboard_type('a b')", 'value="a b"'),
        ("focus(<text>); keyboard_insert_text('日本')", 'value="日本"'),
        ("click(<box>)", 'type="checkbox" bid="12" value="on" checked=""'),
        ("mouse_click(20, 60)", "click:"),
        ("mouse_dblclick(20, 60)", "dblclick:"),
        ("mouse_down(20, 60); mouse_up(21, 61)", "mouseup:"),
        ("mouse_drag_and_drop(20, 60, 40, 70)", "mouseup:"),
    ],
)
def test_an_action_shows(playground: Act, action: str, shows: str) -> None:
    observation = playground(action)
    assert observation.error == ""
    assert shows in observation.pruned_html


@pytest.mark.parametrize(
    ("action", "says"),
    [
        ("click(<off>)", "is disabled"),
        ("click(<hidden>)", "is not visible"),
        ("fill(<long>, 'x')", "can't be edited"),
        ("fill(<on>, 'x')", "can't be edited"),
        ("select_option(<list>, 'Blue')", 'has no option "Blue"; it has "Red", "Green"'),
        ("select_option(<list>, ['Red', 'Blue'])", 'has no option "Blue"'),
        ("click('15')", "choose it with select_option"),
        ("check(<on>)", "Not a checkbox or radio button"),
        ("drag_and_drop(<on>, <hidden>)", "is not visible"),
        ("press(<text>, 'Contrl+a')", "Unknown key"),
    ],
)
def test_what_an_element_does_not_allow_is_said(playground: Act, action: str, says: str) -> None:
    observation = playground(action)
    assert says in observation.error
    assert "change" not in observation.pruned_html


def test_every_action_is_tried_in_this_folder() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert [name for name in ACTION_NAMES if f"{name}(" not in tests] == []


@pytest.mark.parametrize(
    ("action", "top"),
    [
        ("scroll(0, 60)", 60),
        ("scroll(delta_x=0, delta_y=60.0)", 60),
        ("scroll('down')", 100),
        ("scroll('down'); scroll('down'); scroll('up')", 100),
        ("scroll_at(5, 5, 0, 70)", 70),
        ("mouse_move(30, 60); scroll('right')", 0),
    ],
)
def test_a_page_is_scrolled_when_the_step_ends(
    own_pages: AddPage, own_environment: BrowserGymEnvironment, action: str, top: int
) -> None:
    long_page = """var genProblem = () => {
      const area = document.getElementById('area');
      area.innerHTML = '<p style="height: 3000px">tall</p><p id="where" style="position: fixed; top: 0">0</p>';
      addEventListener('scroll', () => document.getElementById('where').textContent = 'at ' + scrollY);
    };"""
    own_pages("tall", long_page)
    own_environment.reset(task_name="tall")
    observation = own_environment.step(BrowserGymAction(action_str=action))
    assert observation.error == ""
    assert (f"at {top}" in observation.pruned_html) == (top != 0)


def test_an_element_half_covered_is_clicked_where_it_shows(environment: BrowserGymEnvironment) -> None:
    environment.reset(seed=8, task_name="click-test-2")  # whose second button covers the middle of the first
    assert environment.step(BrowserGymAction(action_str="click('13')")).reward == 1.0


@pytest.mark.parametrize("text", ["Enter", "Tab", "F5", "ArrowDown", "Control+a", "Control+Shift+Home", "Shift+Tab"])
def test_names_of_keys_are_pressed(text: str) -> None:
    assert is_key(text)


@pytest.mark.parametrize("text", ["", "a", "enter", "F13", "+", "1+1", "Ctrl+a", "Control+", "Enter\n", "Control+ab"])
def test_anything_else_is_typed(text: str) -> None:
    assert not is_key(text)
