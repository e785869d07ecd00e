"""Catalogs as files, with a digest of their contents."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from openenv.core.documents import draft_of, open_regular
from openenv.core.exceptions import ConfigurationError
from openenv.discovery.errors import CatalogError
from openenv.discovery.models import CatalogSnapshot

MAX_CATALOG_BYTES = 16 * 1024 * 1024


def catalog_digest(snapshot: CatalogSnapshot) -> str:
    """Return the digest of a catalog: of its contents but the digest, as JSON with sorted keys."""
    content = json.dumps(_values(snapshot, without={"digest"}), sort_keys=True, separators=(",", ":"), **_FORMAT)
    return f"sha256:{sha256(content.encode('utf-8')).hexdigest()}"


def require_complete(snapshot: CatalogSnapshot) -> None:
    """Refuse a catalog that lacks environments, or whose digest is of other contents.

    Raises:
        CatalogError: The catalog is incomplete, or changed.
    """
    if not snapshot.complete:
        failed = ", ".join(issue.path for issue in snapshot.issues if issue.severity == "error")
        raise CatalogError(f"The catalog is incomplete: {failed}. Correct their files, and build it again.")
    if catalog_digest(snapshot) != snapshot.digest:
        raise CatalogError("The catalog was changed after it was built: its digest is of something else.")


def parse_json(text: str) -> Any:
    """Return the value of a catalog's JSON, whose objects have each key once, and whose numbers are finite.

    Raises:
        CatalogError: It is none.
    """
    try:
        return json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_number)
    except CatalogError:
        raise
    except ValueError as error:
        raise CatalogError(f"Invalid catalog JSON: {error}") from error


def load_catalog(path: str | Path) -> CatalogSnapshot:
    """Read a complete catalog. Nothing that it names is fetched.

    Raises:
        CatalogError: The file can't be read, is no catalog, or is an incomplete one.
    """
    try:
        with open_regular(Path(path)) as file:
            content = file.read(MAX_CATALOG_BYTES + 1)
    except ConfigurationError as error:
        raise CatalogError(f"The catalog can't be read. {error}") from error
    _check_size(len(content))
    try:
        snapshot = CatalogSnapshot.model_validate(parse_json(content.decode("utf-8")))
    except (ValidationError, RecursionError) as error:
        fault = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "it is nested too deeply"
        raise CatalogError(f"{path} is no catalog of version 0.1-draft: {fault}.") from error
    except ValueError as error:
        raise CatalogError(f"{path} is no catalog: {error}.") from error
    require_complete(snapshot)
    return snapshot


def write_catalog(snapshot: CatalogSnapshot, path: str | Path) -> None:
    """Write a catalog, also an incomplete one, over the file's contents.

    Raises:
        CatalogError: Its digest is of something else, it is too long, or the file can't be written.
    """
    if catalog_digest(snapshot) != snapshot.digest:
        raise CatalogError("Expected a catalog with the digest of its content, as build_catalog makes it.")
    text = f"{json.dumps(_values(snapshot), indent=2, sort_keys=True, **_FORMAT)}\n"
    _check_size(len(text.encode("utf-8")))
    file = Path(path)
    try:
        with draft_of(file) as draft:
            draft.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CatalogError(f"The catalog {file} can't be written: {error.strerror}.") from error


_FORMAT: dict[str, Any] = {"ensure_ascii": False, "allow_nan": False}


def _values(snapshot: CatalogSnapshot, without: set[str] | None = None) -> dict[str, Any]:
    return snapshot.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=without)


def _check_size(length: int) -> None:
    if length > MAX_CATALOG_BYTES:
        raise CatalogError(f"A catalog has at most {MAX_CATALOG_BYTES} bytes, and this one has more.")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise CatalogError("JSON contains duplicate object keys")
    return values


def _no_number(text: str) -> NoReturn:
    raise CatalogError(f"JSON contains a non-finite number: {text}")
