"""Parsers by the kind of package."""

import pytest

from openenv.validation import Parser, ParserRegistry, SignatureKind, UnsupportedPackageError
from openenv.validation.parsers.openenv_yaml import OpenEnvYamlParser


def test_a_later_parser_replaces_the_one_of_its_kind() -> None:
    registry, first, second = ParserRegistry(), OpenEnvYamlParser(), OpenEnvYamlParser()
    assert isinstance(first, Parser)
    registry.register(first)
    registry.register(second)
    assert registry.parser_for(SignatureKind.OPENENV_SERVED) is second


def test_a_kind_without_a_parser_is_not_supported() -> None:
    with pytest.raises(UnsupportedPackageError, match=r"no parser registered for signature 'task\.toml'") as error:
        ParserRegistry().parser_for(SignatureKind.HARBOR_TASK)
    assert error.value.category == "parser-not-implemented"
