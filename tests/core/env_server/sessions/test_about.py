"""What a server says of its environment: by the manifest, the docstring, the README and the author's own words."""

import asyncio
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from pydantic import BaseModel, Field
from tests.conftest import Serve
from tests.support.environments.common import Add, CounterEnvironment, Total

from openenv.auto.package import EnvironmentPackage
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.http.examples import example_of
from openenv.core.env_server.types import EnvironmentMetadata

SOURCE = """
from tests.support.environments.common import Add, CounterEnvironment, Total
from openenv.core.env_server.app import create_app


class Adder(CounterEnvironment):
    pass


app = create_app(Adder, Add, Total, env_name="another_name")
"""


class Own(CounterEnvironment):
    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(name="mine", description="what I say", readme_content="# Mine", author="me")


class Wordless(CounterEnvironment):
    __doc__ = None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "adder_env"
    folder.mkdir()
    manifest = "spec_version: 1\nname: adder_env\nversion: '2.5'\ndescription: Add numbers up.\napp: served:app\n"
    for name, text in {
        "__init__.py": "",
        "served.py": SOURCE,
        "openenv.yaml": manifest,
        "README.md": "# Adding\n",
    }.items():
        (folder / name).write_text(text)
    return folder


def answers(serve_app: Any, *paths: str) -> list[Any]:
    transport = httpx.ASGITransport(app=serve_app)

    async def get() -> list[Any]:
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return [(await http.get(path)).json() for path in paths]

    return asyncio.run(get())


def test_the_manifest_and_the_readme_say_what_it_is(folder: Path) -> None:
    app = EnvironmentPackage.from_folder(folder).app()
    metadata, document = answers(app, "/metadata", "/openapi.json")
    assert metadata == {
        "name": "adder_env",
        "description": "Add numbers up.",
        "readme_content": "# Adding\n",
        "version": "2.5",
        "author": None,
        "documentation_url": None,
    }
    assert document["info"] == {"title": "adder_env", "description": "Add numbers up.", "version": "2.5"}


def test_the_author_s_own_words_win() -> None:
    (metadata,) = answers(create_fastapi_app(Own, Add, Total), "/metadata")
    assert metadata["name"] == "mine"
    assert metadata["description"] == "what I say"
    assert (metadata["readme_content"], metadata["author"]) == ("# Mine", "me")


def test_without_words_there_is_the_class_s_name() -> None:
    (metadata,) = answers(create_fastapi_app(Wordless, Add, Total), "/metadata")
    assert (metadata["name"], metadata["description"]) == ("Wordless", "Wordless environment")


def test_a_readme_may_be_named(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "READ.md").write_text("# Elsewhere")
    monkeypatch.setenv("ENV_README_PATH", str(tmp_path / "READ.md"))
    (metadata,) = answers(create_fastapi_app(Wordless, Add, Total), "/metadata")
    assert metadata["readme_content"] == "# Elsewhere"


@pytest.mark.parametrize("manifest", ["name: [", "- a list", "x" * 2_000_000, ""])
def test_a_manifest_that_can_t_be_read_is_passed_over(folder: Path, manifest: str) -> None:
    (folder / "openenv.yaml").write_text(manifest)
    names: dict[str, Any] = {}
    exec(compile(SOURCE, str(folder / "served.py"), "exec"), names)
    assert names["app"].title == "another_name"


class Inner(BaseModel):
    place: Literal["left", "right"]
    many: list[int] = Field(min_length=2)


class Everything(BaseModel):
    word: str = Field(examples=["crane"])
    above: int = Field(gt=3)
    inner: Inner
    maybe: float | None
    optional: str = "not shown"


class Even(BaseModel):
    number: str = Field(pattern="^(00)+$")


class Optional(BaseModel):
    amount: int = 3
    metadata: dict[str, Any] = {}


def test_examples() -> None:
    inner = {"place": "left", "many": [0, 0]}
    assert example_of(Everything) == {"word": "crane", "above": 4, "inner": inner, "maybe": 0}
    assert example_of(Optional) == {"amount": 3}
    assert example_of(Even) is None
