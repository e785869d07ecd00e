"""Actions and observations of an agent in a browser."""

from typing import Annotated, Any

from pydantic import Field

from openenv import NDArray
from openenv.core.env_server.types import Action, Observation, State

LONGEST_ACTION = 20_000


class BrowserGymAction(Action):
    """Do something in the browser, in BrowserGym's language of actions.

    Attributes:
        action_str: One call or several, such as ``click('12')``, ``fill('42', "O'Connor")`` or ``scroll(0, 200)``.
    """

    action_str: str = Field(
        max_length=LONGEST_ACTION,
        description="A call such as click('12'), fill('42', 'some text'), send_keys('Enter'), scroll(0, 200) or noop()",
    )

    @classmethod
    def call(cls, name: str, *args: Any, **kwargs: Any) -> "BrowserGymAction":
        """Make an action of one call, whose arguments arrive as they are, whatever quotes they hold.

        Args:
            name: Name of the call.
            *args: What is passed by position.
            **kwargs: What is passed by name.

        Example:
            >>> print(BrowserGymAction.call("fill", "42", "O'Connor").action_str)
            fill('42', "O'Connor")
        """
        written = [*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())]
        return cls(action_str=f"{name}({', '.join(written)})")


class BrowserGymObservation(Observation):
    """What the page shows.

    Attributes:
        text: All that a language model needs: the goal, the page as its accessibility tree and what was wrong with the
            last action.
        url: Address of the page.
        screenshot: The pixels of what the page shows, from the window's upper left corner: an array of red, green and
            blue of the shape ``(height, width, 3)``; ``None`` where the reset requested none.
        goal: What to do.
        axtree_txt: The page's accessibility tree, a line for each node, with the bid of each element in brackets.
        pruned_html: What the page shows, as HTML with the bid of each element.
        error: Why the last action failed; empty where it did not.
        last_action_error: Whether the last action failed.
    """

    text: str = ""
    url: str = ""
    # Any, since NumPy takes long to import and clients without screenshots do without.
    screenshot: Annotated[Any, NDArray("uint8", (None, None, 3), picture=True)] | None = None
    goal: str = ""
    axtree_txt: str = ""
    pruned_html: str = ""
    error: str = ""
    last_action_error: bool = False


class BrowserGymState(State):
    """Where the episode stands.

    Attributes:
        benchmark: Where the task is from: ``miniwob``.
        task_name: Name of the task.
        task_id: The same as BrowserGym names it, with the benchmark.
        goal: What to do.
        current_url: Address of the page.
        max_steps: Always ``None``: an episode has no limit of steps.
        cum_reward: The rewards of the episode so far, added up.
    """

    benchmark: str = ""
    task_name: str = ""
    task_id: str | None = None
    goal: str = ""
    current_url: str = ""
    max_steps: int | None = None
    cum_reward: float = 0.0
