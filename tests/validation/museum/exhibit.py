"""Exhibits: minimal environments with one documented defect each, and the same without it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from openenv import Action, Environment, Observation, State
from openenv.auto.making import in_process_provider
from openenv.auto.target import Target
from openenv.core.generic_client import GenericEnvClient
from openenv.validation.report import CheckResult
from openenv.validation.semantic.checks import each_semantic_result
from openenv.validation.semantic.graded import Declaration, GradedEnvironment

MUSEUM = Path(__file__).parent
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
    """

    broken: type[Environment[Any, Any, Any]]
    check: str
    make_player: Callable[[int], Player]
    declared: Declaration = field(default_factory=Declaration)
    evidence: str = ""

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
    declared: Declaration | None = None,
    evidence: str = "",
) -> Callable[[type], type]:
    """Add a class to the museum; its player is ``make_player`` of the class by default."""

    def add(cls: Any) -> Any:
        player = make_player or cls.make_player
        EXHIBITS.append(Exhibit(cls, check, player, declared or Declaration(), evidence))
        return cls

    return add


@contextmanager
def graded(exhibit: Exhibit, served: type[Environment[Any, Any, Any]]) -> Iterator[GradedEnvironment]:
    """Serve a class in this process, and examine its grading."""
    client = GenericEnvClient(provider=in_process_provider(Target.of(served)), message_timeout_s=60.0).sync()
    with client:
        yield GradedEnvironment(
            client, exhibit.make_player, declared=exhibit.declared, serve_here=lambda: client, code=(str(MUSEUM),)
        )


def findings(exhibit: Exhibit, served: type[Environment[Any, Any, Any]]) -> dict[str, CheckResult]:
    """Return the results of the checks that find something."""
    with graded(exhibit, served) as environment:
        return {result.check_id: result for result in each_semantic_result(environment) if result.status != "pass"}


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
