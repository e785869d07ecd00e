"""An environment whose action is a ``RootModel``: the union of actions, one of them a union itself."""

from typing import Annotated, Literal

from pydantic import Field, RootModel

from openenv import Action, Environment, Observation, State


class Go(Action):
    """Go somewhere."""

    kind: Literal["go"] = "go"
    way: Literal["left", "right"] = Field(description="where to")


class Stay(Action):
    """Stay where you are."""

    kind: Literal["stay"] = "stay"


class Look(Action):
    """Look into the distance."""

    kind: Literal["look"] = "look"
    far: int = Field(ge=0, le=3, description="how far")


class Step(RootModel[Annotated[Go | Stay, Field(discriminator="kind")]]):
    """A move on the map."""


class AnyMove(RootModel[Step | Look]):
    """A move."""


class Moved(Observation):
    """What was done."""

    text: str = ""


class MapEnvironment(Environment[AnyMove, Moved, State]):
    """Says what was done; the action is the ``RootModel`` that the class names."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: int | None = None) -> Moved:
        """Start."""
        self._state = State()
        return Moved(text="begin", reward=0.0)

    def step(self, action: AnyMove) -> Moved:
        """Say what was done."""
        self._state.step_count += 1
        assert type(action) is AnyMove
        move = action.root.root if isinstance(action.root, Step) else action.root
        return Moved(text=move.model_dump_json(exclude={"metadata"}), reward=1.0, done=isinstance(move, Look))

    @property
    def state(self) -> State:
        """How many steps."""
        return self._state
