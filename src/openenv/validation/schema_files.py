"""JSON Schemas of what validation reads and writes, which other programs find in the folder ``schemas``."""

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from openenv.validation.manifest import NormalizedManifest, NormalizedManifestV2
from openenv.validation.report import ValidationReport, ValidationReportV2
from openenv.validation.runtime.contracts import RuntimePlan

SCHEMAS: Mapping[str, type[BaseModel]] = {
    "manifest": NormalizedManifest,
    "manifest-v2": NormalizedManifestV2,
    "report": ValidationReport,
    "report-v2": ValidationReportV2,
    "runtime-plan": RuntimePlan,
}
FOLDER = Path(__file__).with_name("schemas")


def schema_text(name: str) -> str:
    """Return the content of a schema's file."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **SCHEMAS[name].model_json_schema()}
    return f"{json.dumps(schema, indent=2)}\n"


if __name__ == "__main__":  # python -m openenv.validation.schema_files writes the files
    for each in SCHEMAS:
        (FOLDER / f"{each}.schema.json").write_text(schema_text(each), encoding="utf-8")
