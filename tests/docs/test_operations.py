"""The page on running a server lists what servers tell, all of it and nothing else."""

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from tests.conftest import Serve

from openenv.core.env_server.metrics import Ending, Transport

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
_ROW = re.compile(r"^\| (`(?:openenv|process)_.*?) \| (.*?) \|", re.MULTILINE)


def test_the_metrics_and_their_labels(serve: Serve, tmp_path: Path) -> None:
    told: dict[str, set[str]] = {}
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(f"[trainer]\nsha256 = '{'0' * 64}'\nrole = 'play'\n")
    with serve(traces=tmp_path / "traces.db", tokens=tokens).http() as http:
        http.get("/state", headers={"X-OpenEnv-Session": "none"})  # an error, which there would be none of otherwise
        text = http.get("/metrics").text
    for family in text_string_to_metric_families(text):
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        told[family.name.removesuffix(suffix) + suffix] = labels
    listed = {
        name: set(re.findall(r"`(\w+)`", labels))
        for names, labels in _ROW.findall(PAGE)
        for name in names.strip("`").split("`, `")
    }
    assert listed == told


def test_the_reasons_and_the_transports() -> None:
    (sentence,) = re.findall(r"A session ends as .*?\.\s", PAGE, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", sentence)) == {str(ending) for ending in Ending}
    assert ", ".join(f"`{transport}`" for transport in Transport) in PAGE
