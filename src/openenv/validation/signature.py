"""Signature of a package: the well-known file by which its kind is known."""

from collections.abc import Mapping
from pathlib import Path

from openenv.validation.types import SignatureKind

WELL_KNOWN_FILES: Mapping[SignatureKind, str] = {SignatureKind.OPENENV_SERVED: SignatureKind.OPENENV_SERVED.value}
UNSUPPORTED_CATEGORIES: Mapping[str, str] = {
    "hosted-verifier": "the verifier runs on a server that is no part of the package",
    "multi-agent": "several agents play one episode",
    "simulated-user": "a model plays the user",
    "parser-not-implemented": "no parser reads this kind of package",
}
_FRONT_MATTER = b"---"


class SignatureError(Exception):
    """Folder that is no package, or several packages in one.

    Example:
        >>> str(SignatureError("not a package directory: x"))
        'not a package directory: x'
    """


class UnsupportedPackageError(Exception):
    """Package of a kind that is known, and that validation does not support.

    Attributes:
        category: Key of ``UNSUPPORTED_CATEGORIES``.
        reason: The reason, in words.

    Example:
        >>> str(UnsupportedPackageError("multi-agent", "two players"))
        'unsupported package (multi-agent): two players'
    """

    def __init__(self, category: str, reason: str) -> None:
        if category not in UNSUPPORTED_CATEGORIES:
            raise ValueError(f"unknown category {category!r}; expected one of {sorted(UNSUPPORTED_CATEGORIES)}")
        super().__init__(f"unsupported package ({category}): {reason}")
        self.category = category
        self.reason = reason


def detect_signature(package_root: Path) -> SignatureKind:
    """Find what kind of package a folder holds.

    Args:
        package_root: The folder.

    Raises:
        SignatureError: It is no folder, holds no well-known file that can be parsed, or holds several.

    Example:
        >>> detect_signature(Path("/no/such/folder"))
        Traceback (most recent call last):
        openenv.validation.signature.SignatureError: not a package directory: /no/such/folder
    """
    if not package_root.is_dir():
        raise SignatureError(f"not a package directory: {package_root}")
    found = [kind for kind in SignatureKind if _is_signed(package_root / kind.value)]
    if len(found) > 1:
        raise SignatureError(
            f"ambiguous package: {package_root} matches multiple signatures "
            f"({', '.join(kind.value for kind in found)}); a package must carry exactly one well-known file"
        )
    if not found or found[0] not in WELL_KNOWN_FILES:
        raise SignatureError(
            f"unrecognized package: {package_root} contains none of the well-known files this build can parse "
            f"({', '.join(WELL_KNOWN_FILES.values())})"
        )
    return found[0]


def _is_signed(file: Path) -> bool:
    """Return whether a well-known file is there; Markdown is one only with front matter."""
    if not file.is_file():
        return False
    if file.suffix != ".md":
        return True
    with file.open("rb") as content:
        return content.readline(len(_FRONT_MATTER) + 2).rstrip() == _FRONT_MATTER
