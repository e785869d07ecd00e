"""An environment that shows arrays and a file, which another process can import."""

from typing import Annotated, Any

import numpy as np

from openenv import MediaType, NDArray
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

FILE = b"\x89PNG\r\n\x1a\n and the rest"


class Look(Action):
    """Look at a picture of one brightness."""

    brightness: int = 0
    label: Any = None


class View(Observation):
    pixels: Annotated[np.ndarray[Any, Any], NDArray("uint8", (None, 4, 3), picture=True)]
    depth: Annotated[np.ndarray[Any, Any], NDArray("float32", (3,))]
    file: Annotated[bytes, MediaType("image/png")]
    label: Any = None


def view(brightness: int, label: Any = None) -> View:
    pixels = np.full((2, 4, 3), brightness, np.uint8)
    depth = np.array([brightness / 3, np.nan, np.inf], np.float32)
    return View(pixels=pixels, depth=depth, file=FILE, label=label, reward=float(brightness))


class Gallery(Environment[Look, View, State]):
    """Shows what it is instructed to show."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False

    def __init__(self) -> None:
        super().__init__()
        self._steps = 0

    def reset(self, seed: int | None = None) -> View:
        self._steps = 0
        return view(0)

    def step(self, action: Look) -> View:
        self._steps += 1
        return view(action.brightness, action.label)

    def render(self) -> bytes:
        return FILE

    @property
    def state(self) -> State:
        return State(step_count=self._steps)
