"""The one browser of a server, which all its sessions share."""

import asyncio
import atexit
import logging
import os
from collections.abc import Coroutine
from contextlib import suppress
from functools import cache
from threading import Lock, Thread
from typing import Any, TypeVar

from playwright.async_api import Browser, BrowserContext, Playwright, async_playwright
from playwright.async_api import Error as PlaywrightError

from openenv.core.exceptions import EnvironmentFailedError

from .settings import Settings, find_chromium

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

# Nothing listens there. File addresses, which the tasks have, go through no proxy.
_NOWHERE = "http://127.0.0.1:9"
# Chromium loads pages for the menu of its address bar, which nobody sees, at each start: half of the processor's time
# that it takes. Of several such arguments it takes the last one, so what Playwright turns off by itself is here again.
WITHOUT_FEATURES = "--disable-features=" + ",".join(
    (
        "WebUIOmniboxAimPopup",
        "WebUIOmniboxPopup",
        "AimEnabled",
        "AvoidCorsURLLoaderRestartOnRedirect",
        "AvoidUnnecessaryBeforeUnloadCheckSync",
        "DestroyProfileOnBrowserClose",
        "HttpsFirstBalancedModeAutoEnable",
        "HttpsUpgrades",
        "LensOverlay",
        "MediaRouter",
        "NetworkTimeServiceQuerying",
        "OptimizationHints",
        "PaintHolding",
        "PreconnectToSearch",
        "TcpPortRandomizationWin",
        "ThirdPartyStoragePartitioning",
    )
)
_ARGUMENTS = [
    WITHOUT_FEATURES,
    "--disable-partial-raster",  # with it, the corners of a button may be drawn in two ways
    "--disable-smooth-scrolling",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
]
_BEGIN_AT_ONCE = 4
_ANSWER_S = 10.0
_STOP_S = 5.0


class SharedBrowser:
    """A Chromium that starts with its first page, and again after it has crashed.

    It lives on an event loop in a thread of its own, whichever loops and threads the sessions have. Everything that
    touches it is a coroutine which ``run`` takes there.

    Args:
        executable: Path or command of the browser; ``None`` to look for one.
        headless: Whether it has no window.
        sandbox: Whether its pages run in its own sandbox.

    Attributes:
        beginning: Held while an episode begins, by few at a time: pages that all load at once would all be late.
    """

    def __init__(self, executable: str | None, *, headless: bool, sandbox: bool) -> None:
        self._executable = executable
        self._headless = headless
        self._sandbox = sandbox
        self.beginning = asyncio.Semaphore(_BEGIN_AT_ONCE)
        self._starting = asyncio.Lock()
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        Thread(target=self._loop.run_forever, name="browser", daemon=True).start()
        atexit.register(self.stop)

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Do something with the browser, from any thread but its own, and wait for it.

        Args:
            work: What to do.

        Returns:
            What it returns; what it raises is raised here.
        """
        doing = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return doing.result()
        except BaseException:  # the waiting itself may be interrupted
            doing.cancel()
            raise

    async def new_context(self, **options: Any) -> BrowserContext:
        """Open a context: cookies, storage and processes of its own.

        Args:
            **options: As ``Browser.new_context`` takes them.

        Raises:
            EnvironmentFailedError: There is no browser, or it does not start.
        """
        browser = await self._started()
        try:
            return await asyncio.wait_for(browser.new_context(**options), _ANSWER_S)
        except (PlaywrightError, TimeoutError):  # it has died unnoticed, or hangs
            await self._give_up(browser)
            return await (await self._started()).new_context(**options)

    def stop(self) -> None:
        """End the browser; the next context starts another one."""
        if os.getpid() != self._process:  # forked: the browser is the other process's
            return
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._drop(), self._loop).result(2 * _STOP_S)

    async def _started(self) -> Browser:
        async with self._starting:
            if self._browser is None or not self._browser.is_connected():
                await self._drop()
                self._browser = await self._launch()
            return self._browser

    async def _give_up(self, browser: Browser) -> None:
        async with self._starting:
            if self._browser is browser:  # no other session was faster
                await self._drop()

    async def _launch(self) -> Browser:
        chromium = find_chromium(self._executable)
        self._playwright = await async_playwright().start()
        try:
            return await self._playwright.chromium.launch(
                executable_path=chromium,
                headless=self._headless,
                chromium_sandbox=self._sandbox,
                args=_ARGUMENTS,
                proxy={"server": _NOWHERE, "bypass": "<-loopback>"},
                # This process ends it, and not a signal that reaches both.
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
        except PlaywrightError as error:
            logger.error("the browser does not start: %s", error.message)
            raise EnvironmentFailedError(_does_not_start(error)) from error

    async def _drop(self) -> None:
        browser, playwright = self._browser, self._playwright
        self._browser = self._playwright = None
        if browser is not None:
            await _at_most(browser.close())
        if playwright is not None:
            await _at_most(playwright.stop())


async def _at_most(ending: Coroutine[Any, Any, None]) -> None:
    """Wait for the end of something that may be dead already."""
    with suppress(PlaywrightError, TimeoutError):
        await asyncio.wait_for(ending, _STOP_S)


def _does_not_start(error: PlaywrightError) -> str:
    if "Executable doesn't exist" in error.message:
        return (
            "There is no Chromium. Install one (on Debian: apt-get install chromium; elsewhere: playwright install "
            "chromium), or name it in BROWSERGYM_EXECUTABLE."
        )
    if any(sign in error.message for sign in ("No usable sandbox", "Running as root without --no-sandbox")):
        return "Chromium can't have its sandbox here, as in most containers. Set BROWSERGYM_SANDBOX=0 to do without."
    return "The browser does not start; the server's log says why."


@cache
def _browser_of(process: int, executable: str | None, headless: bool, sandbox: bool) -> SharedBrowser:
    return SharedBrowser(executable, headless=headless, sandbox=sandbox)


_making = Lock()


def shared_browser(settings: Settings) -> SharedBrowser:
    """Return this process's browser, which its first use starts.

    Args:
        settings: Which browser, and how it runs.
    """
    sandbox = os.geteuid() != 0 if settings.sandbox is None else settings.sandbox
    with _making:  # sessions are made in threads of their own
        # A forked process has this one's memory, but neither its threads nor its connections: hence the number.
        return _browser_of(os.getpid(), settings.executable, settings.headless, sandbox)
