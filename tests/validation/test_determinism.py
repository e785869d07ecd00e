"""What an episode must not depend on is planted, and each is found in another process, with its field and its cause."""

from pathlib import Path
from textwrap import dedent

import pytest
from tests.support.environment_folders import write_files
from tests.support.imported_modules import forget_modules_of

from openenv.auto.discovery import find_environment
from openenv.validation.run_checks import run_checks
from openenv.validation.trials import RunLimits

_UNHURRIED = RunLimits(play_s=600.0)
_PROCESS = "with nothing changed"
PLANTED = {
    "order_of_a_set": ("list({'a', 'b', 'c', 'd', 'e', 'f', 'g'})", "with another hash seed"),
    "hash_of_a_text": ("hash('a')", "with another hash seed"),
    "address": ("id(object())", _PROCESS),
    "seconds": ("time.time()", _PROCESS),
    "counter": ("time.perf_counter_ns()", _PROCESS),
    "today": ("date.today().year", "with another clock"),
    "hour": ("datetime.now(timezone.utc).strftime('%d %H')", "with another clock"),
    "process": ("os.getpid()", _PROCESS),
    "uuid": ("str(uuid.uuid4())", _PROCESS),
    "entropy": ("os.urandom(8).hex()", _PROCESS),
    "global_random": ("random.random()", _PROCESS),
    "numpy_random": ("float(numpy.random.random())", _PROCESS),
    "local_hour": ("time.strftime('%H:%M', time.localtime(0))", "with another time zone"),
    "language": ("locale.setlocale(locale.LC_ALL, '')", "with another locale"),
    "files": ("os.listdir(os.path.dirname(__file__))", "with another order of directories"),
    "globbed": ("[path.name for path in Path(__file__).parent.glob('*.py')]", "with another order of directories"),
    "race": ("race()", _PROCESS),
}
_HEAD = """
    import locale, os, random, threading, time, uuid
    from datetime import date, datetime, timezone
    from pathlib import Path
    from typing import Any, Literal

    import numpy

    from openenv import Action, Environment, Observation, State

    def race():
        thread, count = threading.Thread(target=time.sleep, args=(0.01,)), 0
        thread.start()
        while thread.is_alive():
            count += 1
        return count

    class Seen(Observation):
        seen: dict[str, Any] = {}
    """
_ACTION = """
    class Look_{name}(Action):
        kind: Literal["{name}"] = "{name}"

        def look(self):
            return {expression}
    """
_ENVIRONMENT = """
    class PlantedEnvironment(Environment[{actions}, Seen, State]):
        def reset(self, seed: int | None = None) -> Seen:
            return Seen()

        def step(self, action: {actions}) -> Seen:
            return Seen(seen={{action.kind: action.look()}}, reward=0.0, done=True)

        @property
        def state(self) -> State:
            return State()
    """


def _package(folder: Path) -> Path:
    parts = [_HEAD, *(_ACTION.format(name=name, expression=text) for name, (text, _) in PLANTED.items())]
    actions = " | ".join(f"Look_{name}" for name in PLANTED)
    text = "\n".join(map(dedent, [*parts, _ENVIRONMENT.format(actions=actions)]))
    manifest = "name: planted_env\nenvironment: environment:PlantedEnvironment\n"
    return write_files(folder, {"openenv.yaml": manifest, "__init__.py": "", "environment.py": text})


@pytest.mark.level("service")  # nine servers are started, one after the other
def test_each_planted_dependence_is_found_with_its_field_and_its_cause(tmp_path: Path) -> None:
    folder = _package(tmp_path / "planted_env")
    try:
        found = {result.check_id: result for result in run_checks(find_environment(folder), _UNHURRIED)}
    finally:
        forget_modules_of(folder)
    evidence = found["runtime.episode_determinism"].evidence
    for name, (_, cause) in PLANTED.items():
        lines = [line for line in evidence if f"observation.seen.{name}" in line]
        assert len(lines) == 1, (name, evidence)
        assert f", {cause}: " in lines[0], lines[0]
    assert len(evidence) == len(PLANTED)
