"""Actions of BrowserGym's language on a page."""

from inspect import signature
from typing import Annotated, Any, Literal, TypeAlias

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator, Page
from pydantic import ConfigDict, Field, ValidationError, validate_call

from openenv.core.exceptions import IllegalActionError

from .action_language import Call

Button: TypeAlias = Literal["left", "middle", "right"]
Modifier: TypeAlias = Literal["Alt", "Control", "ControlOrMeta", "Meta", "Shift"]
Direction: TypeAlias = Literal["up", "down", "left", "right"]
Coordinate: TypeAlias = Annotated[float, Field(ge=0, le=10_000)]
Distance: TypeAlias = Annotated[float, Field(ge=-100_000, le=100_000)]
Needs: TypeAlias = Literal["visible", "enabled", "editable"]

NAVIGATION = ("goto", "go_back", "go_forward", "new_tab", "tab_close", "tab_focus")
FILES = ("upload_file", "mouse_upload_file")

# How far the page's clock goes with each action, so that what the action has set off is done.
SETTLE_MS = 500
# How far scroll('down') goes: about half a page of MiniWoB.
SCROLL_PX = 100

# What Playwright says when it is the page or the browser that has ended.
_ENDS = ("has been closed", "crashed", "Connection closed")

_DIRECTIONS = {"up": (0, -SCROLL_PX), "down": (0, SCROLL_PX), "left": (-SCROLL_PX, 0), "right": (SCROLL_PX, 0)}
_MODIFIERS = {"Alt", "Control", "ControlOrMeta", "Meta", "Shift"}
_KEYS = {"Backspace", "Delete", "End", "Enter", "Escape", "Home", "Insert", "PageDown", "PageUp", "Tab"}
_KEYS |= {f"Arrow{side}" for side in ("Up", "Down", "Left", "Right")} | {f"F{number}" for number in range(1, 13)}

# Models write 12 for '12', which means the same. A number that is none, such as True, is refused all the same.
_checked = validate_call(config=ConfigDict(coerce_numbers_to_str=True))


class PageActions:
    """The actions: each public method is one, and has the arguments that BrowserGym gives it.

    Nothing waits for real time here. Whether an element can be clicked is seen at once, since the page's clock stands
    still, so that the same actions fail on a fast machine and on a slow one.

    Args:
        page: The page.

    Attributes:
        holds_something: Whether a key or a button of the mouse was pressed and not released by an action.
    """

    def __init__(self, page: Page) -> None:
        self._page = page
        self.holds_something = False

    @_checked
    async def noop(self, wait_ms: Annotated[float, Field(ge=0, le=60_000)] = 1000) -> None:
        """Let the page's time go on."""
        await self._page.evaluate("ms => openenv.advance(ms)", wait_ms)

    @_checked
    async def send_msg_to_user(self, text: str) -> None:
        """Say something; in MiniWoB nobody listens."""

    @_checked
    async def report_infeasible(self, reason: str) -> None:
        """Say that the task can't be done; in MiniWoB every task can."""

    @_checked
    async def click(self, bid: str, button: Button = "left", modifiers: list[Modifier] | None = None) -> None:
        """Click an element."""
        await self._click(bid, button, modifiers or [], count=1)

    @_checked
    async def dblclick(self, bid: str, button: Button = "left", modifiers: list[Modifier] | None = None) -> None:
        """Click an element twice."""
        await self._click(bid, button, modifiers or [], count=2)

    @_checked
    async def hover(self, bid: str) -> None:
        """Move the mouse over an element."""
        await self._page.mouse.move(*await self._point(bid, "visible"))

    @_checked
    async def fill(self, bid: str, value: str, enable_autocomplete_menu: bool = False) -> None:
        """Replace the text of a field. With a menu of proposals, the last character is typed, which opens it."""
        field = await self._element(bid, "editable")
        if not enable_autocomplete_menu:
            await field.fill(value, force=True)
            return
        await field.fill(value[:-1], force=True)
        await field.press_sequentially(value[-1:])

    @_checked
    async def clear(self, bid: str) -> None:
        """Empty a field."""
        await (await self._element(bid, "editable")).fill("", force=True)

    @_checked
    async def focus(self, bid: str) -> None:
        """Give an element the keyboard."""
        await (await self._element(bid, "visible")).focus()

    @_checked
    async def press(self, bid: str, key_comb: str) -> None:
        """Press keys in an element, such as ``Enter`` or ``Control+a``."""
        await (await self._element(bid, "visible")).press(key_comb)

    @_checked
    async def check(self, bid: str) -> None:
        """Have a checkbox or radio button checked."""
        await self._point(bid, "enabled")
        await self._locator(bid).check(force=True)

    @_checked
    async def uncheck(self, bid: str) -> None:
        """Have a checkbox not checked."""
        await self._point(bid, "enabled")
        await self._locator(bid).uncheck(force=True)

    @_checked
    async def select_option(self, bid: str, options: str | list[str]) -> None:
        """Select options of a list by their values or texts."""
        wanted = [options] if isinstance(options, str) else options
        obstacle = await self._page.evaluate("([bid, wanted]) => openenv.missingOption(bid, wanted)", [bid, wanted])
        _refuse(obstacle)
        await self._locator(bid).select_option(wanted, force=True)

    @_checked
    async def drag_and_drop(self, from_bid: str, to_bid: str) -> None:
        """Drag an element to where another one is."""
        start = await self._point(from_bid, "visible")
        _refuse(await self._page.evaluate("bid => openenv.obstacle(bid, 'visible')", to_bid))
        await self._drag(start, await self._point(to_bid, "visible"))

    @_checked
    async def scroll(self, delta_x: Distance | Direction, delta_y: Distance = 0) -> None:
        """Turn the wheel where the mouse is, by so many pixels or in a direction."""
        await self._turn_wheel(*((delta_x, delta_y) if isinstance(delta_x, float) else _DIRECTIONS[delta_x]))

    @_checked
    async def scroll_at(self, x: Coordinate, y: Coordinate, dx: Distance, dy: Distance) -> None:
        """Turn the wheel at a place."""
        await self._page.mouse.move(x, y)
        await self._turn_wheel(dx, dy)

    @_checked
    async def mouse_move(self, x: Coordinate, y: Coordinate) -> None:
        """Move the mouse to a place."""
        await self._page.mouse.move(x, y)

    @_checked
    async def mouse_down(self, x: Coordinate, y: Coordinate, button: Button = "left") -> None:
        """Press a button of the mouse at a place, and hold it."""
        self.holds_something = True
        await self._page.mouse.move(x, y)
        await self._page.mouse.down(button=button)

    @_checked
    async def mouse_up(self, x: Coordinate, y: Coordinate, button: Button = "left") -> None:
        """Let a button of the mouse go at a place."""
        await self._page.mouse.move(x, y)
        await self._page.mouse.up(button=button)

    @_checked
    async def mouse_click(self, x: Coordinate, y: Coordinate, button: Button = "left") -> None:
        """Click at a place."""
        await self._page.mouse.click(x, y, button=button)

    @_checked
    async def mouse_dblclick(self, x: Coordinate, y: Coordinate, button: Button = "left") -> None:
        """Click twice at a place."""
        await self._page.mouse.dblclick(x, y, button=button)

    @_checked
    async def mouse_drag_and_drop(
        self, from_x: Coordinate, from_y: Coordinate, to_x: Coordinate, to_y: Coordinate
    ) -> None:
        """Drag what is at one place to another."""
        await self._drag((from_x, from_y), (to_x, to_y))

    @_checked
    async def keyboard_press(self, key: str) -> None:
        """Press keys, such as ``Enter`` or ``Control+a``, where the focus is."""
        await self._page.keyboard.press(key)

    @_checked
    async def keyboard_down(self, key: str) -> None:
        """Press a key and hold it."""
        self.holds_something = True
        await self._page.keyboard.down(key)

    @_checked
    async def keyboard_up(self, key: str) -> None:
        """Let a key go."""
        await self._page.keyboard.up(key)

    @_checked
    async def keyboard_type(self, text: str) -> None:
        """Type a text, key by key, where the focus is."""
        await self._page.keyboard.type(text)

    @_checked
    async def keyboard_insert_text(self, text: str) -> None:
        """Have a text appear where the focus is, without keys."""
        await self._page.keyboard.insert_text(text)

    @_checked
    async def send_keys(self, text: str) -> None:
        """Press a key named as a whole, such as ``Enter`` or ``Control+a``; type anything else."""
        if is_key(text):
            await self._page.keyboard.press(text)
        else:
            await self._page.keyboard.type(text)

    def _locator(self, bid: str) -> Locator:
        return self._page.locator(f"[bid={_css_text(bid)}]")

    async def _element(self, bid: str, needs: Needs) -> Locator:
        _refuse(await self._page.evaluate("([bid, needs]) => openenv.obstacle(bid, needs)", [bid, needs]))
        return self._locator(bid)

    async def _point(self, bid: str, needs: Needs) -> tuple[float, float]:
        point: dict[str, Any] = await self._page.evaluate("([bid, needs]) => openenv.point(bid, needs)", [bid, needs])
        _refuse(point.get("obstacle"))
        return point["x"], point["y"]

    async def _click(self, bid: str, button: Button, modifiers: list[Modifier], count: int) -> None:
        x, y = await self._point(bid, "enabled")
        for key in modifiers:
            await self._page.keyboard.down(key)
        await self._page.mouse.click(x, y, button=button, click_count=count)
        for key in modifiers:
            await self._page.keyboard.up(key)

    async def _drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        await self._page.mouse.move(*start)
        await self._page.mouse.down()
        await self._page.mouse.move(*end, steps=5)
        await self._page.mouse.up()

    async def _turn_wheel(self, delta_x: float, delta_y: float) -> None:
        await self._page.mouse.wheel(delta_x, delta_y)
        await self._page.evaluate("openenv.drawn()")


ACTION_NAMES = tuple(name for name in vars(PageActions) if not name.startswith("_"))


async def perform(actions: PageActions, call: Call) -> None:
    """Do a call.

    Args:
        actions: The actions on the page.
        call: The call.

    Raises:
        IllegalActionError: There is no such action, its arguments do not fit, or the page does not allow it now.
    """
    if call.name not in ACTION_NAMES:
        raise IllegalActionError(_unknown(call.name))
    action = getattr(actions, call.name)
    try:
        await action(**signature(action).bind(*call.args, **call.kwargs).arguments)
    except TypeError as error:  # too few arguments, or too many
        raise IllegalActionError(f"{call.name}: {error}.") from error
    except ValidationError as error:
        faults = "; ".join(f"{one['loc'][0]}: {one['msg']}" for one in error.errors())
        raise IllegalActionError(f"{call.name} does not take these arguments: {faults}.") from error
    except PlaywrightError as error:
        if any(sign in error.message for sign in _ENDS):  # which is no fault of the action
            raise
        raise IllegalActionError(f"{call.name} failed: {error.message.splitlines()[0]}") from error


def is_key(text: str) -> bool:
    """Return whether a text names a key, alone or after modifiers.

    Example:
        >>> [is_key(text) for text in ("Enter", "Control+a", "a+b", "hello")]
        [True, True, False, False]
    """
    *modifiers, key = text.split("+")
    return set(modifiers) <= _MODIFIERS and (key in _KEYS or (bool(modifiers) and len(key) == 1))


def _refuse(obstacle: str | None) -> None:
    if obstacle is not None:
        raise IllegalActionError(obstacle)


def _unknown(name: str) -> str:
    if name in NAVIGATION:
        return f"{name} is not offered: a task of MiniWoB is one page, and leaving it would end the episode."
    if name in FILES:
        return f"{name} is not offered: no task of MiniWoB takes a file."
    return f"There is no action {name[:100]!r}. Expected one of {', '.join(ACTION_NAMES)}."


def _css_text(text: str) -> str:
    """Quote a text for a CSS selector. Nothing but a digit needs no escape there."""
    return '"' + "".join(one if one.isdecimal() and one.isascii() else f"\\{ord(one):x} " for one in text) + '"'
