"""Every name of the public package is there under the same path, but for those that are left out knowingly."""

import importlib
import json
import os
from importlib.util import find_spec

import pytest
from benchmarks.public_package import ROOT
from tests.interop.conftest import PROGRAMS, Templates
from tests.support.forked import run_forked

Names = dict[str, list[str]]
"""Of each module."""

LEFT_OUT_MODULES = frozenset(
    {
        "openenv.cli.importers.templates",
        "openenv.core.containers.test_local_docker_provider",
        "openenv.core.env_server.gradio_theme",
        "openenv.core.env_server.gradio_ui",
    }
)
"""With all that is in them."""

LEFT_OUT = {
    "openenv.cli.importers.base": "ImportPackageContext append_dependency_files collect_source_dependencies "
    "copy_source_tree ensure_vendor_package iter_python_files module_path prepare_import_package "
    "render_importer_template safe_vendor_dir_name write_text",
    "openenv.cli.importers.ors": "detect_ors_dependencies",
}
"""Names that modules of ours lack."""


def is_here(module: str, name: str) -> bool:
    """Whether ``from module import name`` finds it: a name of the module, or a module in it."""
    try:
        return hasattr(importlib.import_module(module), name) or find_spec(f"{module}.{name}") is not None
    except ImportError:
        return False


@pytest.fixture(scope="module")
def listed(templates: Templates) -> dict[str, Names]:
    """What the public package's modules promise, and what they hold."""
    words = ["-m", f"{PROGRAMS}.names"]
    done = run_forked(words, cwd=ROOT, env=os.environ, timeout=300, template=templates["public"])
    assert done.returncode == 0, done.stderr
    names: dict[str, Names] = json.loads(done.stdout)
    return names


def test_what_programs_import_is_here(listed: dict[str, Names]) -> None:
    promised = listed["promised"]
    counted = {module: names for module, names in promised.items() if not is_left_out(module)}
    assert absent(counted) == {module: names.split() for module, names in LEFT_OUT.items()}
    # The figures of docs/drop-in.md.
    assert (len(promised), count(promised), count(counted) - count(absent(counted))) == (96, 529, 512)


def test_modules_that_are_left_out_are_not_here(listed: dict[str, Names]) -> None:
    lacking = {module for module in listed["promised"] if not is_module(module)}
    assert lacking == LEFT_OUT_MODULES


def test_what_programs_import_through_another_module_is_here(listed: dict[str, Names]) -> None:
    held = listed["held"]
    assert "StepResult" in held["openenv.core.env_client"]
    assert count(held) > 200
    # A table of codes that a module of theirs reads for itself.
    aside = {"openenv.validation.runtime.collector": ["WSErrorCode"]}
    assert absent({module: names for module, names in held.items() if not is_left_out(module)}) == aside


def is_left_out(module: str) -> bool:
    return module in LEFT_OUT_MODULES


def is_module(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its package is absent
        return False


def count(names: Names) -> int:
    return sum(map(len, names.values()))


def absent(public: Names) -> Names:
    missing = {module: [name for name in names if not is_here(module, name)] for module, names in public.items()}
    return {module: names for module, names in missing.items() if names}
