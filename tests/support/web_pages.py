"""The page of a server in a real browser, as a person uses it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from tests.support.services.axe import violations

from openenv.core.env_server.toolbox.action_tools import tool_names

PATIENCE_MS = 60_000
ELSEWHERE = {"X-Forwarded-For": "203.0.113.9"}
_COUNT_VIOLATIONS = """
window.violations = [];
document.addEventListener('securitypolicyviolation', (event) => window.violations.push(event.violatedDirective));
"""


class Served(Protocol):
    """A server.

    Attributes:
        url: Its address.
    """

    @property
    def url(self) -> str: ...


@dataclass(frozen=True)
class Address:
    """Address of a server that runs elsewhere."""

    url: str


class PlayPage:
    """The page at ``/web``.

    Attributes:
        page: Playwright's page.
        errors: What scripts of the page raised.
        addresses: What the page loaded.
    """

    def __init__(self, browser: Any, server: Served, path: str = "/web/", **context: Any) -> None:
        self._context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **context})
        self._context.set_default_timeout(PATIENCE_MS)
        self.page = self._context.new_page()
        self.errors: list[str] = []
        self.addresses: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.addresses.append(request.url))
        self.page.on("websocket", lambda socket: self.addresses.append(socket.url.replace("ws", "http", 1)))
        self.page.add_init_script(_COUNT_VIOLATIONS)
        self._server = server
        self.page.goto(server.url + path)

    def close(self) -> None:
        """Close the page, and fail for what went wrong in it: errors, violations of its policy, other addresses."""
        assert self.page.evaluate("window.violations") == []
        assert self.errors == [], self.errors
        own = (self._server.url, "data:", "blob:", "about:")
        assert [address for address in self.addresses if not address.startswith(own)] == []
        self._context.close()

    def reset(self, **fields: Any) -> None:
        """Fill in the form of the reset, and send it."""
        self.page.wait_for_selector("[data-testid=reset]")
        for name, value in fields.items():
            field = self.page.locator(f"[data-testid=reset-form] #field-reset-{name}")
            if not field.is_visible():
                self.page.click("[data-testid=reset-form] details:not([open]) > summary")
            _fill(field, value)
        self.page.click("[data-testid=reset]")
        self.wait_for(0)

    def step(self, action: Mapping[str, Any], kind: str | None = None) -> None:
        """Fill in the form of an action, and send it: by the button, where one button is the action.

        Args:
            action: The action's fields.
            kind: Name of the action's class, where there are several.
        """
        steps = self.steps
        if kind is not None and self.page.locator("[data-testid=kind]").count():
            self.page.select_option("[data-testid=kind]", label=tool_names([kind])[0])
        form = self.page.locator("[data-testid=action]")
        choices = form.locator("button.choice")
        if choices.count():
            (value,) = [value for name, value in action.items() if name not in ("metadata", "type")]
            form.locator(
                f"button.choice:has(:text-is('{value}')), button.choice:text-matches('^{value}\\\\d?$')"
            ).click()
        else:
            for name, value in action.items():
                self.fill(name, value)
            self.page.click("[data-testid=step]")
        self.wait_for(steps + 1)

    def fill(self, name: str, value: Any) -> None:
        """Fill in a field of the action's form."""
        field = self.page.locator(f"[data-testid=action] [id='field-{name}']")
        if not field.count():
            return  # a constant, or a field that the form does not show
        _fill(field, value)

    def wait_for(self, steps: int) -> None:
        """Wait until an episode has had a number of steps."""
        self.page.wait_for_selector(f"main[data-busy=no][data-steps='{steps}'] [data-testid=at]")

    @property
    def steps(self) -> int:
        """Steps of the episode."""
        return int(self.page.get_attribute("main", "data-steps"))

    @property
    def observation(self) -> dict[str, Any]:
        """The observation, as the page shows it as JSON."""
        self.page.click("[data-testid=raw]")
        shown: dict[str, Any] = json.loads(self.page.inner_text("[data-testid=observation] pre.json"))
        self.page.click("[data-testid=raw]")
        return shown

    @property
    def reward(self) -> str:
        """The reward of the turn that is shown."""
        return self.text("reward")

    @property
    def done(self) -> bool:
        """Whether the episode is over."""
        return self.text("done") == "done"

    def text(self, test_id: str) -> str:
        """Return the text of an element."""
        return str(self.page.inner_text(f"[data-testid={test_id}]"))

    def assert_accessible(self) -> None:
        """Fail for what axe finds, once the page is drawn: it comes without a landmark and a heading."""
        self.page.wait_for_selector("main", state="attached")
        self.page.wait_for_selector("h1", state="attached")
        found = violations(self.page)
        assert not found, "\n".join(found)


def _fill(field: Any, value: Any) -> None:
    if field.evaluate("element => element.tagName") == "SELECT":
        field.select_option(label=str(value))
    else:
        field.fill(value if isinstance(value, str) else json.dumps(value))


@contextmanager
def failing(page: Any, addresses: str) -> Iterator[None]:
    """Answer the page's requests with an error that passes, for the block.

    Args:
        page: Playwright's page.
        addresses: Pattern of the addresses.
    """
    page.route(addresses, lambda route: route.fulfill(status=503, json={"detail": "too busy"}))
    yield
    page.unroute(addresses)
