"""Pictures in the terminal."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import pytest
from PIL import Image
from tests.support.servers import RunningServer

from openenv import Action, Environment, GenericEnvClient, MediaType, NDArray, Observation, State
from openenv.cli.views.observation import observation_line
from openenv.cli.views.picture import PictureFields, Pictures
from openenv.core.env_server.app import create_fastapi_app


class Show(Action):
    what: str


class Gallery(Environment[Show, Observation, State]):
    """Shows what it is told to, and fails where it can't."""

    BLOCKING: ClassVar[bool] = False
    shown: ClassVar[int] = 0

    def reset(self, seed: int | None = None) -> Observation:
        self.what = "text"
        return Observation()

    def step(self, action: Show) -> Observation:
        self.what = action.what
        return Observation()

    def render(self) -> Any:
        Gallery.shown += 1
        return {"text": "\x1b[31mred\x1b[0m\n", "svg": "<svg/>", "nothing": None}[self.what]

    @property
    def state(self) -> State:
        return State()


class Screen(Observation):
    screen: Annotated[np.ndarray[Any, Any] | None, NDArray("uint8", (None, None, 3), picture=True)] = None
    cells: Annotated[np.ndarray[Any, Any] | None, NDArray("uint8", (None, None, 3))] = None
    page: Annotated[bytes, MediaType("image/jpeg")] | None = None


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Pictures, Any]]:
    """The pictures of a game, and its client."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    app = create_fastapi_app(Gallery, Show, Observation)
    with RunningServer(app) as server, GenericEnvClient(server.url).sync() as client:
        client.reset()
        yield Pictures(client), client


def test_text_keeps_its_colours(pictures: tuple[Pictures, Any]) -> None:
    gallery, _ = pictures
    picture = gallery.render()
    assert picture is not None
    text = gallery.view(picture)
    assert text.plain == "red"
    assert text.spans


def test_what_no_terminal_shows_is_kept_in_files_that_are_named(pictures: tuple[Pictures, Any]) -> None:
    gallery, client = pictures
    client.step({"what": "svg"})
    named = []
    for _ in range(2):
        picture = gallery.render()
        assert picture is not None
        named.append(Path(gallery.view(picture).plain.removeprefix("picture: ")))
    assert [file.name for file in named] == ["001.svg", "002.svg"]
    assert {file.read_text() for file in named} == {"<svg/>"}


def test_fields_are_pictures_where_the_schema_says_so(pictures: tuple[Pictures, Any]) -> None:
    gallery, _ = pictures
    cells = [[[8, 5, 2]] * 16] * 16
    file = base64.b64encode(b"a file").decode()
    fields = PictureFields(Screen.model_json_schema())

    found = fields.pictures({"screen": cells, "cells": cells, "page": file, "text": file})
    assert found.keys() == {"screen", "page"}
    named = Path(gallery.view(found["screen"]).plain.removeprefix("picture: "))
    with Image.open(named) as image:
        assert (image.format, image.size, image.getpixel((0, 0))) == ("PNG", (16, 16), (8, 5, 2))
    assert (found["page"].media_type, found["page"].image) == ("image/jpeg", b"a file")
    assert fields.pictures({"screen": None, "page": None}) == {}


def test_nothing_is_shown_where_there_is_nothing(pictures: tuple[Pictures, Any]) -> None:
    gallery, client = pictures
    client.step({"what": "nothing"})
    assert gallery.render() is None


def test_an_environment_that_can_t_is_asked_once_in_an_episode(pictures: tuple[Pictures, Any]) -> None:
    gallery, client = pictures
    client.step({"what": "unknown"})
    before = Gallery.shown
    assert [gallery.render(), gallery.render()] == [None, None]
    assert Gallery.shown == before + 1
    gallery.begin_episode()
    assert gallery.render() is None
    assert Gallery.shown == before + 2


def test_a_short_observation_takes_one_line_below_a_picture() -> None:
    line = observation_line({"ball": 4, "row": 0, "metadata": {}, "done": False})
    assert line is not None
    assert line.plain == "ball 4 · row 0"
    assert observation_line({"text": "a\nb"}) is None
    assert observation_line({"numbers": list(range(60))}) is None


def test_play_shows_a_board_in_the_place_of_the_text_for_models(openenv: Any) -> None:
    played = openenv("play", "wordle", "--seed", 11, typed="stare\nq\n")
    assert (played.returncode, played.stderr) == (0, "")
    assert played.stdout.startswith("wordle  Find the secret English word")
    first, _, second = played.stdout.partition("step 1")
    assert "Find the secret 5-letter word" in first
    assert re.search(r"│ +_  _  _  _  _ +│", first)
    assert re.search(r"│ +S  T \(A\)\(R\) E +│", second), "its marks need no colours"
    assert "🟨" not in second
    assert re.search(r"│ +solved 0 · greens [\d.]+ · yellows [\d.]+ +│", second), "the reward's components, not cut"
