"""Packages by allow-list: what is named can be imported, with what it requires, and nothing else."""

import pytest

from openenv.core.exceptions import ConfigurationError
from openenv.core.sandbox import Sandbox
from openenv.core.sandbox.packages import package_files


@pytest.mark.needs("sandbox")
def test_only_what_is_allowed_can_be_imported() -> None:
    program = """
for name in ("pydantic", "pydantic_core", "typing_extensions", "yaml", "openenv", "pip", "setuptools", "guest"):
    try:
        __import__(name)
        print(name)
    except ImportError:
        pass
"""
    with Sandbox(packages=["pydantic"]) as sandbox:
        assert sandbox.python(program).stdout.split() == ["pydantic", "pydantic_core", "typing_extensions"]
        assert sandbox.run(["python3", "-c", program]).stdout.split() == [
            "pydantic",
            "pydantic_core",
            "typing_extensions",
        ]
        writing = sandbox.python("import pydantic\nopen(pydantic.__file__, 'a')")
        assert "Error: [Errno" in writing.stderr
    with Sandbox() as sandbox:
        assert sandbox.python(program).stdout == ""
        assert sandbox.python("import sqlite3, ssl, zlib, json, ctypes, decimal").stderr == ""


@pytest.mark.needs("sandbox")
def test_what_is_not_installed_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"'no-such-thing'.*not installed here; install it first"):
        Sandbox(packages=["no-such-thing"])


def test_what_is_installed_from_a_checkout_has_no_files_to_show() -> None:
    with pytest.raises(ConfigurationError, match=r"openenv-core.*editable"):
        package_files(["openenv-core"])


def test_requirements_of_extras_are_left_out() -> None:
    assert "email_validator" not in package_files(["pydantic"])
    assert "pydantic" in package_files(["PyDantic"])
