"""A person watches the sessions of a server on the page, follows one, and plays on from where it stands."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer, V1Wire, eventually
from tests.support.web_pages import ELSEWHERE, PlayPage, failing

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

HOSTILE = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
TOKEN = "sesame-open-wide"
VECTOR, MANY = 64, 1500
KEEP_SOCKETS = """() => {
    window.sockets = [];
    const Own = WebSocket;
    window.WebSocket = class extends Own { constructor(...args) { super(...args); window.sockets.push(this) } };
}"""

KEEP_RATES = """() => {
    window.rates = [];
    const shown = document.querySelector("[data-testid=rate]");
    const keep = () => window.rates.push(shown.textContent);
    new MutationObserver(keep).observe(shown, { childList: true, characterData: true, subtree: true });
}"""


class Say(Action):
    text: str


class Said(Observation):
    text: str


class SayEnvironment(Environment[Say, Said, State]):
    """Says the same."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False

    def reset(self, seed: int | None = None) -> Said:
        return Said(text="Go.")

    def step(self, action: Say) -> Said:
        components = {"reward_signals": {"loud": 0.5}, "reward_weights": {"loud": 1}}
        return Said(text=f"{action.text} indeed", reward=0.5, metadata=components)

    @property
    def state(self) -> State:
        return State()


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with RunningServer(create_fastapi_app(SayEnvironment, Say, Said, max_concurrent_envs=MANY + VECTOR + 8)) as server:
        yield server


@pytest.fixture
def wire(server: RunningServer) -> Iterator[V1Wire]:
    with server.v1() as wire:
        yield wire
    server.wait_for_sessions(0)


@contextmanager
def watching(browser: Any, server: RunningServer, query: str = "", **context: Any) -> Iterator[PlayPage]:
    visit = PlayPage(browser, server, f"/web/live{query}", **context)
    yield visit
    visit.close()


def follow(visit: PlayPage, session: str) -> None:
    """Open a session of the table by its name."""
    open_row(visit, session[:13], f"[data-name='{session[:13]}']")


def open_row(visit: PlayPage, text: str, row: str) -> None:
    """Open the row that a text finds, once it is the only one: a row that moves under the mouse is not clicked."""
    visit.page.fill("#text", text)
    eventually(lambda: visit.page.locator("[data-testid=session]").count() == 1, "the table is searched")
    visit.page.click(f"[data-testid=session]{row} a")
    visit.page.wait_for_selector("[data-testid=status][data-status=open]")


def wait_for_text(visit: PlayPage, test_id: str, text: str) -> None:
    visit.page.wait_for_selector(f"[data-testid={test_id}]:text-is('{text}')")


def test_a_failure_that_passes_does_not_end_the_table(browser: Any, server: RunningServer) -> None:
    with watching(browser, server) as visit:
        page = visit.page
        page.wait_for_selector("[data-testid=live][aria-busy=false]")
        with failing(page, "**/web/live/sessions?*"):
            page.wait_for_selector("[role=alert]:has-text('The server answered with 503: too busy')")
        page.wait_for_selector("[role=alert]", state="detached")
        page.type("#text", "x" * 210)
        assert page.input_value("#text") == "x" * 200, "the server takes no more"


def test_the_rate_is_of_the_workers_that_answered_twice_running(browser: Any, server: RunningServer) -> None:
    """A worker that falls silent as another one comes back is no burst of steps."""

    def answer(route: Any) -> None:
        table = {**route.fetch().json(), **answers[min(given[0], len(answers) - 1)]}
        given[0] += 1
        route.fulfill(json=table)

    one, other = {"answered": ["0"], "steps": 0}, {"answered": ["1"], "steps": 10**9}
    answers, given = [one, other, one, other], [0]
    with watching(browser, server) as visit:
        visit.page.wait_for_selector("[data-testid=rate]")
        visit.page.evaluate(KEEP_RATES)
        visit.page.route("**/web/live/sessions?*", answer)
        while given[0] <= len(answers):
            with visit.page.expect_response("**/web/live/sessions?*"):
                pass
        wait_for_text(visit, "rate", "0")
        assert set(visit.page.evaluate("window.rates")) <= {"", "0"}


def test_one_of_a_vector_is_followed_and_no_step_is_missing(browser: Any, server: RunningServer, wire: V1Wire) -> None:
    sessions = wire.open_many(VECTOR)
    wire.send([wire.message("reset", session, seed=at) for at, session in enumerate(sessions)])
    wire.receive_many(VECTOR)
    with watching(browser, server) as visit:
        page = visit.page
        wait_for_text(visit, "total", str(VECTOR))
        visit.assert_accessible()
        follow(visit, sessions[7])
        steps = 400
        for step in range(steps):
            wire.send([wire.message("step", session, text=f"{step}") for session in sessions])
            wire.receive_many(VECTOR)
        wait_for_text(visit, "step", str(steps))
        wait_for_text(visit, "total", str(steps / 2).removesuffix(".0"))
        main = page.locator("main")
        assert main.get_attribute("data-missed") == "0"
        assert main.get_attribute("data-entries") == str(steps + 1)
        assert page.locator(".index li").count() < 100
        page.wait_for_selector(f"[data-testid=observation]:has-text('{steps - 1} indeed')")
        assert page.locator(".parts tbody tr").inner_text().split()[:2] == ["Loud", "0.5"]
        visit.assert_accessible()

        page.keyboard.press("ArrowUp")
        page.wait_for_selector("h2:has-text('Step 399')")
        page.keyboard.press("Home")
        page.wait_for_selector("h2:has-text('Reset')")
        wire.do("step", sessions[7], text="more")
        page.wait_for_selector(f"main[data-entries='{steps + 2}']")
        assert page.locator("[data-testid=entry] h2").inner_text().title() == "Reset"
        page.click("[data-testid=latest]")
        page.wait_for_selector("[data-testid=observation]:has-text('more indeed')")
        page.go_back()
        page.wait_for_selector("[data-testid=session]")


def test_texts_are_never_markup(browser: Any, server: RunningServer, wire: V1Wire) -> None:
    session = wire.open()
    wire.do("reset", session)
    with watching(browser, server, f"?session={session[:13]}") as visit:
        visit.page.wait_for_selector("[data-testid=status][data-status=open]")
        wire.do("step", session, text=HOSTILE)
        visit.page.wait_for_selector("pre.text:has-text('window.hacked')")
        assert HOSTILE in visit.page.inner_text("pre.text")
        assert visit.page.evaluate("window.hacked") is None
        wire.do("close", session)
        visit.page.wait_for_selector(".banner:has-text('The session has ended')")
        visit.assert_accessible()


def test_a_broken_connection_goes_on_where_it_was(browser: Any, server: RunningServer, wire: V1Wire) -> None:
    session = wire.open()
    wire.do("reset", session)
    with watching(browser, server) as visit:
        visit.page.evaluate(KEEP_SOCKETS)
        follow(visit, session)
        wire.do("step", session, text="one")
        wait_for_text(visit, "step", "1")
        visit.page.evaluate("window.sockets[0].close(4000)")
        wire.do("step", session, text="two")
        wait_for_text(visit, "step", "2")
        visit.page.wait_for_selector("[data-testid=status][data-status=open]")
        assert visit.page.get_attribute("main", "data-entries") == "3"
        assert visit.page.evaluate("window.sockets.length") == 2


def test_a_session_that_no_journal_has_is_not_waited_for(browser: Any, tmp_path: Path) -> None:
    app = create_fastapi_app(SayEnvironment, Say, Said, journal=tmp_path / "journal")
    with RunningServer(app) as server, server.v1() as wire, server.http() as http:
        session = wire.open()
        wire.do("reset", session)
        (tmp_path / "journal").unlink()
        eventually(lambda: http.get("/sessions").json()["sessions"][0]["recoverable"] is False, "it was noticed")
        with watching(browser, server) as visit:
            visit.page.evaluate(KEEP_SOCKETS)
            visit.page.clock.set_fixed_time(0)  # so that no wait comes to its end
            follow(visit, session)
            visit.page.evaluate("window.sockets[0].close(4000)")
            wire.do("close", session)
            visit.page.wait_for_selector("[data-testid=status][data-status=lost]")


def test_a_person_plays_on_from_where_a_session_stands(browser: Any) -> None:
    app = create_fastapi_app(CounterEnvironment, Add, Total, max_concurrent_envs=4)
    with RunningServer(app) as server, server.v1() as wire:
        session = wire.open()
        wire.do("reset", session)
        for amount in (1, 2):
            wire.do("step", session, amount=amount)
        with watching(browser, server) as visit:
            follow(visit, session)
            visit.page.click("[data-testid=fork]")
            wait_for_text(visit, "at", "Step 2")
            assert visit.text("total") == "3"
            assert visit.observation["total"] == 3
            visit.assert_accessible()
            visit.step({"amount": 4})
            assert (visit.text("at"), visit.text("total"), visit.observation["total"]) == ("Step 3", "7", 7)
            assert wire.do("step", session, amount=1)["data"]["observation"]["total"] == 4
            visit.page.go_back()
            wait_for_text(visit, "step", "3")
            wait_for_text(visit, "total", "4")


def test_what_can_not_be_forked_is_said(browser: Any) -> None:
    app = create_fastapi_app(CounterEnvironment, Add, Total, max_concurrent_envs=2)
    with RunningServer(app) as server, server.v1() as wire, server.wire() as legacy:
        legacy.reset()
        session = wire.open()
        with watching(browser, server) as visit:
            follow(visit, session)
            visit.page.click("[data-testid=fork]")
            visit.page.wait_for_selector("[role=alert]:has-text('capacity')")
            visit.page.click("text=All sessions")
            visit.page.click("[data-testid=session]:has-text('legacy') a")
            visit.page.wait_for_selector("text=only sessions on v1 can be forked")
            visit.assert_accessible()


def test_few_rows_of_many_sessions_are_in_the_page(browser: Any, server: RunningServer, wire: V1Wire) -> None:
    sessions = wire.open_many(MANY)
    wire.do("reset", sessions[0], seed=12345)
    with watching(browser, server) as visit:
        page = visit.page
        wait_for_text(visit, "total", str(MANY))
        assert page.locator(".session").count() < 100
        page.evaluate("document.querySelector('.windowed').scrollTop = 1e9")
        page.wait_for_selector(f"[data-name='{sessions[0][:13]}']")
        page.fill("#text", "seed 12345")
        page.wait_for_selector(".windowed ol:not(:has(li:nth-child(2)))")
        page.select_option("#shown", "done")
        page.wait_for_selector("text=No session is like that.")
        page.fill("#text", "")
        page.select_option("#shown", "playing")
        page.wait_for_selector(f"[data-name='{sessions[0][:13]}']")


def test_the_token_is_asked_for(browser: Any) -> None:
    app = create_fastapi_app(CounterEnvironment, Add, Total, token=TOKEN, max_concurrent_envs=2)
    with RunningServer(app) as server, server.v1() as wire:
        session = wire.open()
        wire.do("reset", session)
        with watching(browser, server, extra_http_headers=ELSEWHERE) as visit:
            visit.page.fill("#token", TOKEN)
            visit.page.click("text=Continue")
            follow(visit, session)
            wire.do("step", session, amount=2)
            wait_for_text(visit, "step", "1")
            assert [address for address in visit.addresses if "sesame" in address] == []


def test_a_server_in_production_has_no_live_view(browser: Any) -> None:
    app = create_fastapi_app(CounterEnvironment, Add, Total, mode="production")
    with RunningServer(app) as server, watching(browser, server) as visit:
        visit.page.wait_for_selector("text=production mode")
        assert visit.page.locator("[data-testid=live], nav a:has-text('Live')").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1000])
def test_the_views_are_readable_in_all_sizes_and_colours(
    browser: Any, server: RunningServer, wire: V1Wire, scheme: str, width: int
) -> None:
    sessions = wire.open_many(30)
    with watching(browser, server, color_scheme=scheme, viewport={"width": width, "height": 844}) as visit:
        visit.page.wait_for_selector("[data-testid=session]")
        visit.assert_accessible()
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        follow(visit, sessions[3])
        wire.do("reset", sessions[3])
        wire.do("step", sessions[3], text="word " * 40)
        wait_for_text(visit, "step", "1")
        visit.assert_accessible()
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
