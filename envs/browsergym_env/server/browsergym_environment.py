"""The BrowserGym environment: tasks of MiniWoB++ in a real browser, by actions and by tools."""

import asyncio
import io
import logging
import secrets
from collections.abc import Coroutine, Sequence
from typing import Any, ClassVar, Literal, TypeVar
from uuid import uuid4

import numpy as np
from PIL import Image
from playwright.async_api import Error as PlaywrightError

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.tools import ToolResult, tool
from openenv.core.exceptions import (
    EnvironmentFailedError,
    EnvironmentTimeoutError,
    IllegalActionError,
    ResetNeededError,
)

from ..models import BrowserGymAction, BrowserGymObservation, BrowserGymState
from .action_language import Call, parse_calls
from .browser import shared_browser
from .miniwob_tasks import BENCHMARK, task_named
from .settings import Settings
from .task_page import Look, TaskPage, open_context

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

# Of pictures for people: a task is 160 pixels wide.
_SHOWN_SCALE = 2


class BrowserGymEnvironment(Environment[BrowserGymAction, BrowserGymObservation, BrowserGymState]):
    """A task of MiniWoB++ on a page in a real Chromium, in BrowserGym's language of actions.

    All sessions share one browser, in which each has a context of its own. A page's clock stands still but for half a
    second with each action, so that an episode depends on its seed and its actions alone.

    Args:
        settings: Those of the server; by default the variables ``BROWSERGYM_...`` say.

    Raises:
        ConfigurationError: A variable has a value that is not allowed.
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    DEFAULT_MAX_SESSIONS: ClassVar[int] = 8
    REQUIRES_RESET: ClassVar[bool] = True

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__()
        self._settings = Settings.from_variables() if settings is None else settings
        self._browser = shared_browser(self._settings)
        self._page: TaskPage | None = None
        self._screenshot = self._settings.screenshot
        self._over = True
        self._state = BrowserGymState(benchmark=BENCHMARK)

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task_name: str | None = None,
        screenshot: bool | None = None,
    ) -> BrowserGymObservation:
        """Begin a task.

        Args:
            seed: Makes the task repeatable: the same seed gives the same page, BrowserGym's.
            episode_id: Name of the episode; a new one is made up where there is none.
            task_name: One of MiniWoB's tasks, such as ``click-test``; by default the server's.
            screenshot: Whether this episode's observations have a screenshot; by default the server says.

        Returns:
            The page as the task begins, without a reward.

        Raises:
            InvalidRequestError: There is no such task.
            EnvironmentFailedError: There is no browser.
        """
        task = task_named(self._settings.task_name if task_name is None else task_name)
        seed = secrets.randbelow(2**32) if seed is None else seed
        self._screenshot = self._settings.screenshot if screenshot is None else screenshot
        self._over = True
        look = self._browser.run(self._begun(task, seed))
        assert self._page is not None
        self._over = False
        self._state = BrowserGymState(
            episode_id=episode_id or str(uuid4()),
            benchmark=BENCHMARK,
            task_name=task,
            task_id=f"{BENCHMARK}.{task}",
            goal=self._page.goal,
            current_url=look.url,
        )
        return self._observed(look, reward=None, error="")

    def step(self, action: BrowserGymAction) -> BrowserGymObservation:
        """Do an action's calls, one after another, up to the first that can't be done.

        Args:
            action: The calls.

        Returns:
            The page after that. What could not be done is its ``error``, and the episode continues.

        Raises:
            ResetNeededError: No episode has begun, or it is over.
            EnvironmentTimeoutError: The page does not answer. A reset gives another one.
            EnvironmentFailedError: The page or the browser has failed. A reset gives another one.
        """
        try:
            calls, error = parse_calls(action.action_str), ""
        except IllegalActionError as illegal:
            calls, error = [], str(illegal)
        return self._done(calls, error)

    @tool
    def click(self, bid: str, button: Literal["left", "middle", "right"] = "left") -> ToolResult:
        """Click an element.

        Args:
            bid: The element's number, which stands in brackets before it.
            button: Which button of the mouse.
        """
        return self._called("click", bid, button)

    @tool
    def fill(self, bid: str, text: str) -> ToolResult:
        """Replace the text of a field.

        Args:
            bid: The field's number, which stands in brackets before it.
            text: What to write, just as it is to arrive.
        """
        return self._called("fill", bid, text)

    @tool
    def send_keys(self, text: str) -> ToolResult:
        """Press a key, such as Enter, Tab, ArrowDown or Control+a; type the text if it is no key's name.

        Args:
            text: The key, or what to type where the focus is.
        """
        return self._called("send_keys", text)

    @tool
    def scroll(self, direction: Literal["up", "down", "left", "right"]) -> ToolResult:
        """Scroll what is below the mouse, or the page.

        Args:
            direction: Where to.
        """
        return self._called("scroll", direction)

    @tool
    def noop(self) -> ToolResult:
        """Wait for a second."""
        return self._called("noop")

    @property
    def state(self) -> BrowserGymState:
        """The task, and how the episode stands."""
        return self._state

    def render(self) -> bytes | None:
        """Take a picture of the page, as a PNG file; ``None`` where no episode has begun or the page is gone."""
        page = self._page
        if page is None or page.lost:
            return None
        return self._browser.run(self._within_limit("render", page.picture(_SHOWN_SCALE)))

    def close(self) -> None:
        """Close the page."""
        self._over = True
        self._browser.run(self._discard())

    def __deepcopy__(self, memo: dict[int, Any]) -> "BrowserGymEnvironment":
        """Refuse: a page can't be copied.

        Raises:
            TypeError: Always.
        """
        raise TypeError("A browser's page can't be copied; its episode can be played again with its seed.")

    def _called(self, name: str, *args: str) -> ToolResult:
        """Do a tool's call. An error is raised, which the agent gets."""
        observation = self._done([Call(name, args, {})], "")
        if observation.last_action_error and not observation.done:
            raise IllegalActionError(observation.error)
        return ToolResult(observation.text, reward=observation.reward, done=observation.done)

    def _done(self, calls: Sequence[Call], error: str) -> BrowserGymObservation:
        if self._page is None or self._over:
            raise ResetNeededError("There is no task on the page: call reset first.")
        self._state.step_count += 1
        look, error = self._browser.run(self._within_limit("step", self._acted(self._page, calls, error)))
        reward = float(look.raw_reward > 0)  # as BrowserGym has it
        self._over = look.ended
        self._state.current_url = look.url
        self._state.cum_reward += reward
        return self._observed(look, reward, error)

    def _observed(self, look: Look, reward: float | None, error: str) -> BrowserGymObservation:
        goal = self._state.goal
        parts = [f"Goal: {goal}", look.axtree, f"The last action failed: {error}" if error else ""]
        return BrowserGymObservation(
            text="\n\n".join(part for part in parts if part),
            url=look.url,
            screenshot=None if look.screenshot is None else _pixels(look.screenshot),
            goal=goal,
            axtree_txt=look.axtree,
            pruned_html=look.html,
            error=error,
            last_action_error=bool(error),
            reward=reward,
            done=look.ended,
            metadata={"raw_reward": look.raw_reward, "reason": look.reason} if look.ended else {},
        )

    # --- On the browser's thread --------------------------------------------------------------------------------------

    async def _begun(self, task: str, seed: int) -> Look:
        if self._page is not None and self._page.lost:
            await self._discard()
        async with self._browser.beginning:
            if self._page is None:
                context = await open_context(self._browser, self._settings)  # which takes what a browser takes to start
                self._page = await self._within_limit("reset", TaskPage.open(context))
            return await self._within_limit("reset", self._first_look(self._page, task, seed))

    async def _first_look(self, page: TaskPage, task: str, seed: int) -> Look:
        await page.begin(task, seed)
        return await page.look(screenshot=self._screenshot)

    async def _acted(self, page: TaskPage, calls: Sequence[Call], error: str) -> tuple[Look, str]:
        try:
            for call in calls:
                await page.act(call)
        except IllegalActionError as illegal:
            error = str(illegal)
        return await page.look(screenshot=self._screenshot), error

    async def _within_limit(self, operation: str, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Do something with the page. One that does not answer, or has crashed, is given up."""
        limit_s = self._settings.timeout_ms / 1000
        try:
            async with asyncio.timeout(limit_s):
                return await work
        except TimeoutError:
            await self._discard()
            message = f"The page did not answer within {limit_s:g} s and was closed. A reset begins on a new one."
            raise EnvironmentTimeoutError(operation, limit_s, message) from None
        except PlaywrightError as error:
            logger.warning("a page is given up: %s", error.message.partition("\n")[0])
            await self._discard()
            raise EnvironmentFailedError("The page or the browser has failed. A reset begins on a new one.") from error

    async def _discard(self) -> None:
        page, self._page = self._page, None
        if page is not None:
            await page.close()


def _pixels(png: bytes) -> np.ndarray[Any, Any]:
    """Unpack a picture into an array of red, green and blue."""
    with Image.open(io.BytesIO(png)) as picture:
        return np.asarray(picture.convert("RGB"))
