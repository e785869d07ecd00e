"""Episodes on record are searched, read, compared and saved on the page."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer, eventually
from tests.support.trace_files import BEGAN, entries, episode, new_file
from tests.support.web_pages import ELSEWHERE, PlayPage, failing

from openenv.core.env_server.app import create_fastapi_app
from openenv.traces import Conversation
from openenv.viewer import viewer_app

HOSTILE = "<img src=x onerror='window.hacked = 1'> needle {step}\nGo on."
TOKEN = "sesame-open-wide"
LONG, SHORT, MANY = 5000, 4, 260
WRITTEN = Conversation(
    f"e{MANY + 3}",
    model=HOSTILE,
    messages=[{"role": "assistant", "content": HOSTILE}],
    completion_ids=[11, 12, 13],
    token_texts={"11": "up\n", "12": HOSTILE},
    logprobs=[-0.5, 0.0, -3.0],
    env_mask=[1, 0, 1],
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    path = tmp_path_factory.mktemp("traces") / "traces.db"
    with new_file(path) as traces:
        for number in range(MANY):
            traces.add(episode(number, 1), entries(1))
        traces.add(episode(MANY, LONG), entries(LONG))
        traces.add(episode(MANY + 1, SHORT), entries(SHORT, HOSTILE))
        traces.add(episode(MANY + 2, SHORT), entries(SHORT, HOSTILE, turn_at=3))
        traces.add(episode(MANY + 3, SHORT, "maze"), entries(SHORT, HOSTILE, turn_at=2), [WRITTEN])
    with RunningServer(viewer_app(path)) as server:
        yield server


@pytest.fixture
def visit(browser: Any, server: RunningServer) -> Iterator[PlayPage]:
    visit = PlayPage(browser, server, "/web/traces")
    visit.page.wait_for_selector("[data-testid=episode]")
    yield visit
    visit.close()


def test_all_episodes_are_scrolled_to_and_few_are_in_the_page(visit: PlayPage) -> None:
    page = visit.page
    assert visit.text("count") == f"{MANY + 4} episodes"
    visit.assert_accessible()
    oldest = "[data-testid=episode]:has-text('seed 0')"
    while not page.locator(oldest).count():
        page.evaluate("() => { const box = document.querySelector('.windowed'); box.scrollTop = box.scrollHeight }")
        page.wait_for_timeout(20)
    assert page.locator("[data-testid=episode]").count() < 100


def test_episodes_are_searched_and_compared(visit: PlayPage) -> None:
    page = visit.page
    page.fill("#text", "needle")
    page.wait_for_selector("[data-testid=count]:text-is('3 episodes')")
    with page.expect_download() as saved:
        page.click("text=Save all as JSON")
    assert len(Path(saved.value.path()).read_text().splitlines()) == 3
    for box in page.locator("[data-testid=episode] input").all():
        box.check()
    page.click("button:has-text('Compare')")
    page.wait_for_selector("[data-testid=difference]:has-text('step 2')")
    page.click("[data-testid=difference] p:last-child button")
    page.locator("h2:text-is('Step 2')").nth(2).wait_for()
    moves = [json.loads(shown)["move"] for shown in page.locator("[aria-label=Action]").all_inner_texts()]
    assert sorted(moves) == ["left", "right", "right"]
    assert page.locator("[data-testid=curve] path").count() == 3
    assert "needle 2" in page.locator("pre.text").first.inner_text()
    assert page.evaluate("window.hacked") is None
    visit.assert_accessible()
    page.go_back()
    page.wait_for_selector("[data-testid=episode]")


def test_tasks_by_runs_lead_to_their_episodes_and_what_the_model_wrote(visit: PlayPage) -> None:
    page = visit.page
    page.select_option("#environment", "maze")
    page.click("text=Tasks by runs")
    page.wait_for_selector("[data-testid=count]:text-is('1 task')")
    assert HOSTILE.split("\n")[0] in page.inner_text("[data-testid=grid] thead")
    visit.assert_accessible()
    page.click("[data-testid=grid] td a")
    page.wait_for_selector("[data-testid=count]:text-is('1 episode')")
    page.click("[data-testid=episode] a")
    page.click("summary:has-text('Tokens and log-probabilities')")
    assert page.inner_text("[aria-label=Action]") == HOSTILE
    titles = [token.get_attribute("title") for token in page.locator("[data-testid=tokens] span").all()]
    assert titles == [
        "token 11, log-probability -0.500, 60.7%",
        "token 12, read",
        "token 13, log-probability -3.000, 5.0%",
    ]
    texts = [token.text_content() for token in page.locator("[data-testid=tokens] span").all()]
    assert texts == ["up↵\n", HOSTILE.replace("\n", "↵\n"), "13"], "a token without a text on record has its id"
    visit.assert_accessible()
    page.go_back()
    page.go_back()
    page.wait_for_selector("[data-testid=grid]")
    assert page.input_value("#environment") == "maze"
    assert page.evaluate("window.hacked") is None


def test_links_and_keys_lead_along_the_list_of_the_filter(visit: PlayPage, server: RunningServer) -> None:
    page = visit.page
    newest, middle, oldest = (f"1-{MANY + number}" for number in (4, 3, 2))
    page.goto(f"{server.url}/web/traces?text=needle&colour=red&episode={newest}#step-2")
    page.wait_for_selector("h2:text-is('Step 2')")
    page.locator(".neighbours a[href]:text-is('Next')").press("Enter")
    page.wait_for_selector(f".index .stage-head:has-text('{middle}')")
    page.wait_for_selector("h2:text-is('Reset')")
    assert page.evaluate("document.activeElement.textContent") == "Next"
    page.wait_for_selector(".neighbours a[href]:text-is('Next')")
    page.keyboard.press("n")
    page.wait_for_selector(f".index .stage-head:has-text('{oldest}')")
    page.wait_for_selector(".neighbours a[href]:text-is('Previous')")
    assert page.get_attribute(".neighbours a:text-is('Next')", "aria-disabled") == "true"
    visit.assert_accessible()
    for name in (middle, newest):
        page.wait_for_selector(".neighbours a[href]:text-is('Previous')")
        page.keyboard.press("p")
        page.wait_for_selector(f".index .stage-head:has-text('{name}')")
    page.go_back()
    page.wait_for_selector(f".index .stage-head:has-text('{middle}')")
    page.click("text=All episodes")
    page.wait_for_selector("[data-testid=count]:text-is('3 episodes')")
    assert page.input_value("#text") == "needle"


def test_what_is_no_number_is_left_out_of_the_query(visit: PlayPage, server: RunningServer) -> None:
    page = visit.page
    for typed, matching in (("-", MANY + 4), ("-1", MANY + 4), ("1e", MANY + 4), ("1e3", 1)):
        page.fill("#min_reward", typed)
        page.wait_for_selector(f"[data-testid=count]:text-is('{matching} episode{'s' if matching > 1 else ''}')")
        assert page.input_value("#min_reward") == typed
        assert ("min_reward" in page.url) == (typed in ("-1", "1e3"))
    page.goto(f"{server.url}/web/traces?min_reward=-&run=x&environment=maze&since=-1e300")
    page.wait_for_selector("[data-testid=count]:text-is('1 episode')")


def test_a_failure_that_passes_ends_no_view(visit: PlayPage, server: RunningServer) -> None:
    page = visit.page
    with failing(page, "**/web/traces/export/**"):
        page.click("text=Save all as JSON")
        page.wait_for_selector("[role=alert]:has-text('episodes.json.jsonl was not saved: too busy')")
    oldest = "[data-testid=episode]:has-text('seed 0')"
    with failing(page, "**/web/traces/episodes?*after=*"):
        page.evaluate("() => { const box = document.querySelector('.windowed'); box.scrollTop = box.scrollHeight }")
        page.wait_for_selector("[role=alert]:has-text('The server answered with 503: too busy')")
    page.wait_for_selector(".banner", state="detached")
    while not page.locator(oldest).count():
        page.evaluate("() => { const box = document.querySelector('.windowed'); box.scrollTop = box.scrollHeight }")
        page.wait_for_timeout(20)
    with failing(page, "**/web/traces/grid?*"):
        page.click("text=Tasks by runs")
        page.wait_for_selector(".banner")
    page.wait_for_selector("[data-testid=grid]")
    with failing(page, "**/entries?*"):
        page.goto(f"{server.url}/web/traces?episode=1-{MANY + 1}")
        page.wait_for_selector(".banner")
    page.wait_for_selector("[data-testid=entry]")
    page.wait_for_selector(".banner", state="detached")


def test_a_long_episode_is_read_from_a_link_to_a_step(visit: PlayPage, server: RunningServer) -> None:
    page = visit.page
    page.select_option("#ending", "done")
    page.fill("#min_reward", str(LONG))
    page.click(f"[data-testid=episode]:has-text('seed {MANY}') a")
    page.wait_for_selector("[data-testid=entry]")
    page.goto(f"{page.url}#step-{LONG - 100}")
    page.reload()
    page.wait_for_selector(f"h2:has-text('Step {LONG - 100}')")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    page.wait_for_selector(f"h2:has-text('Step {LONG - 97}')")
    assert page.url.endswith(f"#step-{LONG - 97}")
    assert page.locator(".index li").count() < 100
    page.keyboard.press("End")
    page.wait_for_selector(f"h2:has-text('Step {LONG}')")
    page.wait_for_selector(f"pre.text:has-text('At {LONG}.')")
    assert page.locator(".turn").count() < 60
    with page.expect_download() as saved:
        page.click("text=Save as messages")
    assert f"At {LONG - 1}." in Path(saved.value.path()).read_text()
    visit.assert_accessible()


SAID = [
    {"role": "system", "content": "You walk."},
    {"role": "user", "content": "Go on."},
    {"role": "assistant", "content": "sideways"},
    {"role": "user", "content": "That is no move."},
    {"role": "assistant", "content": "<think>The wall is to the left.</think>right"},
    {"role": "user", "content": "You are at 1."},
    {"role": "assistant", "content": "I go right", "reasoning_content": "Nothing has changed."},
    {"role": "user", "content": "You are at 2."},
    {"role": "assistant", "content": HOSTILE * 3000},
    *([{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "right"}] * 9),
]


def spoken(page: Any, step: int) -> dict[str, str]:
    """Return what a turn shows by its names."""
    page.wait_for_selector(f"[data-turn='{step}'] [data-testid=entry]")
    parts = page.locator(f"[data-turn='{step}'] .spoken").all()
    return {part.locator("h3").first.inner_text(): _in_line(part.locator("> div").inner_text()) for part in parts}


def _in_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_episode_reads_as_a_conversation(browser: Any, tmp_path: Path, scheme: str) -> None:
    with new_file(tmp_path / "traces.db") as traces:
        traces.add(episode(0, 12), entries(12), [Conversation("e0", messages=SAID)])
    with RunningServer(viewer_app(tmp_path / "traces.db")) as server:
        visit = PlayPage(browser, server, "/web/traces?episode=1-1", color_scheme=scheme)
        page = visit.page
        begun, first, second = (spoken(page, step) for step in range(3))
        assert begun["observation"].startswith("system You walk. Go on.")
        assert (first["model"], first["answer"]) == ("sideways", "That is no move.")
        assert (first["thought"], first["action"]) == ("The wall is to the left.", "right")
        assert first["reward"].startswith("1 Reward")
        assert "Pace 0.5" in first["reward"]
        assert first["observation"].startswith("You are at 1.")
        assert second["thought"] == "Nothing has changed."
        assert second["action"] == 'I go right read as { "move": "right" }'
        assert len(spoken(page, 3)["action"]) < 110_000
        visit.assert_accessible()
        for _ in range(4):
            page.keyboard.press("ArrowDown")
        page.wait_for_selector("[data-current=true]:has-text('At 4.')")
        assert page.url.endswith("#step-4")
        assert page.locator("[data-current=true]").bounding_box()["y"] < 200, "the turn is at the top"
        page.locator(".thread").hover()
        page.mouse.wheel(0, 3000)
        page.wait_for_selector("[data-turn='12'] [data-testid=entry]")
        page.wait_for_function("() => Number(location.hash.split('-')[1]) > 4")
        page.keyboard.press("Home")
        page.wait_for_selector("[data-turn='0'][data-current=true]")
        assert page.evaluate("window.hacked") is None
        visit.close()


def test_evaluations_are_filtered_by(browser: Any, tmp_path: Path) -> None:
    with new_file(tmp_path / "traces.db") as traces:
        for number in range(3):
            traces.add(episode(number, 1), entries(1))
        traces.add(replace(episode(3, 1), episode_id="evaluation-3"), entries(1))
    with RunningServer(viewer_app(tmp_path / "traces.db")) as server:
        visit = PlayPage(browser, server, "/web/traces?evaluation=maybe")  # which the page leaves out
        page = visit.page
        page.wait_for_selector("[data-testid=count]:has-text('4 episodes')")
        page.select_option("#evaluation", label="only")
        page.wait_for_selector("[data-testid=count]:has-text('1 episode')")
        page.wait_for_selector("[data-testid=episode]:has-text('seed 3')")
        page.reload()
        page.wait_for_selector("[data-testid=count]:has-text('1 episode')")
        assert page.input_value("#evaluation") == "true"
        page.select_option("#evaluation", label="none")
        page.wait_for_selector("[data-testid=count]:has-text('3 episodes')")
        page.fill("#text", "no such text")
        page.wait_for_selector("[data-testid=count]:has-text('0 episodes')")
        page.wait_for_selector(".results:has-text('No episode matches.')")
        visit.assert_accessible()
        page.click("text=Clear all")
        page.wait_for_selector("[data-testid=count]:has-text('4 episodes')")
        visit.assert_accessible()
        visit.close()


def test_episodes_are_ordered_and_filtered_by_model_reward_and_time(browser: Any, tmp_path: Path) -> None:
    with new_file(tmp_path / "traces.db") as traces:
        for number, (reward, model) in enumerate([(2.0, "tiny"), (None, "tiny"), (-1.0, "large"), (3.0, "tiny")]):
            written = [Conversation(f"e{number}", model=model)]
            traces.add(replace(episode(number, 1), reward=reward), entries(number + 1), written)
    with RunningServer(viewer_app(tmp_path / "traces.db")) as server:
        visit = PlayPage(browser, server, "/web/traces?order=colour", timezone_id="Asia/Kathmandu")
        page = visit.page
        first = "ol .episode:first-child"
        page.wait_for_selector(f"{first}:has-text('seed 3')")
        page.select_option("[data-testid=order]", label="lowest reward first")
        page.wait_for_selector(f"{first}:has-text('seed 2')")
        page.reload()
        page.wait_for_selector(f"{first}:has-text('seed 2')")
        page.select_option("#model", label="tiny")
        page.wait_for_selector("[data-testid=count]:has-text('3 episodes')")
        assert [seed[-1] for seed in page.locator("ol .episode :nth-child(4)").all_inner_texts()] == ["0", "3", "1"]
        page.click(f"{first} a")
        page.wait_for_selector(".neighbours a[href]:text-is('Next')")
        page.keyboard.press("n")
        page.wait_for_selector(".index .stage-head:has-text('1-4')")
        page.click("text=All episodes")
        page.fill("#max_reward", "2.5")
        page.wait_for_selector("[data-testid=count]:has-text('1 episode')")
        page.click("text=Clear all")
        page.select_option("#component", label="pace")
        page.fill("#min_reward", "1.5")
        page.wait_for_selector("[data-testid=count]:has-text('2 episodes')")
        assert page.locator("ol .episode .figure:nth-child(7)").all_inner_texts() == ["1.5", "2"]
        assert page.inner_text(".row-head").split()[-3] == "pace"
        page.click("text=Clear all")
        page.click("summary:has-text('Time')")
        page.fill("#since", "2025-10-09T14:38:21")  # 08:53:21 UTC
        page.fill("#until", "2025-10-09T14:38:22")
        page.wait_for_selector("[data-testid=count]:has-text('2 episodes')")
        assert f"since={BEGAN + 1:.0f}&until={BEGAN + 2.999:.3f}" in page.url
        page.reload()
        page.wait_for_selector("summary:has-text('Time · 2')")
        assert page.input_value("#until") == "2025-10-09T14:38:22"
        assert page.input_value("[data-testid=order]") == "worst"
        visit.assert_accessible()
        visit.close()


def test_what_stands_out_about_episodes_is_marked_in_the_list(browser: Any, tmp_path: Path) -> None:
    error = HOSTILE.split("\n")[0]
    kinds: list[tuple[dict[str, Any], list[str]]] = [
        ({}, []),
        ({"reward": 0.0}, []),
        ({"ending": "truncated"}, ["cut off"]),
        ({"reward": None}, ["no reward"]),
        ({"ending": "running", "ended_at": None, "reward": None}, ["no reward"]),  # its server has died
        ({"ending": "truncated", "error": error, "reward": None}, ["cut off", "no reward", error]),
        ({"token_name": "trainer"}, ["no variance", "above scripted", "trainer"]),
        ({"reward": 0.5}, ["length limit", "no variance"]),
        ({"reward": 0.5}, []),
    ]
    rollout = {"step": 1, "group": 0, "reward": 1.0}
    told = {
        6: Conversation("e6", model="m", extra=rollout),
        7: Conversation("e7", model="m", extra={**rollout, "cut_by": "max_context"}),
        8: Conversation("e8", model="scripted player"),
    }
    with new_file(tmp_path / "traces.db") as traces:
        for number, (changes, _) in enumerate(kinds):
            environment = "walk" if number < 6 else "run"
            played = replace(episode(number, 1, environment), **changes)
            traces.add(played, entries(1), filter(None, [told.get(number)]))
    with RunningServer(viewer_app(tmp_path / "traces.db")) as server:
        visit = PlayPage(browser, server, "/web/traces?order=oldest")
        page = visit.page
        page.wait_for_selector("[data-testid=count]:has-text('9 episodes')")
        marked = [row.locator(".chip").all_inner_texts() for row in page.locator("ol .episode").all()]
        assert marked == [flags for _, flags in kinds]
        assert page.evaluate("window.hacked") is None
        visit.assert_accessible()
        page.select_option("#flag", label="no variance")
        page.wait_for_selector("[data-testid=count]:has-text('2 episodes')")
        page.select_option("#token_name", label="trainer")
        page.wait_for_selector("[data-testid=count]:has-text('1 episode')")
        visit.close()


class UnsteadyEnvironment(CounterEnvironment):
    """Begins at another number each time, unless a seed is given."""

    starts = count(1)

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Total:
        first = super().reset(seed, episode_id)
        if seed is None:
            first.total = self._counter.total = next(self.starts)
        return first


@pytest.mark.parametrize("seed", [5, None])
def test_a_person_plays_on_from_a_step_on_record(browser: Any, tmp_path: Path, seed: int | None) -> None:
    file = tmp_path / "traces.db"
    app = create_fastapi_app(UnsteadyEnvironment, Add, Total, env_name="counter", traces=str(file), token=TOKEN)
    with RunningServer(app) as server, server.v1() as wire, server.http() as http:
        session = wire.open()
        wire.do("reset", session, seed=seed, episode_id=f"evaluation-{'0' * 32}")
        for amount in (1, -1, 3, 4):  # no number may be below 0
            wire.do("step", session, amount=amount)
        wire.do("close", session)
        eventually(lambda: http.get("/web/traces/count").json() == 1, "the episode is on record")
        visit = PlayPage(browser, server, "/web/traces?episode=1-1#step-3", extra_http_headers=ELSEWHERE)
        page = visit.page
        page.fill("#token", TOKEN)
        page.click("button[type=submit]")
        page.click("[data-current=true] [data-testid=play-on]")
        page.wait_for_selector("main[data-busy=no] [data-testid=at]")
        differs = "otherwise" in visit.text("origin")
        assert differs == (seed is None)
        visit.assert_accessible()
        steps = visit.steps
        visit.step({"amount": 10})
        assert visit.steps == steps + 1
        assert seed is None or visit.observation["total"] == 14
        page.click("[data-testid=origin] a")
        page.wait_for_selector("[data-current=true] h2:text-is('Step 3')")
        visit.close()
        eventually(lambda: http.get("/web/traces/count").json() == 2, "what was played is on record")
        mine, _ = http.get("/web/traces/episodes").json()
        assert mine["episode_id"] is None, "it is no evaluation of a training"


def test_what_an_episode_on_record_is_of_is_said_where_it_is_played_on_otherwise(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "traces.db"
    with new_file(file) as traces:
        recorded = replace(episode(1, 0), started_at=time.time())  # a server removes what is old
        traces.add(replace(recorded, environment="counter", version="0.9"), entries(0))
        traces.add(replace(recorded, environment="walk", version="3"), entries(2))
    app = create_fastapi_app(CounterEnvironment, Add, Total, env_name="counter", traces=str(file))
    with RunningServer(app) as server:
        visit = PlayPage(browser, server, "/web/?episode=1-1&step=0")
        visit.page.wait_for_selector("main[data-busy=no] [data-testid=at]")
        assert "It is of version 0.9 of the environment, and this is " in visit.text("origin")
        visit.close()
        visit = PlayPage(browser, server, "/web/?episode=1-2&step=2")
        said = "Step 1 of 1-2, an episode of walk 3, can't be repeated here: "
        visit.page.wait_for_selector(f'.controls .problem:has-text("{said}")')
        assert visit.page.locator(".controls .problem").count() == 1
        visit.reset()
        visit.step({"amount": 2})
        assert visit.observation["total"] == 2
        visit.close()


def test_the_head_of_a_server_that_records_fits_a_phone(browser: Any, tmp_path: Path) -> None:
    name = "counter_of_a_great_many_things"
    app = create_fastapi_app(CounterEnvironment, Add, Total, env_name=name, traces=str(tmp_path / "traces.db"))
    with RunningServer(app) as server:
        visit = PlayPage(browser, server, "/web/traces", viewport={"width": 360, "height": 740})
        save = visit.page.locator("header.top button:has-text('Save')")
        save.wait_for()
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 360
        assert save.bounding_box()["height"] < 40, "in one line"
        visit.assert_accessible()
        visit.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_traces_are_readable_on_a_phone(browser: Any, server: RunningServer, scheme: str) -> None:
    visit = PlayPage(browser, server, "/web/traces", color_scheme=scheme, viewport={"width": 360, "height": 740})
    visit.page.wait_for_selector("[data-testid=episode]")
    visit.assert_accessible()
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 360
    visit.page.locator("[data-testid=episode] a").first.click()
    visit.page.wait_for_selector("[data-testid=entry]")
    visit.assert_accessible()
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 360
    visit.close()
