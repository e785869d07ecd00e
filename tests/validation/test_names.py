"""What names stand for, found without importing."""

import ast
from pathlib import Path

import pytest
from tests.environment_folders import write_files

from openenv.validation import read_source
from openenv.validation.names import Definition, External, Names

FILES = {
    "openenv.yaml": "name: my_env",
    "__init__.py": "from .client import MyEnv as Client\n",
    "models.py": """
        import pydantic
        from typing import Generic
        from openenv.core.env_server.types import Action as Base

        if True:
            class Inner(Base): ...

        try:
            from ujson import Fast
        except ImportError:
            from json import Slow

        class Outer(Inner, Generic): ...
        class Dotted(pydantic.BaseModel): ...
        class Own(Own): ...
        VALUE: int = 1
        A = B = 2
        def function(): ...
        """,
    "client.py": "from my_env.models import Outer as MyEnv\n",
    "server/__init__.py": "",
    "server/app.py": """
        from ..models import VALUE
        from ..server.deep.module import Deep
        from models import Dotted
        from ....too.far import Lost
        """,
    "server/deep/__init__.py": "",
    "server/deep/module.py": "from ...models import Inner as Deep\n",
    "round.py": "from .trip import Circle\n",
    "trip.py": "from .round import Circle\n",
    "broken.py": "def (",
}


@pytest.fixture
def names(tmp_path: Path) -> Names:
    return Names(read_source(write_files(tmp_path / "my_env", FILES)))


@pytest.mark.parametrize(
    ("module", "name", "expected"),
    [
        ("models", "Outer", "class Outer"),
        ("models", "Inner", "class Inner"),
        ("models", "VALUE", "VALUE: int = 1"),
        ("models", "A", "A = B = 2"),
        ("models", "B", "A = B = 2"),
        ("models", "function", "def function"),
        ("models", "Base", "openenv.core.env_server.types.Action"),
        ("models", "Fast", "ujson.Fast"),
        ("models", "Slow", "json.Slow"),
        ("client", "MyEnv", "class Outer"),
        ("", "Client", "class Outer"),
        ("server.app", "VALUE", "VALUE: int = 1"),
        ("server.app", "Deep", "class Inner"),
        ("server.app", "Dotted", "class Dotted"),
        ("server.app", "Lost", "too.far.Lost"),
        ("models", "Nothing", None),
        ("nowhere", "Outer", None),
        ("round", "Circle", None),
        ("broken", "x", None),
    ],
)
def test_find(names: Names, module: str, name: str, expected: str | None) -> None:
    found = names.find(module, name)
    if expected is None:
        assert found is None
    elif isinstance(found, External):
        assert found.dotted == expected
    else:
        assert isinstance(found, Definition)
        assert ast.unparse(found.node).startswith(expected)


def test_ancestors_follow_bases_through_files(names: Names) -> None:
    outer = names.find("client", "MyEnv")
    assert isinstance(outer, Definition)
    externals = {each.dotted for each in names.ancestors(outer) if isinstance(each, External)}
    assert externals == {"openenv.core.env_server.types.Action", "typing.Generic"}


def test_dotted_bases_and_classes_that_extend_themselves(names: Names) -> None:
    dotted, own = names.find("models", "Dotted"), names.find("models", "Own")
    assert isinstance(dotted, Definition)
    assert isinstance(own, Definition)
    assert External("pydantic.BaseModel") in list(names.ancestors(dotted))
    assert list(names.ancestors(own)) == [own]
