"""One session's page: a task begins on it, actions are done to it, and it is looked at."""

import asyncio
import base64
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import BrowserContext, CDPSession, Page, Route
from playwright.async_api import Error as PlaywrightError

from .accessibility import accessibility_text, bids_of
from .action_language import Call
from .browser import SharedBrowser
from .miniwob_tasks import page_seed, pages_folder, shown, task_url
from .page_actions import SETTLE_MS, PageActions, perform
from .settings import Settings

_SCRIPT = Path(__file__).with_name("page.js")
_CLOSE_S = 5.0


@dataclass(frozen=True)
class Look:
    """State of a page.

    Attributes:
        url: Its address.
        axtree: Its accessibility tree as text.
        html: Its elements.
        screenshot: A picture of it as a PNG file; ``None`` where it was not requested.
        ended: Whether the episode is over.
        raw_reward: Reward of the task, from -1 to 1.
        reason: Reason that the task gives, if any.
    """

    url: str
    axtree: str
    html: str
    screenshot: bytes | None
    ended: bool
    raw_reward: float
    reason: str | None


async def open_context(browser: SharedBrowser, settings: Settings) -> BrowserContext:
    """Open a context for one page.

    Args:
        browser: Where.
        settings: The size of its window.

    Raises:
        EnvironmentFailedError: There is no browser, or it does not start.
    """
    return await browser.new_context(
        viewport={"width": settings.viewport_width, "height": settings.viewport_height},
        locale="en-US",
        timezone_id="UTC",
        accept_downloads=False,
    )


class TaskPage:
    """Page in a separate context. All of it runs where the browser does.

    Attributes:
        goal: Goal of the present task.
    """

    def __init__(self, context: BrowserContext, page: Page, devtools: CDPSession) -> None:
        self.goal = ""
        self._context = context
        self._page = page
        self._devtools = devtools
        self._actions = PageActions(page)
        self._expected: str | None = None
        self._crashed = False
        page.on("crash", self._note_crash)

    @classmethod
    async def open(cls, context: BrowserContext) -> "TaskPage":
        """Open a page that reaches nothing but the files of the tasks.

        Args:
            context: One that has no page yet. It is closed where that fails.
        """
        context.set_default_timeout(0)  # the environment limits an action as a whole
        try:
            await context.add_init_script(path=_SCRIPT)
            page = await context.new_page()
            context.on("page", _close_popup)
            opened = cls(context, page, await context.new_cdp_session(page))
            await context.route(_other_than_parts(), opened._answer_request)
        except BaseException:
            await _close(context)
            raise
        return opened

    @property
    def lost(self) -> bool:
        """Return whether the page is gone, or in a state that a new episode must not inherit."""
        return self._crashed or self._page.is_closed() or self._actions.holds_something

    async def begin(self, task_name: str, seed: int) -> None:
        """Begin an episode.

        Args:
            task_name: The task.
            seed: Of its chance.
        """
        url = task_url(task_name)
        await self._page.mouse.move(0, 0)
        self._expected = url
        await self._page.goto(url)
        self.goal = await self._page.evaluate("seed => openenv.begin(seed)", page_seed(seed))
        await self._settle()

    async def act(self, call: Call) -> None:
        """Do one action, and let its effects happen.

        Raises:
            IllegalActionError: It can't be done.
        """
        await perform(self._actions, call)
        if call.name != "noop":  # which says itself how far time goes
            await self._settle()

    async def look(self, *, screenshot: bool) -> Look:
        """See what is there.

        Args:
            screenshot: Whether to take a picture, too.
        """
        seen: dict[str, Any] = await self._page.evaluate("openenv.read()")
        accessible, document = await asyncio.gather(
            self._devtools.send("Accessibility.getFullAXTree"),
            self._devtools.send("DOM.getDocument", {"depth": -1, "pierce": True}),
        )
        axtree = accessibility_text(accessible["nodes"], bids_of(document["root"]))
        return Look(
            url=shown(seen["url"]),
            axtree=shown(axtree),
            html=seen["html"],
            screenshot=await self.picture() if screenshot else None,
            ended=seen["done"],
            raw_reward=float(seen["rawReward"]),
            reason=seen["reason"],
        )

    async def picture(self, scale: int = 1) -> bytes:
        """Take a picture of what the page shows, as a PNG file.

        Args:
            scale: How many pixels of the picture a pixel of the page is wide.
        """
        clip = {"x": 0, "y": 0, "scale": scale, **await self._page.evaluate("openenv.extent()")}
        wanted = {"format": "png", "optimizeForSpeed": True, "clip": clip}
        taken = await self._devtools.send("Page.captureScreenshot", wanted)
        return base64.b64decode(taken["data"])

    async def close(self) -> None:
        """Close the page with all that belongs to it, whatever its scripts are doing, or if it is gone already."""
        await _close(self._context)

    async def _settle(self) -> None:
        await self._page.evaluate("ms => openenv.advance(ms)", SETTLE_MS)

    async def _answer_request(self, route: Route) -> None:
        """Let the task's page through, once. Another page, or a form that is sent, must not replace it."""
        if route.request.url == self._expected:
            self._expected = None
            await route.continue_()
        else:
            await route.abort("aborted")  # with any other error, the page would give way to a message

    def _note_crash(self, _: Page) -> None:
        self._crashed = True


def _other_than_parts() -> re.Pattern[str]:
    """Return the pattern of every address but those of the files that the tasks' pages load."""
    return re.compile(rf"^(?!{re.escape(pages_folder().as_uri())}/[^?#]+\.(css|gif|ico|jpe?g|js|png|svg)$)")


async def _close(context: BrowserContext) -> None:
    with suppress(PlaywrightError, TimeoutError):
        await asyncio.wait_for(context.close(), _CLOSE_S)


async def _close_popup(page: Page) -> None:
    with suppress(PlaywrightError):  # it may have closed itself
        await page.close()
