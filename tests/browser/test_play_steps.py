"""A person plays on the page: tools beside their task, buttons of the environment, hanging steps, large values."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest
from fastmcp import FastMCP
from pydantic import BaseModel, ConfigDict, Field
from tests.support.environments.common import Add, CounterEnvironment, ThreadedCounterEnvironment, Total
from tests.support.servers import RunningServer
from tests.support.web_pages import PlayPage

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, Observation, State

TASK = "Find the shortest way from the harbour to the lighthouse, and say how long it is in whole metres."
LONG_RESULT = "From the harbour along the shore, then up the stairs: 1,240 m, or 1,180 m where the gate is open."


@contextmanager
def playing(browser: Any, app: Any, **context: Any) -> Iterator[tuple[PlayPage, RunningServer]]:
    with RunningServer(app) as server:
        page = PlayPage(browser, server, **context)
        yield page, server
        page.close()


class Way(Observation):
    task: str


class MapEnvironment(MCPEnvironment):
    """Answers by tools alone."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        tools = FastMCP("map")

        @tools.tool
        def route(start: str, metres: int, slope: float = 0.5) -> str:
            """Describe a way."""
            self.calls.append(("route", start, metres, slope))
            return LONG_RESULT

        @tools.tool
        def places() -> list[dict[str, Any]]:
            """List the places."""
            self.calls.append(("places",))
            return [{"name": "harbour", "near": ["shore", "gate"]}, {"name": "lighthouse", "near": []}]

        super().__init__(tools)
        self.calls: list[tuple[Any, ...]] = []
        self._state = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **parameters: Any) -> Observation:
        self._state = State(episode_id=episode_id)
        return Way(task=TASK)

    def _step_impl(self, action: Action, timeout_s: float | None = None, **parameters: Any) -> Observation:
        raise NotImplementedError

    @property
    def state(self) -> State:
        return self._state


class TestTools:
    @pytest.fixture
    def played(self, browser: Any) -> Iterator[PlayPage]:
        app = create_fastapi_app(MapEnvironment, CallToolAction, CallToolObservation)
        with playing(browser, app) as (page, _):
            page.reset()
            page.page.wait_for_selector("[data-testid=kind]")
            yield page

    def test_the_task_stays_beside_the_form_and_results_are_open(self, played: PlayPage) -> None:
        page = played.page
        assert page.locator("[data-testid=task]").count() == 0  # it is the observation that is shown
        page.select_option("[data-testid=kind]", label="places")
        page.click("[data-testid=step]")
        played.wait_for(1)
        assert TASK in page.inner_text("[data-testid=task]")
        assert page.locator("[data-testid=observation] >> text=lighthouse").first.is_visible()
        page.select_option("[data-testid=kind]", label="route")
        played.fill("start", "harbour")
        played.fill("metres", 5)
        page.click("[data-testid=step]")
        played.wait_for(2)
        assert TASK in page.inner_text("[data-testid=task]")
        assert page.locator(f"[data-testid=observation] >> text={LONG_RESULT}").first.is_visible()
        played.assert_accessible()

    @pytest.mark.parametrize(
        ("fields", "wrong", "said"),
        [
            ({"metres": 5}, "start", "Field required"),
            ({"start": "here"}, "metres", "Field required"),
            ({"start": "here", "metres": "far"}, "metres", "Expected a number"),
            ({"start": "here", "metres": 1.5}, "metres", "Expected a whole number"),
        ],
    )
    def test_arguments_that_do_not_fit_are_an_error_at_their_field_and_no_step(
        self, played: PlayPage, fields: dict[str, Any], wrong: str, said: str
    ) -> None:
        page = played.page
        page.select_option("[data-testid=kind]", label="route")
        for name, value in fields.items():
            played.fill(name, value)
        page.click("[data-testid=step]")
        page.wait_for_selector(f"#field-{wrong}[aria-invalid=true]")
        assert said in page.inner_text(f"#field-{wrong}-problem")
        assert page.evaluate("document.activeElement.id") == f"field-{wrong}"
        assert played.steps == 0
        played.assert_accessible()
        for name, value in {"start": "here", "metres": 7}.items():
            played.fill(name, value)
        page.click("[data-testid=step]")
        played.wait_for(1)
        assert page.locator("[aria-invalid=true]").count() == 0


class Leg(BaseModel):
    to: str
    km: int


class Trip(Action):
    leg: Leg
    way: Literal["road", "sea"]
    stops: list[str] = Field(min_length=1)


class TripEnvironment(CounterEnvironment):
    """Takes actions whose fields have parts."""

    def step(self, action: Any) -> Total:
        return Total(total=action.leg.km)


def test_the_first_of_several_faults_has_the_focus_in_groups_too(browser: Any) -> None:
    with playing(browser, create_fastapi_app(TripEnvironment, Trip, Total)) as (page, _):
        page.reset()
        focused = "document.activeElement.closest('fieldset, .input')?.innerText.split('\\n')[0].trim()"
        faults: list[tuple[str, Callable[[], None]]] = [
            ("To", lambda: page.fill("leg-to", "Crete")),
            ("Km", lambda: page.fill("leg-km", 9)),
            ("Way", lambda: page.page.click("label.segment:has-text('sea')")),
            ("Stops", lambda: page.page.click("fieldset:has(> legend:has-text('Stops')) >> text=Add")),
        ]
        for name, correct in faults:
            page.page.click("[data-testid=step]")
            page.page.wait_for_function(f"name => {focused} === name", arg=name)
            assert page.steps == 0
            page.assert_accessible()
            correct()
        page.page.click("[data-testid=step]")
        page.wait_for(1)
        assert page.observation["total"] == 9


class Turn(Action):
    side: Literal["left", "right"]


class Signal(Observation):
    crossing: int = 0


class OfferingEnvironment(Environment[Turn, Signal, State]):
    """Offers a button of its own, for two steps."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self) -> Signal:
        self._crossing = 0
        return Signal()

    def step(self, action: Turn) -> Signal:
        self._crossing += 1
        return Signal(crossing=self._crossing, done=self._crossing == 2)

    @property
    def state(self) -> State:
        return State()

    def web_actions(self, observation: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        return [("To the lighthouse", {"side": "left"})]


def test_buttons_of_the_environment_replace_those_of_the_form_and_end_with_the_episode(browser: Any) -> None:
    with playing(browser, create_fastapi_app(OfferingEnvironment, Turn, Signal)) as (page, _):
        page.reset()
        offered = page.page.locator("button.choice", has_text="To the lighthouse")
        offered.wait_for()
        assert page.page.locator("button.choice").count() == 1
        offered.focus()
        page.page.keyboard.press("Enter")
        page.wait_for(1)
        offered.wait_for()
        assert page.page.evaluate("document.activeElement.innerText").startswith("To the lighthouse")
        page.page.keyboard.press("Enter")
        page.wait_for(2)
        assert page.done
        assert offered.count() == 0
        page.page.wait_for_function("document.activeElement.dataset.testid === 'reset'")
        page.assert_accessible()


def test_the_focus_stays_where_it_was(browser: Any) -> None:
    with playing(browser, create_fastapi_app(CounterEnvironment, Add, Total)) as (page, _):
        page.reset()
        assert page.page.evaluate("document.activeElement.dataset.testid") == "reset"
        page.page.focus("#field-amount")
        for step in (1, 2):
            page.fill("amount", step)
            page.page.keyboard.press("Control+Enter")
            page.wait_for(step)
            assert page.page.evaluate("document.activeElement.id") == "field-amount"
        page.page.focus("[data-testid=step]")
        page.page.keyboard.press("Enter")
        page.wait_for(3)
        assert page.page.evaluate("document.activeElement.dataset.testid") == "step"


class HangingEnvironment(ThreadedCounterEnvironment):
    """Hangs in a step until its gate is open."""

    gate = threading.Event()

    def step(self, action: Add) -> Total:
        if action.amount == 9:
            self.gate.wait()
        return super().step(action)


def test_a_step_that_hangs_shows_its_time_and_can_be_cancelled(browser: Any) -> None:
    HangingEnvironment.gate.clear()
    with playing(browser, create_fastapi_app(HangingEnvironment, Add, Total, max_concurrent_envs=2)) as (page, _):
        page.reset()
        page.fill("amount", 9)
        page.page.click("[data-testid=step]")
        page.page.wait_for_selector("[data-testid=waiting]:has-text('3 seconds')")
        page.assert_accessible()
        page.page.click("[data-testid=cancel]")
        page.page.wait_for_selector(".problem:has-text('You cancelled the request')")
        page.page.wait_for_selector(".note:has-text('The session has ended. Reset starts another one.')")
        page.page.click("[data-testid=reset]")
        page.wait_for(0)
        page.step({"amount": 2})
        assert page.observation["total"] == 2
        HangingEnvironment.gate.set()


class HangingResetEnvironment(ThreadedCounterEnvironment):
    """Hangs in the reset with a seed until its gate is open."""

    gate = threading.Event()

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Total:
        if seed == 9:
            self.gate.wait()
        return super().reset(seed, episode_id)


def test_a_reset_that_hangs_shows_its_time_and_can_be_cancelled(browser: Any) -> None:
    HangingResetEnvironment.gate.clear()
    app = create_fastapi_app(HangingResetEnvironment, Add, Total, max_concurrent_envs=2)
    with playing(browser, app) as (page, _):
        page.page.fill("#field-reset-seed", "9")
        page.page.keyboard.press("Enter")
        page.page.wait_for_selector("[data-testid=waiting]:has-text('The reset has taken 3 seconds')")
        page.page.click("[data-testid=cancel]")
        page.page.wait_for_selector(".problem:has-text('You cancelled the request')")
        assert page.page.locator(".controls .problem").count() == 1
        page.reset(seed="2")
        page.step({"amount": 2})
        assert page.observation["total"] == 2
        HangingResetEnvironment.gate.set()


class Anything(Observation):
    model_config = ConfigDict(extra="allow")


class AnythingEnvironment(CounterEnvironment):
    """Returns what it was made with."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__()
        self._fields = fields

    def reset(self) -> Anything:  # type: ignore[override]
        return Anything(**self._fields)


def nested(depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = {"end": 1}
    for _ in range(depth):
        inner = {"inner": inner, "text": "long " * 60_000}
    return inner


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"outer": nested(30)}, "object · 2"),
        ({"cities": {f"c{n}": {f"s{k}": {"x": k, "y": n} for k in range(100)} for n in range(150)}}, "object · 150"),
        ({f"log{n}": "line\n" * 1000 for n in range(900)}, "700 more fields"),
        ({f"n{n}": n for n in range(5000)}, "4,800 more fields"),
    ],
    ids=["deep", "wide", "texts", "numbers"],
)
def test_of_large_observations_in_many_parts_the_beginning_is_shown(
    browser: Any, fields: dict[str, Any], said: str
) -> None:
    app = create_fastapi_app(lambda: AnythingEnvironment(fields), Add, Anything)
    with playing(browser, app) as (page, _):
        page.reset()
        assert said in page.text("observation")
        assert len(page.text("observation")) < 1_100_000
        assert page.page.locator("[data-testid=observation] *").count() < 5_000
        page.page.click("[data-testid=raw]")
        page.page.wait_for_selector("pre.json")


class Large(Observation):
    text: str = ""
    rows: list[list[int]] = Field(default_factory=list)
    log: list[str] = Field(default_factory=list)
    nested: dict[str, Any] = Field(default_factory=dict)


class LargeEnvironment(CounterEnvironment):
    """Returns observations of some 30 million characters."""

    def reset(self) -> Large:  # type: ignore[override]
        return Large(
            text="word " * 2_000_000,
            rows=[list(range(1000)) for _ in range(1000)],
            log=["line"] * 1_000_000,
            nested={"deep": {str(number): [number] * 10 for number in range(100_000)}},
        )


def test_a_large_observation_does_not_stop_the_page(browser: Any) -> None:
    with playing(browser, create_fastapi_app(LargeEnvironment, Add, Large)) as (page, _):
        page.reset()
        shown = page.page.evaluate("document.querySelector('[data-testid=observation]').innerText.length")
        assert 100_000 < shown < 1_000_000
        assert "9,900,000 more characters" in page.text("observation")
        assert page.page.locator("[data-testid=observation] *").count() < 10_000
        page.page.click("[data-testid=raw]")
        page.page.wait_for_selector("pre.json")
        assert page.page.inner_text("[data-testid=observation] pre.json").endswith("… and more")
        page.page.click("[data-testid=raw]")
        page.page.click("text=State")
        page.page.wait_for_selector("pre.json")


class Letter(Observation):
    text: str


class LetterEnvironment(CounterEnvironment):
    """Renders as text what a model reads, or the board that it was given."""

    drawn = ""

    def reset(self, seed: int | None = None, board: str = "") -> Letter:  # type: ignore[override]
        self.drawn = board or TASK
        super().reset(seed=seed)
        return Letter(text=TASK)

    def render(self) -> str:
        return self.drawn


def test_sentences_that_are_rendered_are_wrapped_and_boards_are_not(browser: Any) -> None:
    with playing(browser, create_fastapi_app(LetterEnvironment, Add, Letter)) as (page, _):
        rendered = page.page.locator("pre.terminal")
        overflow = "element => element.scrollWidth - element.clientWidth"
        for board, is_wider, opened in (("", False, 0), ("a b c d e " * 20, True, 1)):
            page.reset(board=board)
            page.page.wait_for_selector("pre.terminal")
            assert (rendered.evaluate(overflow) > 0) == is_wider
            assert page.page.locator("details[open]:has-text('What a model reads')").count() == opened


IN_VIEW = """
element => {
  const { top, bottom } = element.getBoundingClientRect();
  return top >= 0 && bottom <= innerHeight;
}
"""


class Parcel(BaseModel):
    street: str = ""
    town: str = ""
    country: str = ""
    remark: str = ""


class Post(Action):
    first: Parcel
    second: Parcel
    third: Parcel
    way: Literal["road", "sea"] = "road"


class PostEnvironment(CounterEnvironment):
    """Has a form that is longer than the page, fails by sea, and by road waits for a gate."""

    def __init__(self, gate: threading.Event) -> None:
        super().__init__()
        self._gate = gate

    def step(self, action: Any) -> Total:
        if action.way == "sea":
            raise ConnectionError("the ship sank")
        self._gate.wait(60)
        return Total(total=1)


@pytest.mark.parametrize("width", [360, 1280])
def test_of_a_long_form_the_end_is_as_good_as_the_beginning(browser: Any, width: int) -> None:
    gate = threading.Event()
    size = {"width": width, "height": 740}
    app = create_fastapi_app(lambda: PostEnvironment(gate), Post, Total)
    with playing(browser, app, viewport=size) as (visit, _):
        visit.reset()
        page = visit.page
        page.click("label.segment:has-text('sea')")
        page.keyboard.press("Control+Enter")
        problem = page.locator("[data-testid=action] .problem:has-text('the ship sank')")
        problem.wait_for()
        assert problem.evaluate(IN_VIEW), "where the person looks"
        if width > 1000:
            assert page.evaluate("document.documentElement.scrollHeight - innerHeight") == 0, (
                "its panels scroll, not the page"
            )
        page.click("label.segment:has-text('road')")
        page.click("[data-testid=step]")
        page.wait_for_selector("[data-testid=cancel]")
        assert page.locator("[data-testid=cancel]").evaluate(IN_VIEW)
        gate.set()
        visit.wait_for(1)
