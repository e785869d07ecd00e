"""Bundle of a validation: the report, and the evidence that it is based on, without secrets.

Each file is written whole; ``SHA256SUMS`` comes last, so a bundle that has it is complete.
"""

import hashlib
import json
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openenv.core.documents import draft_of
from openenv.core.exceptions import RequestError
from openenv.core.wire.bounded_json import read_json
from openenv.core.wire.redaction import secret_values, without_secrets
from openenv.validation.manifest import NormalizedManifest
from openenv.validation.providers import ValidationProvider
from openenv.validation.report import ValidationReport, ValidationReportV2, write_report
from openenv.validation.runtime.contracts import RuntimeEvidence, RuntimePlan, WireExchange
from openenv.validation.types import CheckStatus

SUMS = "SHA256SUMS"
TRACE = "collector-trace.json"
_FILES = ("coverage.json", "report.json", "cleanup.json", "runtime-plan.json", "run-manifest.json", TRACE)
_EVIDENCE = "collector-evidence.json"
_RUNTIME = "runtime."
_REDACTED = "[REDACTED]"
_MAX_DEPTH = 64
_SECRET_KEY = re.compile(r"passw(?:or)?d|secret|token|authorization|api[ _-]?key", re.IGNORECASE)
# Counts and ids of tokens of a language model.
_MODEL_TOKENS = re.compile(
    r"(?:max|min|prompt|completion|input|output|total|num|n)_\w*tokens?|\w*token_ids?", re.IGNORECASE
)
_SECRET_VALUE = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{8,}|ghp_[A-Za-z0-9]{8,}|github_pat_\w{8,})|\bbearer\s+[^\s\"',]+",
    re.IGNORECASE,
)


def write_runtime_bundle(
    directory: Path,
    report: ValidationReport | ValidationReportV2,
    *,
    plan: RuntimePlan | None = None,
    evidence: RuntimeEvidence | None = None,
    provider: ValidationProvider | None = None,
    cleanup: Mapping[str, Any] | None = None,
) -> None:
    """Write the bundle of a validation into a folder. Files of an earlier bundle are replaced.

    Args:
        directory: The folder, which is made.
        report: The report.
        plan: The planned episode, if there is one.
        evidence: What was collected of it.
        provider: The provider that has started the subject.
        cleanup: What is known about the end of the subject.

    Raises:
        OSError: A file can't be written.

    Example:
        >>> write_runtime_bundle(Path("report.artifacts"), report)  # doctest: +SKIP
    """
    directory.mkdir(parents=True, exist_ok=True)
    for name in (SUMS, *_FILES, _EVIDENCE):
        (directory / name).unlink(missing_ok=True)
    contents = {
        "coverage.json": _text(_coverage(report)),
        "report.json": f"{write_report(report)}\n",
        "cleanup.json": _text(_redacted(dict(cleanup or {}))),
        "run-manifest.json": _text(_run_manifest(report, plan, provider)),
    }
    if plan is not None:
        contents["runtime-plan.json"] = _text(_redacted(plan.model_dump(mode="json")))
    contents |= _collected(evidence or RuntimeEvidence())
    for name, text in contents.items():
        _write(directory / name, text)
    sums = [f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in sorted(contents.items())]
    _write(directory / SUMS, "".join(sums))


def _coverage(report: ValidationReport | ValidationReportV2) -> dict[str, list[str]]:
    """Return which runtime checks were requested, which have a verdict, and which have none."""
    results = [result for result in report.results if result.check_id.startswith(_RUNTIME)]
    executed = [each.check_id for each in results if each.status in (CheckStatus.PASS, CheckStatus.FAIL)]
    return {
        "requested_runtime_checks": [each.check_id for each in results],
        "executed": executed,
        "incomplete": [each.check_id for each in results if each.check_id not in executed],
    }


def _run_manifest(
    report: ValidationReport | ValidationReportV2, plan: RuntimePlan | None, provider: ValidationProvider | None
) -> dict[str, Any]:
    manifest: NormalizedManifest | None = report.manifest
    planned = None if plan is None else plan.model_dump(mode="json")
    return {
        "bundle_schema_version": "1",
        "source_digest": report.source_digest,
        "policy_version": report.policy_version,
        "manifest_schema_version": None if manifest is None else manifest.manifest_schema_version,
        "plan_digest": None if plan is None else hashlib.sha256(plan.model_dump_json().encode()).hexdigest(),
        "plan_redacted": planned != _redacted(planned),
        "platform": f"{platform.system()}-{platform.release()}-{platform.machine()}",
        "python": platform.python_version(),
        "provider": None if provider is None else _described(provider),
    }


def _described(provider: ValidationProvider) -> dict[str, Any]:
    return {
        "name": provider.name,
        "capabilities": sorted(each.value for each in provider.capabilities),
        "supported_network_modes": sorted(provider.supported_network_modes),
    }


def _collected(evidence: RuntimeEvidence) -> dict[str, str]:
    """Return the trace of the planned episode, and what is known about it."""
    trace, omitted = _trace(evidence)
    schema = _schema("", evidence.observation_schema_json)
    reset_schema = _schema("reset_", evidence.reset_observation_schema_json)
    shown = _redacted([trace, schema, reset_schema])
    described = {
        "evidence_schema_version": "1",
        "trace_file": TRACE,
        **shown[1],
        **shown[2],
        "omitted_trace_fields": omitted,
        "failure_phase": evidence.failure_phase,
        "failure_reason": evidence.failure_reason,
        "complete": evidence.failure_phase is None and bool(evidence.exchanges),
        "redacted": shown != [trace, schema, reset_schema],
    }
    return {TRACE: _text(shown[0]), _EVIDENCE: _text(described)}


def _schema(prefix: str, text: str | None) -> dict[str, Any]:
    schema, is_parsed = (None, True) if text is None else _parsed(text)
    return {
        f"{prefix}observation_schema": schema,
        f"{prefix}schema_available": text is not None,
        f"{prefix}schema_parse_failed": not is_parsed,
    }


def _trace(evidence: RuntimeEvidence) -> tuple[dict[str, Any], list[str]]:
    """Return requests and answers as JSON values, and the paths of those that are no JSON."""
    entries: list[dict[str, Any]] = []
    omitted: list[str] = []
    for number, exchange in enumerate(evidence.exchanges):
        entry: dict[str, Any] = {"exchange": number, "operation": exchange.operation}
        for name, text in _frames(exchange):
            value, is_parsed = _parsed(text)
            entry[name] = value
            if not is_parsed:
                omitted.append(f"exchanges.{number}.{name}")
        entries.append(entry)
    return {"trace_schema_version": "1", "exchanges": entries}, omitted


def _frames(exchange: WireExchange) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("request", exchange.request_json), ("response", exchange.response_json)


def _parsed(text: str) -> tuple[Any, bool]:
    try:
        return read_json(text), True
    except RequestError:
        return None, False


def _redacted(value: Any, depth: int = 0) -> Any:
    """Return a JSON value without secrets: values under their names, and texts that look like keys of services."""
    if depth > _MAX_DEPTH:
        return _REDACTED
    if isinstance(value, Mapping):
        return {
            _redacted_text(key): _REDACTED if each is not None and _is_secret(key) else _redacted(each, depth + 1)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_redacted(each, depth + 1) for each in value]
    return _redacted_text(value) if isinstance(value, str) else value


def _is_secret(key: str) -> bool:
    return _SECRET_KEY.search(key) is not None and _MODEL_TOKENS.fullmatch(key) is None


def _redacted_text(text: str) -> str:
    without: str = without_secrets(text, secret_values())
    return _SECRET_VALUE.sub(_REDACTED, without)


def _text(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


def _write(file: Path, text: str) -> None:
    with draft_of(file) as draft:
        draft.write_text(text, encoding="utf-8")
