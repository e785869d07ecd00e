"""The Grafana dashboard: it is what Grafana reads, and asks for nothing that a server does not tell."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client.parser import text_string_to_metric_families
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer

from openenv.core.env_server.app import create_fastapi_app

PATH = Path(__file__).parents[2] / "docs" / "grafana" / "openenv.json"
# What Prometheus adds to every sample that it scrapes.
ADDED_LABELS = {"instance", "job"}
VARIABLES = {"$__rate_interval": "1m", "$instance": "x", "$environment": "x"}

DASHBOARD: dict[str, Any] = json.loads(PATH.read_text())


@pytest.fixture(scope="module")
def scraped() -> dict[str, set[str]]:
    """The labels of every sample that a server gives, by its name."""
    labels: dict[str, set[str]] = {}
    with RunningServer(create_fastapi_app(CounterEnvironment, Add, Total)) as server, server.http() as http:
        http.get("/state", headers={"X-OpenEnv-Session": "none"})  # an error, which there would be none of otherwise
        for family in text_string_to_metric_families(http.get("/metrics").text):
            for sample in family.samples:
                labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


def panels() -> Iterator[dict[str, Any]]:
    return (panel for panel in DASHBOARD["panels"] if panel["type"] != "row")


def expressions() -> Iterator[str]:
    """Every PromQL expression, the variables of Grafana filled in."""
    queries = [
        variable["query"]["query"] for variable in DASHBOARD["templating"]["list"] if "refId" in variable["query"]
    ]
    for query in queries:
        yield _filled(query.removeprefix("label_values(").rpartition(",")[0])
    for panel in panels():
        yield from (_filled(target["expr"]) for target in panel["targets"])


def _filled(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def names_in(expression: str) -> set[str]:
    """The metrics that an expression reads."""
    return {str(selector.name) for selector in selectors(promql_parser.parse(expression))}


def selectors(node: Any) -> Iterator[promql_parser.VectorSelector]:
    """What an expression reads, and each label that it matches or groups by."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    for name in ("expr", "lhs", "rhs", "vector_selector"):
        if getattr(node, name, None) is not None:
            yield from selectors(getattr(node, name))
    for argument in getattr(node, "args", None) or []:
        yield from selectors(argument)


def groupings(node: Any) -> Iterator[tuple[list[str], list[str]]]:
    """Each ``sum by (...)``: the labels, and the names of the metrics below it."""
    if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
        yield node.modifier.labels, [str(selector.name) for selector in selectors(node.expr)]
    for name in ("expr", "lhs", "rhs"):
        if getattr(node, name, None) is not None:
            yield from groupings(getattr(node, name))
    for argument in getattr(node, "args", None) or []:
        yield from groupings(argument)


def lost(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Where something of ours is missing, or different, in what the model makes of it; it adds defaults."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in ours:
            yield from lost(ours[key], theirs.get(key), f"{path}/{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from lost(one, other, f"{path}/{index}")
    elif ours != theirs:
        yield path


def test_grafana_s_own_model_of_a_dashboard_keeps_all_of_it() -> None:
    kept = json.loads(JSONEncoder().encode(Dashboard.from_json(DASHBOARD)))
    assert not list(lost(DASHBOARD, kept))
    broken = DASHBOARD | {"templating": {"lost": []}, "tagz": []}
    assert list(lost(broken, json.loads(JSONEncoder().encode(Dashboard.from_json(broken))))), "the check sees something"


def test_every_metric_and_label_that_it_asks_for_is_there(scraped: dict[str, set[str]]) -> None:
    asked = set()
    for expression in expressions():
        parsed = promql_parser.parse(expression)
        for selector in selectors(parsed):
            name = str(selector.name)
            asked.add(name)
            assert name in scraped, f"no such metric in {expression}"
            matched = {matcher.name for matcher in selector.matchers.matchers}
            assert matched <= scraped[name] | ADDED_LABELS, expression
        for grouped, names in groupings(parsed):
            assert all(set(grouped) <= scraped[name] for name in names), expression
    assert len(asked) > 20


def test_most_of_what_a_server_tells_is_shown(scraped: dict[str, set[str]]) -> None:
    asked = set().union(*map(names_in, expressions()))
    families = {name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum") for name in scraped}
    shown = {name.removesuffix("_bucket").removesuffix("_count") for name in asked}
    assert {name for name in families - shown if name.startswith("openenv_")} == {
        "openenv_journal_seconds_total",
        "openenv_websocket_characters_total",
    }


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(numbers) == len(set(numbers))
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_queries_go_to_the_data_source_that_is_chosen() -> None:
    for panel in panels():
        for queried in (panel, *panel["targets"]):
            assert queried["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
