"""The pages of a server in a real browser that can reach nothing but the server."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer
from tests.support.web_pages import ELSEWHERE, PlayPage

from openenv.core.env_server.app import create_fastapi_app

TOKEN = "sesame-open-wide"
PATIENCE_MS = 120_000


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """A server that needs a token from elsewhere."""
    with RunningServer(create_fastapi_app(CounterEnvironment, Add, Total, token=TOKEN)) as server:
        yield server


class Visit:
    """A page, with what went wrong in it."""

    def __init__(self, browser: Any, *, from_elsewhere: bool) -> None:
        headers = {"X-Forwarded-For": "203.0.113.9"} if from_elsewhere else {}
        self.page = browser.new_page(extra_http_headers=headers)
        self.from_elsewhere = from_elsewhere
        self.page.set_default_timeout(PATIENCE_MS)
        self.problems: list[str] = []
        self.addresses: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.addresses.append(request.url))

    def foreign(self, server: RunningServer) -> list[str]:
        """Addresses that were asked for elsewhere."""
        return [address for address in self.addresses if not address.startswith((server.url, "data:", "blob:"))]


@pytest.fixture(params=[False, True], ids=["here", "elsewhere"])
def visit(browser: Any, request: pytest.FixtureRequest) -> Iterator[Visit]:
    visit = Visit(browser, from_elsewhere=request.param)
    yield visit
    visit.page.close()


@pytest.mark.parametrize(("path", "shown"), [("/docs", ".opblock-summary-path"), ("/redoc", "[data-section-id]")])
def test_the_api_is_shown_without_the_internet(visit: Visit, server: RunningServer, path: str, shown: str) -> None:
    page = visit.page
    page.goto(server.url + path)
    page.wait_for_selector(f"{shown}, #ask:not([hidden])")
    if visit.from_elsewhere:
        page.fill("#token", "another")
        page.click("text=Show the API")
        page.wait_for_selector("#problem:has-text('got another one')")
        page.fill("#token", TOKEN)
        page.click("text=Show the API")
    page.wait_for_selector(shown)
    assert page.title() == "CounterEnvironment"
    assert visit.problems == []
    assert visit.foreign(server) == []
    assert TOKEN not in page.url
    assert page.evaluate("Object.keys(localStorage).length + Object.keys(sessionStorage).length") == 0


def test_a_request_that_is_tried_out_has_the_token(visit: Visit, server: RunningServer) -> None:
    page = visit.page
    page.goto(server.url + "/docs")
    page.wait_for_selector(".opblock-summary-path, #ask:not([hidden])")
    if visit.from_elsewhere:
        page.fill("#token", TOKEN)
        page.click("text=Show the API")
    page.click("#operations-Environment-metadata_metadata_get")
    page.click("text=Try it out")
    page.click("button.execute")
    page.wait_for_selector(".live-responses-table .response-col_status:has-text('200')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_api_is_tried_within_the_page_with_its_token(browser: Any, server: RunningServer, scheme: str) -> None:
    visit = PlayPage(browser, server, "/web/", extra_http_headers=ELSEWHERE, color_scheme=scheme)
    page = visit.page
    page.fill("#token", TOKEN)
    page.click("button[type=submit]")
    page.click("nav a:text-is('API')")
    page.wait_for_selector("nav a[aria-current=page]:text-is('API')")
    api = page.frame_locator("iframe[title='The HTTP API']")
    api.locator("#operations-Environment-metadata_metadata_get").click()
    api.locator("text=Try it out").click()
    api.locator("button.execute").click()
    api.locator(".live-responses-table .response-col_status:has-text('200')").wait_for()
    assert api.locator("html.dark-mode").count() == (scheme == "dark")
    page.click("button[aria-label^=Colours]")
    api.locator("html:not(.dark-mode)").wait_for()
    page.click("button[aria-label^=Colours]")
    api.locator("html.dark-mode").wait_for()
    page.click("nav a:text-is('Play')")
    page.wait_for_selector("[data-testid=play]")
    visit.close()


def test_the_start_page(visit: Visit, server: RunningServer) -> None:
    page = visit.page
    page.goto(server.url)
    assert page.locator("h1").inner_text() == ("An environment" if visit.from_elsewhere else "CounterEnvironment")
    assert page.evaluate("getComputedStyle(document.body).maxWidth") != "none"  # its style is allowed by its policy
    page.click("a[href='docs']")
    page.wait_for_selector(".opblock-summary-path, #ask:not([hidden])")
    assert (visit.problems, visit.foreign(server)) == ([], [])


# Of 80 KB each; a reader that looks through the rest of the document from each beginning takes a minute for the first.
HOSTILE_READMES = {
    "links": ("", "[a](", ""),
    "images": ("", "![a](b ", ""),
    "code": ("", "``a` ", ""),
    "addresses": ("", "<http://a", ""),
    "a heading": ("# ", " ", "x"),
    "a heading that is closed": ("# ", "#", "x"),
    "the line below a table's head": ("a|b\n", " ", "x"),
    "an item with a line separator": ("-", " ", "\u2028x"),
}


@pytest.mark.parametrize("document", HOSTILE_READMES.values(), ids=HOSTILE_READMES)
def test_a_readme_takes_no_time_beyond_its_length(
    browser: Any, server: RunningServer, document: tuple[str, str, str]
) -> None:
    first, again, last = document
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{server.url}/web/")
    took_ms = page.evaluate(
        """async (text) => {
            const { markdown } = await import("./static/markdown.js");
            const began = performance.now();
            markdown(text);
            return performance.now() - began;
        }""",
        first + again * (80_000 // len(again)) + last,
    )
    page.close()
    assert took_ms < 20_000
