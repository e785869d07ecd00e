"""Pictures of environments: in which forms they come, and how they travel."""

import io
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.support.servers import RunningServer

from openenv import Action, Environment, GenericEnvClient, Observation, State
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import (
    EnvironmentFailedError,
    ServerExecutionError,
    ServerTimeoutError,
)
from openenv.core.wire.results import Picture, picture_of, png_of


class Draw(Action):
    what: str


class Drawn(Observation):
    pictures: int = 0


class Painter(Environment[Draw, Drawn, State]):
    """Draws whatever it is told to, and counts how often."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.what = "board"
        self.pictures = 0

    def reset(self, seed: int | None = None) -> Drawn:
        self.what, self.pictures = "board", 0
        return Drawn()

    def step(self, action: Draw) -> Drawn:
        self.what = action.what
        return Drawn(pictures=self.pictures)

    def render(self) -> Any:
        self.pictures += 1
        if self.what == "broken":
            raise RuntimeError("no paint left")
        if self.what == "slow":
            time.sleep(2)
        return {"nothing": None, "photo": np.full((2, 3, 3), 7, np.uint8), "odd": object()}.get(
            self.what, f"{self.what} \x1b[32mgreen\x1b[0m"
        )

    @property
    def state(self) -> State:
        return State(pictures=self.pictures)


class Hasty(Painter):
    """The same, drawn on the server's loop."""

    BLOCKING: ClassVar[bool] = False


def serve(environment: Any = Painter, **settings: Any) -> RunningServer:
    return RunningServer(create_fastapi_app(environment, Draw, Drawn, **settings))


@pytest.mark.parametrize(
    ("rendered", "media_type"),
    [
        ("X.O\n", "text/plain"),
        ("a < b", "text/plain"),
        ("  <svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"),
        ("<!DOCTYPE html><p>hello", "text/html"),
        ("<div>hello</div>", "text/html"),
    ],
)
def test_a_text_is_known_by_how_it_begins(rendered: str, media_type: str) -> None:
    picture = picture_of(rendered)
    assert picture == Picture(media_type=media_type, content=rendered)
    assert picture.image is None


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "webp"])
def test_the_bytes_of_an_image_are_known_by_how_they_begin(kind: str) -> None:
    written = io.BytesIO()
    Image.new("RGB", (4, 3), "red").save(written, kind)
    picture = picture_of(written.getvalue())
    assert picture is not None
    assert (picture.media_type, picture.image) == (f"image/{kind}", written.getvalue())


@given(
    height=st.integers(1, 9), width=st.integers(1, 9), depth=st.sampled_from([None, 1, 3, 4]), seed=st.integers(0, 9)
)
def test_an_array_becomes_a_png_of_the_same_pixels(height: int, width: int, depth: int | None, seed: int) -> None:
    shape = (height, width) if depth is None else (height, width, depth)
    pixels = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    image = Image.open(io.BytesIO(png_of(pixels)))
    image.load()
    assert np.array_equal(np.asarray(image), pixels[..., 0] if depth == 1 else pixels)


def test_an_array_may_be_a_part_of_another_one() -> None:
    pixels = np.arange(5 * 8 * 3, dtype=np.uint8).reshape(5, 8, 3)[::2, ::-1]
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(png_of(pixels)))), pixels)


@pytest.mark.parametrize("rendered", [None, ""])
def test_nothing_is_no_picture(rendered: Any) -> None:
    assert picture_of(rendered) is None


@pytest.mark.parametrize(
    ("rendered", "came"),
    [
        (object(), "object"),
        (7, "int"),
        (b"not an image", "12 bytes of no known kind of image"),
        (np.zeros((2, 2, 3)), r"the shape \(2, 2, 3\) and the format 'd'"),
        (np.zeros((2, 2, 2), np.uint8), r"the shape \(2, 2, 2\)"),
        (np.zeros((0, 2), np.uint8), r"the shape \(0, 2\)"),
        (np.zeros(4, np.uint8), r"the shape \(4,\)"),
    ],
)
def test_anything_else_is_an_error_that_says_what_may_be_returned(rendered: Any, came: str) -> None:
    with pytest.raises(EnvironmentFailedError, match=came) as error:
        picture_of(rendered)
    assert "text, HTML, SVG, the bytes of a PNG" in str(error.value)


@pytest.mark.parametrize("environment", [Painter, Hasty])
@pytest.mark.parametrize("isolation", [None, "process"])
def test_a_picture_travels_from_wherever_the_environment_runs(environment: Any, isolation: str | None) -> None:
    with serve(environment, isolation=isolation) as server, GenericEnvClient(server.url, 60).sync() as client:
        client.reset()
        assert client.render() == Picture(media_type="text/plain", content="board \x1b[32mgreen\x1b[0m")
        client.step({"what": "photo"})
        photo = client.render()
        assert photo is not None
        assert photo.image is not None
        assert Image.open(io.BytesIO(photo.image)).getpixel((2, 1)) == (7, 7, 7)
        client.step({"what": "nothing"})
        assert client.render() is None


async def test_it_can_be_awaited() -> None:
    with serve() as server:
        async with GenericEnvClient(server.url) as client:
            await client.reset()
            picture = await client.render()
    assert picture is not None
    assert picture.content.startswith("board")


@pytest.mark.parametrize(("what", "said"), [("broken", "no paint left"), ("odd", "got object")])
def test_what_goes_wrong_in_drawing_leaves_the_episode_as_it_was(what: str, said: str) -> None:
    with serve() as server, GenericEnvClient(server.url).sync() as client:
        client.reset()
        client.step({"what": what})
        with pytest.raises(ServerExecutionError, match=said):
            client.render()
        assert client.step({"what": "board"}).observation["pictures"] == 1


def test_drawing_may_take_no_longer_than_a_step() -> None:
    with serve(step_timeout_s=0.2) as server, GenericEnvClient(server.url).sync() as client:
        client.reset()
        client.step({"what": "slow"})
        with pytest.raises(ServerTimeoutError, match="render"):
            client.render()


def test_the_legacy_wire_has_no_pictures() -> None:
    with serve() as server, server.wire() as wire:
        wire.reset()
        answer = wire.ask({"type": "render"})
    assert answer["data"]["code"] == "UNKNOWN_TYPE"


@pytest.mark.parametrize("extra", [{"data": {"brush": 1}}, {"kind": "text"}])
def test_the_message_has_no_further_fields(extra: dict[str, Any]) -> None:
    with serve() as server, server.v1() as wire:
        session = wire.open()
        answer = wire.ask(wire.message("render", session) | extra)
    assert answer["data"]["code"] == "VALIDATION_ERROR"


def test_agents_see_no_pictures() -> None:
    with serve(mode="production") as server, server.v1() as wire:
        answer = wire.do("render", wire.open())
    assert answer["data"]["mode"] == "production"


def test_a_session_that_is_rebuilt_has_its_last_picture_and_draws_none_again(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with serve(journal=journal) as server, server.v1() as wire:
        session, token = wire.open_with_token()
        wire.do("reset", session)
        wire.do("step", session, what="boat")
        drawn = wire.message("render", session)
        picture = wire.ask(drawn)
        assert picture["data"]["content"].startswith("boat")
        wire.cut()
    with serve(journal=journal) as server, server.v1() as wire:
        assert wire.attach(session, token, answered=2)["type"] == "attached"
        assert wire.ask(drawn) == picture
        assert wire.do("step", session, what="boat")["data"]["observation"]["pictures"] == 0
