"""Reports: their JSON, and their schemas."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError
from tests.support.packages import declarations, package

from openenv.validation import CheckResult, CheckStatus, Level, run_validation, write_report
from openenv.validation.schema_files import FOLDER, SCHEMAS, schema_text


@pytest.mark.parametrize("check_id", ["static", "static.A", "static.a.b", "static.a1", ".a", "static."])
def test_ids_have_a_level_and_a_name(check_id: str) -> None:
    with pytest.raises(ValidationError):
        CheckResult(check_id=check_id, status=CheckStatus.PASS, duration_s=0.0)


@pytest.mark.parametrize("validation", [None, declarations(), declarations(execution={})])
@pytest.mark.parametrize("level", [Level.STATIC, Level.SEMANTIC])
def test_a_report_is_written_as_its_schema_says(tmp_path: Path, validation: Any, level: Level) -> None:
    report = run_validation(package(tmp_path / "x", validation), max_level=level, skip_build=True)
    text = write_report(report, tmp_path / "report.json")
    assert (tmp_path / "report.json").read_text() == f"{text}\n"
    written = json.loads(text)
    assert (written["lane"], written["levels_run"]) == ("local", [1])
    name = "report" if written["report_schema_version"] == "1" else "report-v2"
    jsonschema.validate(written, json.loads((FOLDER / f"{name}.schema.json").read_text()))
    if report.manifest is not None:
        schema = "manifest" if report.manifest.manifest_schema_version == "1" else "manifest-v2"
        jsonschema.validate(written["manifest"], json.loads((FOLDER / f"{schema}.schema.json").read_text()))


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schemas_are_those_of_the_models(name: str) -> None:
    assert (FOLDER / f"{name}.schema.json").read_text() == schema_text(name), (
        "write them with: python -m openenv.validation.schema_files"
    )
