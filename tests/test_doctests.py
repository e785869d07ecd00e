"""The examples in docstrings give what they say."""

import doctest
import importlib

import pytest
from tests.support.modules import MODULES


@pytest.mark.needs("reasoning-gym")
def test_examples_in_docstrings_are_true() -> None:
    results = {name: doctest.testmod(importlib.import_module(name)) for name in MODULES}

    assert {name: result.failed for name, result in results.items() if result.failed} == {}
    assert sum(result.attempted for result in results.values()) > 10
