"""Parsers: the readers of packages, one for each kind."""

from pathlib import Path
from typing import Protocol, runtime_checkable

from openenv.validation.manifest import NormalizedManifest
from openenv.validation.signature import UnsupportedPackageError
from openenv.validation.types import SignatureKind


@runtime_checkable
class Parser(Protocol):
    """Reader of one kind of package. None of a package's code is imported.

    Attributes:
        signature: The kind.

    Example:
        >>> from openenv.validation.parsers.openenv_yaml import OpenEnvYamlParser
        >>> isinstance(OpenEnvYamlParser(), Parser)
        True
    """

    signature: SignatureKind

    def parse(self, package_root: Path) -> NormalizedManifest:
        """Read a package's declarations; raises ``ManifestError`` where they are not valid."""
        ...


class ParserRegistry:
    """The parsers of a validation, by the kind of package.

    Example:
        >>> ParserRegistry().parser_for(SignatureKind.HARBOR_TASK)
        Traceback (most recent call last):
        openenv.validation.signature.UnsupportedPackageError: unsupported package (parser-not-implemented): \
no parser registered for signature 'task.toml'
    """

    def __init__(self) -> None:
        self._parsers: dict[SignatureKind, Parser] = {}

    def register(self, parser: Parser) -> None:
        """Add a parser, in the stead of one for the same kind."""
        self._parsers[parser.signature] = parser

    def parser_for(self, signature: SignatureKind) -> Parser:
        """Return the parser of a kind.

        Raises:
            UnsupportedPackageError: There is none.
        """
        parser = self._parsers.get(signature)
        if parser is None:
            reason = f"no parser registered for signature {signature.value!r}"
            raise UnsupportedPackageError("parser-not-implemented", reason)
        return parser
