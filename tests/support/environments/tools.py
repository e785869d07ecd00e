"""Environments with tools, for the tests; at the top level of a module, so that other processes can import them."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from openenv import Action, Environment, Observation, State, ToolResult, tool


class Notes(Environment):
    """Plain tools, and no step or state of its own."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    REQUIRES_RESET: ClassVar[bool] = True

    def reset(self, seed: int | None = None, shared: bool = False) -> Observation:
        """Start an episode.

        Args:
            seed: Unused.
            shared: Whether the task is shared notes, which can be sent to others.
        """
        self._notes: dict[str, str] = {}
        self._shared = shared
        self._thread = threading.get_ident()
        return Observation()

    @tool
    def write(self, path: str, text: str) -> str:
        """Write a note.

        Args:
            path: Where.
            text: What.
        """
        self._notes[path] = text
        return f"{len(text)} characters written"

    @tool
    def read(self, path: str) -> str:
        """Read a note.

        Args:
            path: Where.
        """
        return self._notes[path]

    @tool(name="fail", description="Fail.")
    def _fail(self, how: str = "plainly") -> object:
        if how == "late":
            raise TimeoutError("the disk is slow")
        if how == "unsendable":
            return object()
        if how == "reward":
            return ToolResult(reward="much")  # type: ignore[arg-type]
        raise RuntimeError(f"it failed {how}, at '/usr/lib/secret.so'")

    @tool
    def same_thread(self) -> bool:
        """Say whether this runs where reset ran."""
        return threading.get_ident() == self._thread

    @tool(terminal=True)
    def submit(self) -> ToolResult:
        """Hand the notes in."""
        if not self._notes:
            raise ValueError("there are no notes")
        return ToolResult({"notes": len(self._notes)}, reward=1.0, metadata={"longest": 3})

    def task_tools(self) -> Iterable[Callable[..., Any]]:
        """Shared notes can be sent."""
        return (self.send,) if getattr(self, "_shared", False) else ()

    def send(self, to: str) -> list[str]:
        """Send the notes.

        Args:
            to: Whom to.
        """
        return [to, *self._notes]


class Site(Environment):
    """Async tools beside a plain one, an async reset, and progress."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    REQUIRES_RESET: ClassVar[bool] = True

    async def reset(self, seed: int | None = None) -> Observation:
        """Start at home."""
        await asyncio.sleep(0)
        self._page = "home"
        return Observation()

    @tool
    async def goto(self, url: str, steps: int = 1) -> str:
        """Go to a page.

        Args:
            url: The page.
            steps: How long it takes.
        """
        for step in range(steps):
            self.report_progress(step / steps, f"step {step}")
            await asyncio.sleep(0)
        self._page = url
        return url

    @tool
    async def crash(self) -> None:
        """Crash."""
        await asyncio.sleep(0)
        raise RuntimeError("the page crashed")

    @tool
    def where(self) -> dict[str, object]:
        """Say where it is, and whether this is the event loop's thread."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return {"page": self._page, "on_loop": False}
        return {"page": self._page, "on_loop": True}

    @tool
    def count(self, to: int) -> int:
        """Count, and tell of it."""
        for number in range(to):
            self.report_progress(number / to, str(number))
        return to


class GuessAction(Action):
    """Guess the word.

    Attributes:
        word: The word.
    """

    type: Literal["guess"] = "guess"
    word: str


class HintAction(Action):
    """Ask for a letter."""

    type: Literal["hint"] = "hint"
    letter: int = Field(ge=0, le=4, description="which one")


class Shown(Observation):
    """What is to be seen."""

    text: str = ""


AnyAction = Annotated[GuessAction | HintAction, Field(discriminator="type")]


class Word(Environment[AnyAction, Shown, State]):
    """A union of actions."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    BLOCKING: ClassVar[bool] = False
    REQUIRES_RESET: ClassVar[bool] = True

    def reset(self, seed: int | None = None) -> Shown:
        """Start."""
        self._steps = 0
        return Shown(text="guess", reward=0.0)

    def step(self, action: GuessAction | HintAction) -> Shown:
        """Guess, or get a letter."""
        self._steps += 1
        if isinstance(action, HintAction):
            return Shown(text="crane"[action.letter], reward=-0.1, metadata={"secret": "crane"})
        won = action.word == "crane"
        return Shown(text=f"{action.word}: {won}", reward=float(won), done=won)

    @property
    def state(self) -> State:
        """How many steps."""
        return State(step_count=self._steps)


class WordWithTools(Word):
    """A union of actions beside tools, one of which has the name that an action would have."""

    @tool
    def words(self, prefix: str) -> list[str]:
        """Look words up.

        Args:
            prefix: How they begin.
        """
        return [word for word in ("crane", "crown") if word.startswith(prefix)]

    @tool
    def hint(self) -> str:
        """Give a hint that costs nothing."""
        return "a bird"
