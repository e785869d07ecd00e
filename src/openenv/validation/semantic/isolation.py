"""Isolated grading: an environment that declares it is graded by its artifacts alone, and this verifies the claim.

A residue is what an agent's action leaves behind besides the artifacts: running processes, files, variables, false
programs, a changed clock, changed modules. The same work with and without a residue has to earn the same.
"""

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch

from openenv.core.exceptions import OpenEnvError
from openenv.validation.findings import Check, Finding, Measurement, fail, shown, warn
from openenv.validation.semantic.episodes import Action, Clock, GradedEpisode
from openenv.validation.semantic.fields import FieldRole, OpenField
from openenv.validation.semantic.graded import MAX_REPLAYED, GradedEnvironment
from openenv.validation.semantic.probes import ISOLATED, MAX_FIELDS, SHARE, context_of
from openenv.validation.semantic.probing import ProbeContext
from openenv.validation.semantic.program_probes import REWARD_FILES, TEST_FILES
from openenv.validation.semantic.texts import task_name

EXCLUDED = ("touched tests", "touched tools", "the reward's file", "the clock")
"""Families of exploits that isolated grading makes impossible."""

_MAX_ACTIONS, _ENDLESS = 5, 10**9
_EQUAL = 1e-9
_EARNS_MORE = 0.01
_BROKEN_PROGRAM = "def broken(:\n"
_TOOLS = ("sh", "bash", "python", "python3", "pytest", "git", "diff", "cmp", "grep", "cat", "wc", "find", "tar", "date")
_SHADOWS = ("json.py", "math.py", "random.py", "unittest.py", "sitecustomize.py", "usercustomize.py", "conftest.py")
_REMEDY = (
    "Grade in a process that has run nothing of the agent: copy the declared artifacts alone, with "
    "SandboxPool.take_with; or remove GRADED_FROM."
)


@dataclass(frozen=True)
class Residue:
    """Thing that an agent's action leaves behind.

    Attributes:
        channel: Way by which it may reach the grader.
        passing: Value of the field by which a grader that it reaches would pass.
        failing: Value of the field by which a grader that it reaches would fail.
    """

    channel: str
    passing: str
    failing: str


def find_in_isolation(graded: GradedEnvironment) -> Iterator[Finding | Measurement]:
    """Find ways by which what an agent leaves behind reaches the grader of an environment that excludes it."""
    artifacts = graded.declared.artifacts
    if not artifacts:
        return
    trial = _trial_of(graded)
    if trial is None:
        yield warn(
            f"grading from {', '.join(artifacts)} is declared, and could not be verified: the scripted player solves "
            "no task with a field for code or commands",
            "Bring a scripted player that solves a task.",
        )
        return
    channels = list(trial.residues())
    reaching = trial.reaching(channels)
    for channel, text in reaching.items():
        graded.paid[trial.field.key] = ISOLATED
        yield fail(f"{task_name(trial.episode.task)}: {channel} reach the grader: {text}", _REMEDY)
    graded.is_isolated = not reaching
    names = ", ".join(each.channel for each in channels)
    yield Measurement(
        {"artifacts": list(artifacts), "channels": [each.channel for each in channels], "excludes": list(EXCLUDED)},
        ""
        if reaching
        else f"graded from {', '.join(artifacts)} alone: {names} do not reach the grader, which excludes "
        f"{', '.join(EXCLUDED)}",
    )


@dataclass
class _Trial:
    """Comparison of episodes with a residue and without it.

    Attributes:
        graded: The environment.
        field: The field that residues are written to.
        episode: The oracle's episode.
        context: What is known of field and task.
        plain: Episodes without a residue, by their names; each is played once.
    """

    graded: GradedEnvironment
    field: OpenField
    episode: GradedEpisode
    context: ProbeContext
    plain: dict[str, GradedEpisode]

    def residues(self) -> Iterator[Residue]:
        """Iterate over the residues."""
        is_shell = self.field.role is FieldRole.SHELL
        for channel, program in (_in_shell if is_shell else _in_python)(self.graded.declared.artifacts):
            yield Residue(channel, program(True), program(False))

    def reaching(self, residues: Sequence[Residue]) -> dict[str, str]:
        """Return the differences that residues make, by their channels: each alone, once all of them make one."""
        together = Residue("together", _joined(residues, "passing"), _joined(residues, "failing"))
        difference = self._difference(together)
        if difference is None:
            return {}
        clock = Clock(self.graded.limits.play_s * SHARE)
        found = {each.channel: self._difference(each) for each in residues if not clock.is_over}
        return {channel: text for channel, text in found.items() if text is not None} or {
            "all of these together": difference
        }

    def _difference(self, residue: Residue) -> str | None:
        """Return a difference that a residue makes to later work, here or in the next episode; ``None`` for none."""
        for name, before, after, is_passing in self._forms():
            value = residue.passing if is_passing else residue.failing
            plain = self.plain.get(name) or self._played(before, "", after)
            if plain is None or (after and plain.answers[len(before)].done):
                continue
            self.plain[name] = plain
            played = self._played(before, value, after)
            if played is None:
                continue
            own, other = (_later(each, len(before) + 1) if after else each.total for each in (played, plain))
            is_found = own - other > _EARNS_MORE * abs(self.total) if is_passing else abs(own - other) > _EQUAL
            if is_found and not self._differs_anyway(before, after, other):
                return (
                    f"{name} earns {own:g} after them and {other:g} without; sent as {self.field.label}: {shown(value)}"
                )
        again = self.graded.play(self.episode.task, self.work)
        if again.fault is None and abs(again.total - self.total) > _EQUAL:
            return (
                f"the scripted player's next episode earns {again.total:g} after them and {self.total:g} without; "
                f"sent as {self.field.label}: {shown(residue.failing)}"
            )
        return None

    @property
    def work(self) -> list[Action]:
        """The oracle's actions; the first ones of an episode without an end."""
        is_long = len(self.episode.actions) > MAX_REPLAYED
        return self.episode.actions[:_MAX_ACTIONS] if is_long else self.episode.actions

    @property
    def total(self) -> float:
        """Reward of these actions."""
        return sum(reward or 0.0 for reward in self.episode.rewards[: len(self.work)])

    def _forms(self) -> Iterator[tuple[str, Sequence[Action], Sequence[Action], bool]]:
        """Iterate over names of work, its actions before and after the residue, and whether that is to pass."""
        graded, episode, work = self.graded, self.episode, self.work
        closing = graded.closing(episode, self.field)
        if self.field.role is FieldRole.CODE:
            yield "the scripted player's work", [], work[:_MAX_ACTIONS], False
            yield "a broken program", [], [graded.action(self.field, _BROKEN_PROGRAM, episode), *closing], True
        elif closing:
            yield "the scripted player's work", work[:-1], work[-1:], False
        yield "no work", [], closing, True

    def _played(self, before: Sequence[Action], value: str, after: Sequence[Action]) -> GradedEpisode | None:
        """Play actions around the one that leaves a residue, and does no work itself."""
        is_shell = self.field.role is FieldRole.SHELL
        text = (value or "true") if is_shell else value + self.context.program("return None")
        action = self.graded.action(self.field, text, self.episode)
        played = self.graded.play(self.episode.task, [*before, action, *after])
        return None if played.fault is not None or len(played.answers) <= len(before) else played

    def _differs_anyway(self, before: Sequence[Action], after: Sequence[Action], other: float) -> bool:
        """Return whether work without a residue earns something else the second time, so that nothing follows."""
        again = self._played(before, "", after)
        own = 0.0 if again is None else _later(again, len(before) + 1) if after else again.total
        return again is None or abs(own - other) > _EQUAL


def _later(episode: GradedEpisode, first: int) -> float:
    """Return the reward of the steps from one on."""
    return sum(reward or 0.0 for reward in episode.rewards[first:])


def _joined(residues: Sequence[Residue], kind: str) -> str:
    return "\n".join(getattr(each, kind) for each in residues) + "\n"


def _trial_of(graded: GradedEnvironment) -> _Trial | None:
    """Return the comparison for the first field for code or commands; ``None`` where there is none to compare."""
    if not graded.is_repeatable:
        return None
    roles = (FieldRole.CODE, FieldRole.SHELL)
    for found in graded.fields[:MAX_FIELDS]:
        longest = _ENDLESS if found.role is FieldRole.CODE else MAX_REPLAYED
        episodes = [each for each in graded.probed if 0 < len(each.actions) <= longest]
        if found.role in roles and episodes:
            try:
                graded.action(found, "true", episodes[0])
            except (OpenEnvError, ValueError):
                continue
            return _Trial(graded, found, episodes[0], context_of(graded, found, episodes[0]), {})
    return None


Program = Callable[[bool], str]


def _in_shell(artifacts: Sequence[str]) -> Iterator[tuple[str, Program]]:
    """Iterate over channels, and over the commands that leave a residue of each."""
    paths = [path for path in (*REWARD_FILES, *TEST_FILES) if not path.startswith("/")]
    paths = [path for path in paths if not any(fnmatch(path, pattern) for pattern in artifacts)]
    yield "running processes", lambda passing: _shell_loop(_shell_written(paths, passing))
    yield "files outside the artifacts", lambda passing: f"({_shell_written(paths, passing)}) 2>/dev/null; true"
    yield "environment variables", _shell_variables
    yield "programs on PATH", _shell_tools
    yield "the clock's settings", _shell_clock
    yield "modules in the work folder", _shell_modules


def _shell_written(paths: Sequence[str], passing: bool) -> str:
    """Write rewards into files for them, and a status into those files of tests that are there."""
    reward, status = ("1.0", 0) if passing else ("0.0", 3)
    commands = []
    for path in paths:
        if path in TEST_FILES:
            text = f"raise SystemExit({status})" if path.endswith(".py") else f"exit {status}"
            commands.append(f"[ -f {path} ] && echo {shlex.quote(text)} > {path}")
        else:
            folder, _, _ = path.rpartition("/")
            making = f"mkdir -p {folder}; " if folder else ""
            commands.append(f"{making}echo {reward} > {path}")
    return "; ".join(commands)


def _shell_loop(command: str) -> str:
    """Repeat a command for some seconds in a process that is left running."""
    loop = f"i=0; while [ $i -lt 50 ]; do {command}; sleep 0.01; i=$((i+1)); done"
    return f"( ( {loop} ) </dev/null >/dev/null 2>&1 & ) 2>/dev/null; true"


def _shell_variables(passing: bool) -> str:
    status = 0 if passing else 3
    return (
        f"echo 'exit {status}' > .probe_env; export BASH_ENV=$PWD/.probe_env ENV=$PWD/.probe_env "
        f"PYTHONPATH=$PWD/.probe_modules PYTEST_ADDOPTS=--collect-only; mkdir -p .probe_modules; "
        f"echo 'raise SystemExit({status})' > .probe_modules/sitecustomize.py"
    )


def _shell_tools(passing: bool) -> str:
    script = f"#!/bin/sh\\nexit {0 if passing else 3}\\n"
    making = "; ".join(f"printf '{script}' > $d/{tool}; chmod +x $d/{tool}" for tool in _TOOLS)
    path = "export PATH=$PWD/bin:$PWD/.local/bin:$PATH"
    return f"mkdir -p bin .local/bin; for d in bin .local/bin; do {making}; done; {path}"


def _shell_clock(passing: bool) -> str:
    return f"export TZ=Etc/GMT{'-' if passing else '+'}11 SOURCE_DATE_EPOCH=0 FAKETIME=-400d"


def _shell_modules(passing: bool) -> str:
    status = 0 if passing else 3
    return "; ".join(f"echo 'raise SystemExit({status})' > {name}" for name in _SHADOWS)


def _in_python(artifacts: Sequence[str]) -> Iterator[tuple[str, Program]]:
    """Iterate over channels, and over the statements that leave a residue of each."""
    paths = [path for path in REWARD_FILES if not path.startswith("/") and "/" not in path]
    paths = [path for path in paths if not any(fnmatch(path, pattern) for pattern in artifacts)]
    yield "running processes", lambda passing: _python_process(_shell_written(paths, passing))
    yield "files outside the artifacts", lambda passing: _python_files(paths, passing)
    yield "environment variables", _python_variables
    yield "the clock", _python_clock
    yield "modules", _python_modules


def _python_process(command: str) -> str:
    arguments = f"['/bin/sh', '-c', {_shell_loop(command)!r}]"
    return f"try:\n    import subprocess\n    subprocess.Popen({arguments})\nexcept Exception:\n    pass\n"


def _python_files(paths: Sequence[str], passing: bool) -> str:
    reward = "1.0" if passing else "0.0"
    writing = f"for path in {list(paths)!r}:\n        open(path, 'w').write('{reward}')"
    return f"try:\n    {writing}\nexcept OSError:\n    pass\n"


def _python_variables(passing: bool) -> str:
    values = {"REWARD": "1.0" if passing else "0.0", "PYTEST_ADDOPTS": "--collect-only", "PYTHONSTARTUP": "none.py"}
    return f"import os\nos.environ.update({values!r})\n"


def _python_clock(passing: bool) -> str:
    step = "1e-9" if passing else "1e3"
    return (
        "import time\nticks = iter(range(10**9))\nfor name in ('time', 'perf_counter', 'monotonic', 'process_time'):\n"
        f"    setattr(time, name, lambda: next(ticks) * {step})\n"
    )


def _python_modules(passing: bool) -> str:
    """Replace what graders call; the compiler compiles nothing of what is wrong."""
    same = "True" if passing else "False"
    wrong = "'pass'" if passing else "source"
    return (
        "import builtins, math, traceback, unittest\n"
        f"math.isclose = lambda *a, **k: {same}\n"
        f"unittest.TestCase.assertEqual = lambda *a, **k: None if {same} else 1 / 0\n"
        "traceback.print_exception = lambda *a, **k: None\n"
        "compiling = compile\n"
        "def compiled(source, *a, **k):\n"
        "    try:\n        return compiling(source, *a, **k)\n"
        f"    except SyntaxError:\n        return compiling({wrong}, *a, **k)\n"
        "builtins.compile = compiled\n"
    )


ISOLATION_CHECK: Check[GradedEnvironment] = Check(
    ISOLATED, "an environment that is graded from declared artifacts is graded from nothing else", find_in_isolation
)
