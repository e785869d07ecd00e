"""A person at the address of a fleet: the sessions of all servers, one of them followed and played on."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.browser.test_live import open_row, wait_for_text
from tests.chaos.environments import ChainEnvironment
from tests.support.servers import eventually
from tests.support.web_pages import ELSEWHERE, Address, PlayPage

from openenv import GenericEnvClient
from openenv.core.providers.resources import Resources
from openenv.fleet import Fleet

TOKEN = "sesame-open-wide"
SESSIONS, PLACES = 12, 40
_SETTINGS: Any = {"token": TOKEN, "max_sessions": PLACES, "resources": Resources(cpus=0.1)}
_FLEET: Any = {**_SETTINGS, "start_timeout_s": 300.0, "hang_s": 60.0}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    journal = tmp_path_factory.mktemp("fleet") / "journal"
    with Fleet(ChainEnvironment, replicas=2, journal=journal, resume_window_s=90.0, **_FLEET) as fleet:
        yield fleet


def at(browser: Any, fleet: Fleet, path: str, **context: Any) -> PlayPage:
    return PlayPage(browser, Address(fleet.address), path, **context)


def sessions_of_replicas(visit: PlayPage) -> list[int]:
    texts = visit.page.locator("[data-testid=replica] .of").all_inner_texts()
    return [int(text.removesuffix(f" of {PLACES}")) for text in texts]


def row_of(fleet: Fleet, task: str) -> dict[str, Any]:
    """The row of a session in the fleet's table, from which a server may be missing that is slow to answer."""
    rows: list[dict[str, Any]] = []

    def is_found() -> bool:
        table = httpx.get(f"{fleet.address}/sessions", timeout=60).json()
        rows.extend(row for row in table["sessions"] if row["task"] == task)
        return bool(rows)

    eventually(is_found, f"the session of {task} is in the table")
    return rows[0]


def follow(visit: PlayPage, task: str) -> None:
    """Open a session of the table by its task."""
    open_row(visit, task, f":has(:text-is('{task}'))")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_one_table_over_all_servers_and_one_session_followed(
    browser: Any, fleet: Fleet, scheme: Any, width: int
) -> None:
    with GenericEnvClient(base_url=fleet.address, token=TOKEN).sync() as env:
        games = env.vector(SESSIONS)
        games.reset(seeds=range(SESSIONS))
        visit = at(browser, fleet, "/web/live", color_scheme=scheme, viewport={"width": width, "height": 844})
        wait_for_text(visit, "total", str(SESSIONS))
        wait_for_text(visit, "free", str(2 * PLACES - SESSIONS))
        wait_for_text(visit, "serving", "2")
        eventually(lambda: sum(sessions_of_replicas(visit)) == SESSIONS, "the fleet knows how full its servers are")
        assert min(sessions_of_replicas(visit)) > 0
        visit.assert_accessible()
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        follow(visit, "seed 5")
        games.step([{"amount": seed} for seed in range(SESSIONS)])
        wait_for_text(visit, "step", "1")
        visit.assert_accessible()
        visit.close()


def test_a_session_that_moves_to_another_server_is_followed_there(browser: Any, fleet: Fleet) -> None:
    with GenericEnvClient(base_url=fleet.address, token=TOKEN, message_timeout_s=120.0).sync() as env:
        env.reset(seed=100)
        env.step({"amount": 1})
        row = row_of(fleet, "seed 100")
        visit = at(browser, fleet, f"/web/live?session={row['session']}")
        wait_for_text(visit, "step", "1")
        victim = next(replica for replica in fleet.status().replicas if str(replica.number) == row["worker"])
        os.kill(victim.pid, signal.SIGKILL)
        env.step({"amount": 2})
        wait_for_text(visit, "step", "2")
        visit.page.wait_for_selector("[data-testid=status][data-status=open]")
        env.step({"amount": 3})
        wait_for_text(visit, "step", "3")
        visit.close()
    eventually(lambda: len(serving(fleet)) == 2, "another server has taken its place", timeout_s=300)


def serving(fleet: Fleet) -> list[int]:
    return [replica.number for replica in fleet.status().replicas if replica.phase == "serving"]


def test_a_person_plays_on_from_a_session_and_plays_one_of_their_own(browser: Any, fleet: Fleet) -> None:
    with GenericEnvClient(base_url=fleet.address, token=TOKEN).sync() as env:
        env.reset(seed=300)
        env.step({"amount": 3})
        visit = at(browser, fleet, "/web/live", extra_http_headers=ELSEWHERE)
        visit.page.fill("#token", TOKEN)
        visit.page.click("text=Continue")
        follow(visit, "seed 300")
        visit.page.click("[data-testid=fork]")
        wait_for_text(visit, "at", "Step 1")
        visit.step({"amount": 4})
        assert visit.observation["steps"] == env.step({"amount": 4}).observation["steps"] == 2
        assert [address for address in visit.addresses if "sesame" in address] == []
        visit.close()
    visit = at(browser, fleet, "/web/")
    visit.reset(seed=4)
    visit.step({"amount": 4})
    assert visit.observation["steps"] == 1
    visit.close()


def test_a_server_that_does_not_answer_is_named(browser: Any, fleet: Fleet) -> None:
    victim = next(replica for replica in fleet.status().replicas if replica.phase == "serving")
    visit = at(browser, fleet, "/web/live")
    wait_for_text(visit, "serving", "2")
    os.kill(victim.pid, signal.SIGSTOP)
    try:
        visit.page.wait_for_selector(f"[role=status]:has-text('Replica {victim.number} did not answer in time')")
        visit.page.wait_for_selector(".away:has-text('silent')")
        visit.assert_accessible()
    finally:
        os.kill(victim.pid, signal.SIGCONT)
    wait_for_text(visit, "serving", "2")
    visit.close()


@pytest.mark.usefixtures("fleet")  # whose Ray is used
def test_a_fleet_in_production_shows_no_sessions_and_no_controls(browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_MODE", "production")
    with Fleet(ChainEnvironment, **_FLEET) as production:
        visit = at(browser, production, "/web/live")
        visit.page.wait_for_selector("text=production mode")
        assert visit.page.locator("[data-testid=live], nav a:has-text('Live')").count() == 0
        for path in ("/web/live/sessions", "/sessions"):
            assert httpx.get(f"{production.address}{path}", timeout=60).status_code == 404
        assert httpx.post(f"{production.address}/web/live/fork", timeout=60).status_code == 404
        visit.close()
