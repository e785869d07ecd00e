"""A player that reads the goal and the accessibility tree. It knows a score of MiniWoB's simpler tasks."""

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from openenv.core.seeding import rng

from .models import BrowserGymAction, BrowserGymObservation

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_LINE = re.compile(rf"\s*\[(?P<bid>\w+)\] (?P<role>\w+) (?P<name>{_QUOTED})")

Plan: TypeAlias = list[BrowserGymAction]

act = BrowserGymAction.call


@dataclass(frozen=True)
class Element:
    """A line of an accessibility tree that has a bid.

    Attributes:
        bid: The bid.
        role: What it is, such as ``button``.
        name: What it is called.
    """

    bid: str
    role: str
    name: str


class Page:
    """The elements that a page shows.

    Args:
        axtree: Its accessibility tree.
    """

    def __init__(self, axtree: str) -> None:
        lines = (_LINE.match(line) for line in axtree.splitlines())
        self.elements = [Element(line["bid"], line["role"], ast.literal_eval(line["name"])) for line in lines if line]

    def all(self, *roles: str) -> list[Element]:
        """The elements that are any of these, in their order; each once, though a date is made of many."""
        return list({one.bid: one for one in self.elements if one.role in roles}.values())

    def click(self, name: str | None, *roles: str) -> BrowserGymAction:
        """Click the first element of a name, or of any."""
        return act("click", next(one.bid for one in self.all(*roles) if name in (None, one.name)))

    def submit(self) -> BrowserGymAction:
        """Click the last button, which hands a form in."""
        return act("click", self.all("button")[-1].bid)


def plan(goal: str, axtree: str) -> Plan:
    """Return the actions that do a task.

    Args:
        goal: The task's goal.
        axtree: The page's accessibility tree as the task begins.

    Returns:
        The actions; none where the player does not know the task.

    Example:
        >>> [one.action_str for one in plan("Click the button.", "[13] button 'No'")]
        ["click('13')"]
    """
    page = Page(axtree)
    for pattern, way in _WAYS:
        found = re.fullmatch(pattern, goal)
        if found is not None:
            try:
                return way(page, found.groups())
            except (StopIteration, IndexError):  # a goal of the same words for another page
                continue
    return []


class BrowserGymPlayer:
    """Plans at its first look at the page, and then does what it planned. What it can't plan for, it tries at random.

    Args:
        seed: The same seed makes the same choices.
    """

    def __init__(self, seed: int) -> None:
        self._random = rng(seed, "player")
        self._plan: Plan | None = None

    def __call__(self, observation: BrowserGymObservation) -> BrowserGymAction:
        """Choose the next action.

        Args:
            observation: The page.

        Returns:
            The action.
        """
        if self._plan is None:
            self._plan = plan(observation.goal, observation.axtree_txt)
        if self._plan:
            return self._plan.pop(0)
        bids = [one.bid for one in Page(observation.axtree_txt).elements]
        return act("click", self._random.choice(bids)) if bids else act("noop")


def make_player(seed: int) -> Callable[[BrowserGymObservation], BrowserGymAction]:
    """Make a player for one episode.

    Args:
        seed: Of its random choices.

    Returns:
        A function from observations to actions.
    """
    return BrowserGymPlayer(seed)


# --- Ways to do tasks: from the page, and from what stands in the goal -----------------------------------------------


def _click_any_button(page: Page, _: Sequence[str]) -> Plan:
    return [page.click(None, "button")]


def _click_buttons(page: Page, names: Sequence[str]) -> Plan:
    return [page.click(name, "button") for name in names]


def _click_tab(page: Page, names: Sequence[str]) -> Plan:
    return [page.click(names[0], "tab")]


def _click_textbox(page: Page, _: Sequence[str]) -> Plan:
    return [page.click(None, "textbox")]


def _click_nth_textbox(page: Page, told: Sequence[str]) -> Plan:
    return [act("click", page.all("textbox")[int(told[0]) - 1].bid)]


def _click_in_dialog(page: Page, told: Sequence[str]) -> Plan:
    return [page.click("Close" if told[0] == "x" else told[0], "button")]


def _choose(page: Page, told: Sequence[str]) -> Plan:
    names = [] if told[0] == "nothing" else told[0].split(", ")
    return [*(page.click(name, "checkbox", "radio") for name in names), page.submit()]


def _choose_in_list(page: Page, told: Sequence[str]) -> Plan:
    return [act("select_option", page.all("combobox")[0].bid, told[0]), page.submit()]


def _fill_in(page: Page, told: Sequence[str]) -> Plan:
    fields = page.all("textbox", "Date", "InputTime")
    texts = [*told, *told]  # where there are more fields than texts, the same goes into both
    return [*(act("fill", field.bid, text) for field, text in zip(fields, texts, strict=False)), page.submit()]


def _fill_in_date(page: Page, told: Sequence[str]) -> Plan:
    month, day, year = told
    return _fill_in(page, [f"{year}-{month}-{day}"])


def _fill_in_time(page: Page, told: Sequence[str]) -> Plan:
    hour, minute, half = told
    return _fill_in(page, [f"{int(hour) % 12 + 12 * (half == 'PM'):02}:{minute}"])


_WAYS: tuple[tuple[str, Callable[[Page, Sequence[str]], Plan]], ...] = (
    (r"Click the button\.", _click_any_button),
    (r'Click on the "(.*)" button\.', _click_buttons),
    (r"Click button (\w+)\.", _click_buttons),
    (r"Click button (\w+), then click button (\w+)\.", _click_buttons),
    (r"Click on (Tab #\d+)\.", _click_tab),
    (r"Close the dialog box by clicking the \"(x)\"\.", _click_in_dialog),
    (r'Click the button in the dialog box labeled "(.*)"\.', _click_in_dialog),
    (r"Focus into the textbox\.", _click_textbox),
    (r"Focus into the (\d+)\w+ input textbox\.", _click_nth_textbox),
    (r"Select (.*) from the list and click Submit\.", _choose_in_list),
    (r"Select (.*) and click Submit\.", _choose),
    (r'Enter "(.*)" into the text field and press Submit\.', _fill_in),
    (r'Enter the password "(.*)" into both text fields and press submit\.', _fill_in),
    (r'Enter the username "(.*)" and the password "(.*)" into the text fields and press login\.', _fill_in),
    (r"Enter (\d+)/(\d+)/(\d+) as the date and hit submit\.", _fill_in_date),
    (r"Enter (\d+):(\d+) ([AP]M) as the time and press submit\.", _fill_in_time),
)
