"""What names stand for, found without importing."""

import ast
from pathlib import Path

import pytest
from tests.support.environment_folders import write_files

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


PART = {
    "pyproject.toml": "",
    "__init__.py": "",
    "models.py": "from openenv import Observation\nclass Shared(Observation): ...\n",
    "server/__init__.py": "class Package: ...\n",
    "server/base.py": "from ..models import Shared as Base\n",
    "part/__init__.py": "",
    "part/openenv.yaml": "name: part",
    "part/models.py": """
        from ..models import Shared
        from my_env.models import Shared as Absolute
        from ..models import Missing
        from ...outside import Lost
        class Mine(Shared): ...
        """,
    "part/server/__init__.py": "",
    "part/server/app.py": """
        from ...server.base import Base
        from ... import server
        from ...server import Package
        from ..models import Mine
        from my_env.part.models import Mine as Same
        from ...part.models import Mine as Around
        """,
}


@pytest.mark.parametrize(
    ("module", "name", "expected"),
    [
        ("models", "Shared", "../models.py:Shared"),
        ("models", "Absolute", "../models.py:Shared"),
        ("models", "Missing", None),
        ("models", "Lost", "outside.Lost"),
        ("server.app", "Base", "../models.py:Shared"),
        ("server.app", "Package", "../server/__init__.py:Package"),
        ("server.app", "Mine", "models.py:Mine"),
        ("server.app", "Same", "models.py:Mine"),
        ("server.app", "Around", "models.py:Mine"),
    ],
)
def test_names_of_the_package_around_are_followed(tmp_path: Path, module: str, name: str, expected: str | None) -> None:
    part = write_files(tmp_path / "my_env", PART) / "part"
    (tmp_path / "outside.py").write_text("class Lost: ...\n")
    found = Names(read_source(part)).find(module, name)
    if isinstance(found, Definition):
        assert isinstance(found.node, ast.ClassDef)
        assert f"{found.path}:{found.node.name}" == expected
    else:
        assert (None if found is None else found.dotted) == expected


def test_ancestors_are_followed_into_the_package_around(tmp_path: Path) -> None:
    names = Names(read_source(write_files(tmp_path / "my_env", PART) / "part"))
    mine = names.find("models", "Mine")
    assert isinstance(mine, Definition)
    assert External("openenv.Observation") in list(names.ancestors(mine))


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


ALTERNATIVES = [
    "try:\n    from core.env import Base\nexcept ImportError:\n    from openenv import Base\n",
    "try:\n    from openenv import Base\nexcept ImportError:\n    from core.env import Base\n",
    "if here:\n    from core.env import Base\nelse:\n    from openenv import Base\n",
    "try:\n    from a import Base\nexcept ImportError:\n    try:\n        from b import Base\n"
    "    except ImportError:\n        from openenv import Base\n",
]


@pytest.mark.parametrize("text", ALTERNATIVES)
def test_of_alternative_imports_the_known_one_counts(tmp_path: Path, text: str) -> None:
    write_files(tmp_path, {"openenv.yaml": "name: my_env"})
    (tmp_path / "models.py").write_text(text)
    assert Names(read_source(tmp_path)).find("models", "Base") == External("openenv.Base")
