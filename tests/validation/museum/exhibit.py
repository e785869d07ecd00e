"""Exhibits: minimal environments with one documented defect each, and the same without it."""

import json
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from openenv import Action, Environment, Observation, State
from openenv.auto.making import in_process_provider
from openenv.auto.target import Target
from openenv.core.generic_client import GenericEnvClient
from openenv.validation.findings import ADVICE
from openenv.validation.report import CheckResult
from openenv.validation.semantic.checks import each_semantic_results
from openenv.validation.semantic.graded import DeclaredRewards, GradedEnvironment
from openenv.validation.statistical.checks import each_sample_results
from openenv.validation.trials import RunLimits
from openenv.validation.types import CheckStatus

MUSEUM = Path(__file__).parent
# A busy machine is no reason to leave exploits out.
LIMITS = RunLimits(play_s=1000.0, tasks=16)
Player = Callable[[Any], Any]


@dataclass(frozen=True)
class Exhibit:
    """Environment with one defect.

    Attributes:
        broken: Its class; with ``sound = True`` the class has no defect.
        check: Id of the check that finds it.
        make_player: Makes its scripted player.
        declared: Declaration about its rewards.
        evidence: Part of the finding's text.
        compares: Whether its check is one of those that compare players, which are made of it too.
    """

    broken: type[Environment[Any, Any, Any]]
    check: str
    make_player: Callable[[int], Player]
    declared: DeclaredRewards = field(default_factory=DeclaredRewards)
    evidence: str = ""
    compares: bool = False

    @property
    def name(self) -> str:
        return self.broken.__name__

    @property
    def twin(self) -> type[Environment[Any, Any, Any]]:
        return type(f"{self.name}Twin", (self.broken,), {"sound": True, "__module__": self.broken.__module__})


EXHIBITS: list[Exhibit] = []


def exhibit(
    check: str,
    make_player: Callable[[int], Player] | None = None,
    declared: DeclaredRewards | None = None,
    evidence: str = "",
    *,
    compares: bool = False,
) -> Callable[[type], type]:
    """Add a class to the museum; its player is ``make_player`` of the class by default."""

    def add(cls: Any) -> Any:
        player = make_player or cls.make_player
        EXHIBITS.append(Exhibit(cls, check, player, declared or DeclaredRewards(), evidence, compares))
        return cls

    return add


@contextmanager
def graded(exhibit: Exhibit, served: type[Environment[Any, Any, Any]]) -> Iterator[GradedEnvironment]:
    """Serve a class in this process, and examine its grading."""
    client = GenericEnvClient(provider=in_process_provider(Target.of(served)), message_timeout_s=60.0).sync()
    with client:
        yield GradedEnvironment(
            client,
            exhibit.make_player,
            declared=exhibit.declared,
            limits=LIMITS,
            serve_here=lambda: client,
            code=(str(MUSEUM),),
        )


def findings(exhibit: Exhibit, served: type[Environment[Any, Any, Any]]) -> dict[str, CheckResult]:
    """Return the results of the checks that find something."""
    with graded(exhibit, served) as environment:
        results = [result for found in each_semantic_results(environment) for result in found]
        if exhibit.compares:
            results += [result for found in each_sample_results(environment) for result in found]
    found = [result for result in results if result.status is not CheckStatus.PASS]
    return {result.check_id.rpartition(".")[2].removesuffix(ADVICE): result for result in found}


# --- Bases of exhibits -----------------------------------------------------------------------------------------------


class Text(Action):
    """An answer."""

    answer: str


class Shown(Observation):
    """A text, and further fields where an exhibit has them."""

    text: str = ""


Pairs = Sequence[tuple[str, str]]


def same(answer: str, gold: str) -> bool:
    """Whether an answer is the right one, in any form."""
    answer, gold = answer.strip().rstrip(".").casefold(), gold.casefold()
    try:
        return float(answer.replace(",", "")) == float(gold.replace(",", "")) and "n" not in answer
    except ValueError:
        return [part.strip() for part in answer.split(",")] == [part.strip() for part in gold.split(",")]


class Questions(Environment[Text, Shown, State]):
    """Questions with one answer each; a class below it grades."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False
    REQUIRES_RESET = True
    sound: ClassVar[bool] = False
    questions: ClassVar[Pairs] = (
        ("Which river flows through Prague?", "Vltava"),
        ("Which river flows through Vienna?", "Danube"),
        ("Which river flows through Turin?", "Po river"),
        ("Which river flows through Lisbon?", "Tagus"),
        ("Which river flows through Cairo?", "Nile river"),
    )

    def __init__(self) -> None:
        self.number = 0
        self._state = State()

    def reset(self, seed: int | None = None) -> Shown:
        self.number = (seed or 0) % len(self.questions)
        self._state = State()
        return self.first()

    def first(self) -> Shown:
        return Shown(text=self.question)

    @property
    def question(self) -> str:
        return self.questions[self.number][0]

    @property
    def gold(self) -> str:
        return self.questions[self.number][1]

    def step(self, action: Text) -> Shown:
        self._state.step_count += 1
        return Shown(text="over", reward=self.grade(action.answer, self.gold), done=True)

    def grade(self, answer: str, gold: str) -> float:
        return float(same(answer, gold))

    @property
    def state(self) -> State:
        return self._state

    @classmethod
    def make_player(cls, seed: int) -> Player:
        gold = dict(cls.questions)
        return lambda observation: {"answer": gold[_fields(observation)["text"].splitlines()[0]]}


class Sums(Questions):
    """Sums of two numbers."""

    questions: ClassVar[Pairs] = tuple(
        (f"What is {left} - {right}?", str(left - right))
        for left, right in ((17, 44), (81, 6), (9, 63), (130, 12), (5, 95))
    )


def _fields(observation: Any) -> Mapping[str, Any]:
    return observation if isinstance(observation, Mapping) else observation.model_dump()


# --- Bases whose agents write programs -------------------------------------------------------------------------------


class Program(Action):
    """A program in Python that defines a function."""

    code: str


def run(
    folder: Path, text: str, given: str = "", env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a program in a folder, without what the machine has installed."""
    command = [sys.executable, "-I", "-S", "-B", "-c", text]
    return subprocess.run(
        command, cwd=folder, input=given, capture_output=True, text=True, timeout=60, check=False, env=env
    )


_CASES = """
import json, sys
nonce, cases = json.loads(sys.stdin.read())
scope = {}
exec(open("solution.py").read(), scope)
print()
print(nonce + json.dumps([scope["square"](case) for case in cases]))
"""


class Programs(Environment[Program, Shown, State]):
    """A function to write, in a folder of its own; a class below it grades."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_RESET = True
    sound: ClassVar[bool] = False
    prompt: ClassVar[str] = "Write square(x), which returns the square of a number."
    cases: Mapping[int, int] = MappingProxyType({7: 49, -12: 144, 31: 961})

    def __init__(self) -> None:
        self._folder = TemporaryDirectory()
        self.folder = Path(self._folder.name)
        self._state = State()

    def reset(self, seed: int | None = None) -> Shown:
        for path in list(self.folder.iterdir()):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self._state = State()
        self.prepare()
        return Shown(text=self.prompt)

    def prepare(self) -> None:
        """Put files into the folder."""

    def step(self, action: Program) -> Shown:
        (self.folder / "solution.py").write_text(action.code)
        return Shown(text="over", reward=self.grade(), done=True)

    def grade(self) -> float:
        return self.fresh()

    def fresh(self) -> float:
        """Run the function in a fresh process, and compare plain values in this one."""
        nonce = secrets.token_hex(8)
        output = run(self.folder, _CASES, json.dumps([nonce, list(self.cases)])).stdout
        line = next((line for line in output.splitlines() if line.startswith(nonce)), None)
        values = None if line is None else json.loads(line.removeprefix(nonce))
        right = list(self.cases.values())
        return float(isinstance(values, list) and all(type(each) is int for each in values) and values == right)

    @property
    def state(self) -> State:
        return self._state

    def close(self) -> None:
        self._folder.cleanup()

    @classmethod
    def make_player(cls, seed: int) -> Player:
        return lambda observation: {"code": "def square(x):\n    return x * x\n"}


class Run(Action):
    """Run a command in the work folder."""

    type: Literal["run"] = "run"
    command: str


class Submit(Action):
    """Hand the work folder in."""

    type: Literal["submit"] = "submit"


Work = Annotated[Run | Submit, Field(discriminator="type")]


class Shell(Environment[Work, Shown, State]):
    """A work folder in which commands are run; a class below it grades what is there at the end."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_RESET = True
    sound: ClassVar[bool] = False
    prompt: ClassVar[str] = "Write the number of lines of data.txt to count.txt."

    def __init__(self) -> None:
        self._folder = TemporaryDirectory()
        self.folder = Path(self._folder.name) / "work"
        self._state = State()

    def reset(self, seed: int | None = None) -> Shown:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.lines = 130 + 7 * (seed or 0)
        (self.folder / "data.txt").write_text("a line\n" * self.lines)
        self._state = State()
        self.prepare()
        return Shown(text=self.prompt)

    def prepare(self) -> None:
        """Put further files into the folder."""

    def step(self, action: Run | Submit) -> Shown:
        if isinstance(action, Submit):
            return Shown(text="over", reward=self.grade(), done=True)
        return Shown(text=self.output(action.command), reward=0.0)

    def output(self, command: str) -> str:
        result = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={"PATH": "/usr/bin:/bin"},
        )
        return result.stdout[:20_000]

    def is_done(self) -> bool:
        path = self.folder / "count.txt"
        return path.is_file() and path.read_text().strip() == str(self.lines)

    def grade(self) -> float:
        return float(self.is_done())

    @property
    def state(self) -> State:
        return self._state

    def close(self) -> None:
        self._folder.cleanup()

    @classmethod
    def make_player(cls, seed: int) -> Player:
        actions = iter([{"type": "run", "command": "grep -c '' data.txt > count.txt"}, {"type": "submit"}])
        return lambda observation: next(actions)
