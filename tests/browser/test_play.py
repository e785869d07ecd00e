"""A person plays on the page: environments of the catalog to their end, forms of all kinds, and hostile texts."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.environments.moves import MapEnvironment
from tests.support.servers import RunningServer
from tests.support.web_pages import ELSEWHERE, PATIENCE_MS, Address, PlayPage

from openenv.auto.discovery import find_environment
from openenv.auto.package import EnvironmentPackage
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State
from openenv.core.providers.local_process import LocalProcessProvider

TOKEN = "sesame-open/wide~>>?"
# Clicks the buttons of the form in turn until the episode is done.
PLAY_IN_TURN = """
async () => {
  const main = document.querySelector("main");
  const isDone = () => document.querySelector("[data-testid=done]").innerText === "done";
  const frame = () => new Promise(requestAnimationFrame);
  const answered = () => new Promise((resolve) => {
    const observer = new MutationObserver(() => {
      if (main.dataset.busy !== "no") return;
      observer.disconnect();
      resolve();
    });
    observer.observe(main, { attributeFilter: ["data-busy"] });
  });
  for (let rounds = 0; !isDone() && rounds < 2000; rounds += 1) {
    await frame();
    for (const button of document.querySelectorAll("[data-testid=action] button.choice")) {
      const answer = answered();
      button.click();
      await answer;
    }
  }
}
"""
HOSTILE = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"


@contextmanager
def playing(browser: Any, app: Any, **context: Any) -> Iterator[PlayPage]:
    with RunningServer(app) as server:
        page = PlayPage(browser, server, **context)
        yield page
        page.close()


# --- The catalog -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "blackjack",
        "catch",
        "openspiel",
        "reasoning_gym",
        "sql",
        "textarena",
        "wordle",
        pytest.param("code_feedback", marks=pytest.mark.needs("sandbox")),
        pytest.param("terminal", marks=pytest.mark.needs("sandbox")),
    ],
)
def test_an_environment_is_played_to_its_end_by_the_form(browser: Any, name: str) -> None:
    package = find_environment(name)
    with playing(browser, package.app()) as page:
        page.reset(seed=3)
        play(page, package)
        assert page.done
        page.assert_accessible()


def test_the_last_cells_of_a_puzzle_are_filled_in_by_the_form(browser: Any) -> None:
    package = find_environment("sudoku")
    with playing(browser, package.app()) as page:
        page.reset(seed=3, clues=78)
        play(page, package)
        assert (page.done, page.reward, page.steps) == (True, "1", 3)


@pytest.mark.needs("sandbox")
def test_an_episode_ends_after_as_many_steps_as_its_form_was_given(browser: Any) -> None:
    package = find_environment("coding")
    with playing(browser, package.app()) as page:
        page.reset(seed=3, max_steps=2)
        play(page, package)
        assert (page.done, page.steps) == (True, 2)


@pytest.mark.level("service")
def test_a_game_of_hundred_moves_is_played_to_its_end_by_the_form(browser: Any) -> None:
    """Moves in turn, those that slide no tile included, since the environment's own player makes a thousand."""
    with playing(browser, find_environment("2048").app()) as page:
        page.reset(seed=2)
        page.page.evaluate(PLAY_IN_TURN)
        assert page.steps > 50
        assert page.observation["legal_moves"] == []


def test_an_environment_without_an_end_goes_on(browser: Any) -> None:
    package = find_environment("echo")
    with playing(browser, package.app()) as page:
        page.reset()
        play(page, package, most_steps=2)
        assert (page.done, page.steps) == (False, 2)


@pytest.mark.needs("browser")
def test_a_task_in_a_browser_is_done_by_the_form(browser: Any) -> None:
    """Its server has a process of its own, since Playwright's browser of the tests is in this one."""
    package = find_environment("browsergym")
    variables = {"BROWSERGYM_TASK_NAME": "enter-text", "BROWSERGYM_TIMEOUT": str(PATIENCE_MS)}
    with LocalProcessProvider("browsergym", env_vars=variables) as server:
        server.wait_for_ready(timeout_s=300)
        page = PlayPage(browser, Address(server.base_url))
        page.reset(seed=3)
        assert page.page.locator("[data-testid=pixels]").evaluate("canvas => canvas.height") == 210
        page.reset(screenshot="false")
        play(page, package)
        assert (page.done, page.reward, page.steps) == (True, "1", 2)
        page.assert_accessible()
        page.close()


def play(page: PlayPage, package: EnvironmentPackage, most_steps: int = 100) -> None:
    """Play an episode to its end with the environment's own player, or some steps of it."""
    player = package.make_player(3)
    observation_class = package.observation_class()
    assert player is not None
    while not page.done and page.steps < most_steps:
        action = player(observation_class.model_validate(page.observation))
        page.step(action.model_dump(mode="json", exclude_unset=True), type(action).__name__)


# --- Forms -----------------------------------------------------------------------------------------------------------


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int = Field(ge=0, le=9)
    y: int = 5


class Circle(BaseModel):
    kind: Literal["circle"] = "circle"
    radius: float = Field(gt=0)


class Box(BaseModel):
    kind: Literal["box"] = "box"
    width: float


class Draw(Action):
    """Draw something."""

    colour: Colour
    at: Point
    shape: Annotated[Circle | Box, Field(discriminator="kind")]
    labels: list[str] = Field(default_factory=list)
    filled: bool = False
    opacity: float | None = Field(default=None, ge=0, le=1)
    secret: str = ""
    extra: dict[str, Any] = Field(default_factory=dict)


class Erase(Action):
    """Erase all."""

    sure: bool


class Canvas(Observation):
    said: dict[str, Any] | None = None


class DrawingEnvironment(Environment[Draw | Erase, Canvas, State]):
    """Says what it was told to draw."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: int | None = None, size: Literal["small", "large"] = "small") -> Canvas:
        self.size = size
        return Canvas(said={"size": size})

    def step(self, action: Draw | Erase) -> Canvas:
        fields = action.model_dump(mode="json", exclude={"metadata"})
        return Canvas(
            said=fields,
            reward=0.75,
            metadata={"reward_signals": {"neat": 1.0, "quick": -0.25}, "reward_weights": {"neat": 1, "quick": 1}},
        )

    @property
    def state(self) -> State:
        return State(episode_id="drawing")


@pytest.fixture
def drawing(browser: Any) -> Iterator[PlayPage]:
    app = create_fastapi_app(DrawingEnvironment, Draw | Erase, Canvas, max_concurrent_envs=2)
    with playing(browser, app) as page:
        yield page


def test_a_form_has_every_kind_of_field(drawing: PlayPage) -> None:
    page = drawing.page
    page.wait_for_selector("summary:has-text('Size')")
    page.click("summary:has-text('Size')")
    page.click("[data-testid=reset-form] .segment:has-text('large')")
    drawing.reset()
    assert drawing.observation["said"] == {"size": "large"}

    form = page.locator("[data-testid=action]")
    form.locator(".segment:has-text('blue')").click()
    drawing.fill("at-x", 7)
    form.get_by_label("Kind of Shape").select_option(label="Box")
    drawing.fill("shape-width", 2.5)
    form.locator("fieldset:has(> legend:has-text('Labels')) > button").click()
    drawing.fill("labels-0", HOSTILE)
    form.get_by_label("Filled").select_option("true")
    assert form.locator("#field-secret").get_attribute("type") == "password"
    drawing.fill("secret", "hush")
    drawing.fill("extra", {"deep": [1, None]})
    drawing.assert_accessible()
    page.keyboard.press("Control+Enter")
    drawing.wait_for(1)

    assert drawing.observation["said"] == {
        "colour": "blue",
        "at": {"x": 7, "y": 5},
        "shape": {"kind": "box", "width": 2.5},
        "labels": [HOSTILE],
        "filled": True,
        "opacity": None,
        "secret": "hush",
        "extra": {"deep": [1, None]},
    }
    shown = [row.split() for row in page.locator(".parts tbody tr").all_inner_texts()]
    assert [(name, score) for name, score, *_ in shown] == [("Neat", "1"), ("Quick", "-0.25")]
    assert page.evaluate("window.hacked") is None


def test_an_error_stands_at_its_field(drawing: PlayPage) -> None:
    drawing.reset()
    drawing.fill("at-x", 12)
    drawing.fill("opacity", "much")
    drawing.page.click("[data-testid=step]")
    wrong = drawing.page.locator("#field-at-x[aria-invalid=true]")
    wrong.wait_for()
    described = wrong.get_attribute("aria-describedby")
    assert "less than or equal to 9" in drawing.page.inner_text(f"[id='{described.split()[-1]}']")
    assert "valid number" in drawing.page.inner_text("#field-opacity-problem")
    assert drawing.page.locator("fieldset:has(#field-at-x) .problem").count() == 1
    assert drawing.steps == 0
    drawing.assert_accessible()


def test_an_error_within_a_field_without_parts_stands_at_the_field(drawing: PlayPage) -> None:
    drawing.reset()
    drawing.page.fill("[data-testid=action] [id='field-shape-radius']", "-1")
    drawing.page.click("[data-testid=step]")
    drawing.page.wait_for_selector("#field-shape-problem")
    problems = drawing.page.locator("fieldset:has(> #field-shape-problem) .problem").all_inner_texts()
    assert problems == ["circle.radius: Input should be greater than 0"]


def test_keys_do_no_step_before_the_first_reset(browser: Any) -> None:
    for app in (find_environment("2048").app(), create_fastapi_app(CounterEnvironment, Add, Total)):
        with playing(browser, app) as page:
            sent: list[str] = []
            page.page.on(
                "websocket", lambda socket, sent=sent: socket.on("framesent", lambda data: sent.append(str(data)))
            )
            page.page.wait_for_selector("[data-testid=action]")
            page.page.keyboard.press("ArrowUp")
            page.page.keyboard.press("1")
            for field in page.page.locator("[data-testid=action] input").all():
                field.press("Control+Enter")
            page.reset()
            assert any('"reset"' in frame for frame in sent)
            assert not any('"step"' in frame for frame in sent)


def test_several_kinds_of_actions_are_chosen_from(drawing: PlayPage) -> None:
    drawing.reset()
    drawing.page.select_option("[data-testid=kind]", label="erase")
    drawing.page.check("#field-sure")
    drawing.page.click("[data-testid=step]")
    drawing.wait_for(1)
    assert drawing.observation["said"] == {"sure": True}


class Steer(Action):
    """Steer, or let go."""

    way: Literal["left", "right"] | None = None


class Tune(Action):
    """Set what there is to set."""

    colour: Colour | None
    loud: bool | None
    level: Annotated[int, Field(ge=0, le=9)] | None
    only: Literal["once"] | None = None
    side: Literal["a", "b"] | None = "a"


class TuningEnvironment(DrawingEnvironment):
    """Says what it was told to set."""


@pytest.mark.parametrize(("label", "way"), [("left", "left"), ("not set", None)])
def test_a_single_optional_choice_is_a_row_of_buttons(browser: Any, label: str, way: str | None) -> None:
    with playing(browser, create_fastapi_app(TuningEnvironment, Steer, Canvas)) as page:
        page.reset()
        page.page.get_by_role("button", name=label, exact=True).click()
        page.wait_for(1)
        assert page.observation["said"] == {"way": way}


def test_optional_choices_may_be_null(browser: Any) -> None:
    with playing(browser, create_fastapi_app(TuningEnvironment, Tune, Canvas)) as page:
        page.reset()
        page.page.click("[data-testid=step]")
        page.wait_for(1)
        assert page.observation["said"] == {"colour": None, "loud": None, "level": None, "only": None, "side": "a"}
        for name, label in (("Colour", "red"), ("Only", "once"), ("Side", "none")):
            group = page.page.locator("[data-testid=action] fieldset", has_text=name)
            group.locator(f"label:has-text('{label}')").click()
        page.page.select_option("#field-loud", label="false")
        page.page.fill("#field-level", "4")
        page.page.click("[data-testid=step]")
        page.wait_for(2)
        assert page.observation["said"] == {"colour": "red", "loud": False, "level": 4, "only": "once", "side": None}
        page.assert_accessible()


def test_members_of_a_root_model_are_chosen_from(browser: Any) -> None:
    with playing(browser, create_fastapi_app(MapEnvironment)) as page:
        page.reset()
        page.page.select_option("[data-testid=kind]", label="look")
        page.page.fill("#field-far", "2")
        page.page.click("[data-testid=step]")
        page.wait_for(1)
        assert page.observation["text"] == '{"kind":"look","far":2}'


# --- Playing ---------------------------------------------------------------------------------------------------------


def test_an_environment_that_a_function_makes_is_played_although_nothing_of_its_reset_is_known(browser: Any) -> None:
    def made() -> CounterEnvironment:
        return CounterEnvironment()

    with playing(browser, create_fastapi_app(made, Add, Total)) as page:
        page.reset()
        page.step({"amount": 2})
        assert page.observation["total"] == 2


def test_the_history_is_walked_by_keys(browser: Any) -> None:
    with playing(browser, find_environment("catch").app()) as page:
        keys = page.page.keyboard
        page.page.wait_for_selector("[data-testid=reset]")
        keys.press("r")
        page.wait_for(0)
        keys.press("ArrowLeft")  # a move by that name
        page.wait_for(1)
        keys.press("2")
        page.wait_for(2)
        assert page.page.locator("[data-testid=history] .what").all_inner_texts() == ["reset", "left", "stay"]
        keys.press("[")
        assert page.text("at") == "Step 1 of 2"
        keys.press("]")
        assert page.text("at") == "Step 2"
        keys.press("?")
        assert page.page.is_visible("dialog.help")


def test_visitors_have_an_episode_each(browser: Any) -> None:
    app = create_fastapi_app(CounterEnvironment, Add, Total, max_concurrent_envs=2)
    with RunningServer(app) as server:
        first, second = PlayPage(browser, server), PlayPage(browser, server)
        first.reset()
        second.reset()
        first.step({"amount": 3})
        second.step({"amount": 4})
        assert (first.observation["total"], second.observation["total"]) == (3, 4)
        server.wait_for_sessions(2)
        first.close()
        second.close()
        server.wait_for_sessions(0)


def test_a_refused_action_and_a_failure_are_said(browser: Any) -> None:
    app = create_fastapi_app(CounterEnvironment, Add, Total)
    with playing(browser, app) as page:
        page.reset()
        for amount, said in ((-1, "Expected a positive amount"), (0, "kaboom")):
            page.fill("amount", amount)
            page.page.click("[data-testid=step]")
            page.page.wait_for_selector(f".problem:has-text('{said}')")
        page.step({"amount": 2})
        assert page.page.locator(".problem").count() == 0


def note_sockets(page: PlayPage) -> None:
    """Have the page keep the sockets that it opens from now on."""
    page.page.evaluate("window.sockets = []")
    page.page.evaluate(
        "() => { const Own = WebSocket; window.WebSocket = class extends Own {"
        " constructor(...args) { super(...args); window.sockets.push(this) } } }"
    )


def test_an_episode_goes_on_after_the_connection_broke(browser: Any) -> None:
    app = create_fastapi_app(CounterEnvironment, Add, Total)
    with RunningServer(app) as server:
        page = PlayPage(browser, server)
        note_sockets(page)
        page.reset()
        page.step({"amount": 3})
        page.page.evaluate("window.sockets[0].close(4000)")
        page.page.wait_for_selector(".status[data-status=open]")
        page.step({"amount": 4})
        assert page.observation["total"] == 7
        assert page.page.evaluate("window.sockets.length") == 2
        page.close()


def test_a_step_waits_while_the_session_is_resumed(browser: Any) -> None:
    app = create_fastapi_app(CounterEnvironment, Add, Total)
    with RunningServer(app) as server:
        page = PlayPage(browser, server)
        note_sockets(page)
        page.reset()
        page.page.fill("[data-testid=action] [id='field-amount']", "3")
        page.page.evaluate(
            "() => { const [socket] = window.sockets;"
            " socket.addEventListener('close', () => document.querySelector('[data-testid=step]').click());"
            " socket.close(4000) }"
        )
        page.page.wait_for_selector("main[data-steps='1']")
        assert page.observation["total"] == 3
        assert page.page.evaluate("window.sockets.length") == 2
        page.close()


def test_the_call_is_shown_as_code(browser: Any) -> None:
    with playing(browser, create_fastapi_app(CounterEnvironment, Add, Total, max_concurrent_envs=2)) as page:
        page.reset(seed=3)
        page.step({"amount": 2})
        page.page.click("role=tab[name=Code]")
        python = page.text("code")
        exec(python, {})
        page.page.click(".segment:has-text('MCP')")
        call = json.loads(page.text("code").partition("\n")[2])
        assert call["params"] == {"name": "add", "arguments": {"amount": 2}}
        page.page.click(".segment:has-text('curl')")
        assert """-d '{"action":{"amount":2}}'""" in page.text("code")
        page.assert_accessible()
        for tab in ("State", "About"):
            page.page.click(f"role=tab[name={tab}]")
            page.assert_accessible()


# --- What the environment renders, and hostile texts -----------------------------------------------------------------


class Say(Action):
    text: Literal["again"]


class Page(Observation):
    text: str
    picture: str
    rows: list[list[int]]
    nested: dict[str, Any]


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class HostileEnvironment(Environment[Say, Page, State]):
    """Sends markup wherever it can."""

    renders: str | None = None

    def reset(self, seed: int | None = None) -> Page:
        return Page(text=HOSTILE, picture=PIXEL, rows=[[0, 2], [4, 8]], nested={HOSTILE: HOSTILE})

    step = reset  # type: ignore[assignment]

    @property
    def state(self) -> State:
        return State(episode_id=HOSTILE)

    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(
            name=HOSTILE,
            description=HOSTILE,
            readme_content=f"# {HOSTILE}\n\n[a](javascript:window.hacked=1) `{HOSTILE}`\n\n|a|\n|-|\n|{HOSTILE}|\n",
        )

    def render_web(self, observation: dict[str, Any]) -> str | None:
        return self.renders

    def web_actions(self, observation: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        assert observation["done"] is False
        return [(HOSTILE, {"text": "again"})]


class RenderingEnvironment(HostileEnvironment):
    renders = f"<style>p {{ color: green }}</style><p id='own'>A board</p>{HOSTILE}<form><button>x</button></form>"


def test_texts_are_never_markup(browser: Any) -> None:
    with playing(browser, create_fastapi_app(HostileEnvironment, Say, Page)) as page:
        page.page.wait_for_selector("text=window.hacked")
        page.reset()
        page.page.wait_for_selector("button.choice:has-text('<script>')")
        assert page.page.locator("pre.text").all_inner_texts() == [HOSTILE] * 2
        assert page.page.locator("img.picture").evaluate("image => image.naturalWidth") == 1
        assert page.page.locator("table.board td").all_inner_texts() == ["0", "2", "4", "8"]
        page.page.click("button.choice:has-text('<script>')")
        page.wait_for(1)
        for tab in ("State", "Code", "About", "History"):
            page.page.click(f"role=tab[name={tab}]")
            assert page.page.evaluate("window.hacked") is None
        page.assert_accessible()


def test_html_of_an_environment_can_do_nothing(browser: Any) -> None:
    with playing(browser, create_fastapi_app(RenderingEnvironment, Say, Page)) as page:
        page.reset()
        frame = page.page.frame_locator("iframe.frame")
        assert frame.locator("#own").evaluate("element => getComputedStyle(element).color") == "rgb(0, 128, 0)"
        assert page.page.evaluate("window.hacked") is None
        assert page.page.locator("iframe.frame").get_attribute("sandbox") == ""


# --- Who may play ----------------------------------------------------------------------------------------------------


def test_the_token_is_asked_for_once_and_kept_from_addresses(browser: Any) -> None:
    app = create_fastapi_app(CounterEnvironment, Add, Total, token=TOKEN)
    with playing(browser, app, extra_http_headers=ELSEWHERE) as page:
        for typed in ("another", TOKEN):
            page.page.fill("#token", typed)
            page.assert_accessible()
            page.page.click("text=Continue")
        page.reset()
        page.step({"amount": 2})
        assert page.observation["total"] == 2
        page.page.click("role=tab[name=Code]")
        assert TOKEN not in page.page.content()
        page.page.reload()
        page.reset()
        assert [address for address in page.addresses if "sesame" in address] == []


def test_a_server_in_production_shows_no_controls(browser: Any) -> None:
    app = create_fastapi_app(CounterEnvironment, Add, Total, mode="production")
    with playing(browser, app) as page:
        page.page.wait_for_selector("text=production mode")
        assert page.page.locator("form, [data-testid=reset]").count() == 0
        page.assert_accessible()


@pytest.mark.parametrize(
    "lost",
    ["web/config", "metadata", "web/static/app.js", "web/static/play.js", "web/static/form.js", "web/static/vendor/*"],
)
def test_what_a_network_loses_while_the_page_is_loaded_is_requested_again(browser: Any, lost: str) -> None:
    with playing(browser, create_fastapi_app(CounterEnvironment, Add, Total)) as page:
        page.page.route(f"**/{lost}", lambda route: route.abort("connectionreset"), times=1)
        page.page.reload()
        page.reset()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1000])
def test_the_page_is_readable_in_all_sizes_and_colours(browser: Any, scheme: str, width: int) -> None:
    app = create_fastapi_app(HostileEnvironment, Say, Page)
    with playing(browser, app, color_scheme=scheme, viewport={"width": width, "height": 740}) as page:
        page.reset()
        page.page.wait_for_selector("button.choice:has-text('<script>')")
        page.assert_accessible()
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
