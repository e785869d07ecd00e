"""Check of observations against the schema that the server publishes, in a separate interpreter.

A schema is the subject's: a pattern in it may take for ever, and a reference may lead to any address. So the process
has few seconds of CPU, no more memory than a check needs, and follows no reference out of the schema.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

_CPU_S = 5
# For a machine that is busy; a schema that only computes is ended by its CPU.
_WALL_S = 60.0
_MEMORY_BYTES = 2**30
_LONGEST_MESSAGE = 200
_MAX_PROBLEMS = 20
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

NON_LOCAL = "observation schema has a non-local reference"
OUT_OF_TIME = "observation schema evaluation exceeded its time budget"
UNAVAILABLE = "observation schema unavailable"


class MeasuredObservation(NamedTuple):
    """Observation of an exchange.

    Attributes:
        exchange: Number of the exchange.
        is_reset: Whether ``reset`` has returned it.
        observation: The observation.
        beside: Reward and done flag, which stand beside the observation on the wire, and often in it in the schema.
    """

    exchange: int
    is_reset: bool
    observation: dict[str, Any]
    beside: dict[str, Any]


def schema_problems(
    schema_json: str, reset_schema_json: str | None, observed: Sequence[MeasuredObservation]
) -> list[str]:
    """Check observations against their schemas, and return a line for each problem.

    Args:
        schema_json: Schema of observations.
        reset_schema_json: Schema of what ``reset`` returns; ``None`` for the same one.
        observed: The observations.

    Returns:
        The problems, at most 20.
    """
    request = {"schema": schema_json, "reset_schema": reset_schema_json, "observed": observed}
    command = [sys.executable, "-P", "-m", __name__]
    try:
        finished = subprocess.run(  # noqa: S603  # our own command
            command, input=json.dumps(request), capture_output=True, text=True, timeout=_WALL_S, check=False
        )
    except subprocess.TimeoutExpired:
        return [OUT_OF_TIME]
    if finished.returncode < 0:  # by the limit of CPU
        return [OUT_OF_TIME]
    if finished.returncode > 0:
        last = finished.stderr.strip().splitlines()[-1:] or ["without a message"]
        return [f"observation schema evaluation failed: {last[0]:.{_LONGEST_MESSAGE}}"]
    problems: list[str] = json.loads(finished.stdout)
    return problems


def main() -> None:
    """Check the observations that come on standard input, and write the problems to standard output."""
    import jsonschema  # noqa: F401  # imported before the limit counts

    request = json.loads(sys.stdin.read())
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = round(used.ru_utime + used.ru_stime) + _CPU_S
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    observed = [MeasuredObservation(*each) for each in request["observed"]]
    json.dump(_problems(request["schema"], request["reset_schema"], observed), sys.stdout)


def _problems(schema_json: str, reset_schema_json: str | None, observed: Sequence[MeasuredObservation]) -> list[str]:
    schema = json.loads(schema_json)
    reset_schema = schema if reset_schema_json is None else json.loads(reset_schema_json)
    if any(not reference.startswith("#") for each in (schema, reset_schema) for reference in _references(each)):
        return [NON_LOCAL]
    problems: list[str] = []
    for is_reset, each in ((True, reset_schema), (False, schema)):
        problems += _problems_with(each, [seen for seen in observed if seen.is_reset is is_reset])
    return list(dict.fromkeys(problems))[:_MAX_PROBLEMS]


def _problems_with(schema: dict[str, Any], observed: Sequence[MeasuredObservation]) -> Iterator[str]:
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as invalid:
        yield f"observation schema is no JSON Schema: {invalid.message:.{_LONGEST_MESSAGE}}"
        return
    validator = kind(schema, registry=Registry())  # with another registry it would fetch what a reference leads to
    try:
        for seen in observed:
            if validator.is_valid(seen.observation):
                continue
            for error in validator.iter_errors({**seen.observation, **seen.beside}):
                message = f"{error.message:.{_LONGEST_MESSAGE}}"
                yield f"exchange {seen.exchange}: {error.json_path} does not fit the observation schema: {message}"
    except Unresolvable:
        yield NON_LOCAL


def _references(schema: Any) -> Iterator[str]:
    """Iterate over the references of a schema."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in _REFERENCES and isinstance(value, str):
                yield value
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for each in schema:
            yield from _references(each)


if __name__ == "__main__":
    main()
