"""Serve an environment that shows one screenshot in every form that an observation may have, a step for each."""

import argparse
from typing import Annotated, Any, Literal

import numpy as np

from openenv import Action, Environment, MediaType, NDArray, Observation, State
from openenv.core.env_server import create_app
from openenv.core.env_server.app import run_app
from openenv.core.wire.results import Picture, picture_of, png_of

WIDTH, HEIGHT = 1280, 720
_PALETTE, _LINES, _LETTERS_AT = 12, 24, 40


class Show(Action):
    """Show the screenshot in a form."""

    form: Literal["nothing", "picture", "file", "pixels"]


class Shown(Observation):
    """The screenshot in the form that was wanted."""

    picture: Picture | None = None
    file: Annotated[bytes, MediaType("image/png")] | None = None
    pixels: Annotated[np.ndarray[Any, Any], NDArray("uint8", (HEIGHT, WIDTH, 3), picture=True)] | None = None


def screenshot() -> np.ndarray[Any, Any]:
    """Make the pixels of a page: plain areas, and lines of marks like text, some 190 KB as PNG."""
    random = np.random.default_rng(1)
    page = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
    page[:80] = (40, 60, 90)
    colours = random.integers(0, 256, (_PALETTE, 3), np.uint8)
    top = np.linspace(100, HEIGHT - 10, _LINES).astype(int)
    for line in top:
        page[line : line + 7, _LETTERS_AT:-_LETTERS_AT] = colours[random.integers(0, _PALETTE, (7, WIDTH - 80))]
    return page


class PictureEnvironment(Environment[Show, Shown, State]):
    """Shows a screenshot that it has made before."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False

    def __init__(self) -> None:
        super().__init__()
        self._pixels = screenshot()
        self._file = png_of(self._pixels)

    def reset(self, seed: int | None = None) -> Shown:
        """Show nothing."""
        return Shown()

    def step(self, action: Show) -> Shown:
        """Show the screenshot."""
        match action.form:
            case "picture":
                return Shown(picture=picture_of(self._file))
            case "file":
                return Shown(file=self._file)
            case "pixels":
                return Shown(pixels=self._pixels)
        return Shown()

    @property
    def state(self) -> State:
        """Nothing."""
        return State()

    def render(self) -> bytes:
        """Show the screenshot."""
        return self._file


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    run_app(create_app(PictureEnvironment, max_concurrent_envs=2), port=parser.parse_args().port)
