"""``openenv discover``: environments for a task, of those that are known here or of a catalog."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from openenv.auto.discovery import KnownEnvironment, known_environments
from openenv.cli.options import AsJson
from openenv.core.exceptions import ConfigurationError
from openenv.discovery.models import CatalogSnapshot, SearchMatch
from openenv.discovery.search import MAX_MATCHES, score, search_catalog
from openenv.discovery.serialization import load_catalog

Query = Annotated[str, typer.Argument(metavar="QUERY", help="Words of the task; without them, all environments.")]
Catalog = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File of a catalog.  [default: what is installed, in folders here, and published by this project]",
    ),
]
Limit = Annotated[int, typer.Option(min=1, max=MAX_MATCHES, help="Environments at most.")]
Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter", metavar="FIELD=VALUE", help="Value that a field of the catalog must have; may be given again."
    ),
]


def discover(
    query: Query = "", catalog: Catalog = None, limit: Limit = 20, filters: Filters = None, as_json: AsJson = False
) -> None:
    """Find environments for a task by the words that describe them. Nothing is installed, fetched or run."""
    wanted = _read_filters(filters or [])
    if catalog is not None:
        snapshot = load_catalog(catalog)
        _show_matches(snapshot, search_catalog(snapshot, query, filters=wanted, limit=limit), as_json=as_json)
    elif wanted:
        raise ConfigurationError("--filter is for the fields of a catalog: give its file with --catalog.")
    else:
        _show_known(_search_known(query)[:limit], as_json=as_json)


def _read_filters(texts: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    filters = {field: value for field, _, value in pairs}
    if len(filters) != len(texts) or not all(field and separator for field, separator, _ in pairs):
        raise ConfigurationError(f"Expected --filter FIELD=VALUE, once for a field, got {' '.join(texts)}.")
    return filters


def _show_matches(snapshot: CatalogSnapshot, matches: list[SearchMatch], *, as_json: bool) -> None:
    if as_json:
        results = [_as_json(match) for match in matches]
        document = {"results": results, "snapshot": snapshot.digest, "metadataOnly": True}
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    for match in matches:
        card = match.entry.data
        typer.echo(f"{match.entry.display_name}: {card.description}")
        typer.echo(f"  source      {card.source.uri}, {card.source.path} at {card.source.revision}")
        typer.echo(f"  license     {card.license}; artifact: {card.artifact_availability}")
        typer.echo(f"  identifier  {match.entry.identifier}")
    typer.echo(_summary(len(matches)), err=True)


def _as_json(match: SearchMatch) -> dict[str, Any]:
    return {**match.entry.model_dump(mode="json", by_alias=True, exclude_none=True), "score": match.score}


def _search_known(query: str) -> list[tuple[int, KnownEnvironment]]:
    scored = [(score(query, f"{each.name} {each.description}"), each) for each in known_environments()]
    found = [(points, each) for points, each in scored if points is not None]
    return sorted(found, key=lambda pair: (-pair[0], pair[1].name))


def _show_known(found: list[tuple[int, KnownEnvironment]], *, as_json: bool) -> None:
    if as_json:
        results = [{**asdict(each), "score": points} for points, each in found]
        typer.echo(json.dumps({"results": results, "metadataOnly": True}, indent=2, ensure_ascii=False))
        return
    for _, each in found:
        typer.echo(f"{each.name}: {each.description}\n  {each.location}")
    typer.echo(_summary(len(found)), err=True)


def _summary(count: int) -> str:
    if count == 0:
        return "No environment fits these words."
    return f"{count} {'environment' if count == 1 else 'environments'}, by their descriptions; none was tried."
