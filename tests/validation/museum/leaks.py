"""Answers that are shown before they are given."""

from typing import Any

from tests.validation.museum.exhibit import Questions, Shown, Text, exhibit

from openenv import State


class LeakyState(State):
    """A state with an answer."""

    expected: str = ""


class Hinted(Shown):
    """An observation with further fields."""

    target: str = ""
    hint: str = ""


@exhibit("no_solution_leakage", evidence="the first observation")
class AnswerInTheObservation(Questions):
    """Data sets passed on as rows (BenchJack, V2): the column of the answers is a field of the observation."""

    def first(self) -> Shown:
        return Hinted(text=self.question, target="" if self.sound else self.gold)


@exhibit("no_solution_leakage", evidence="metadata")
class AnswerInTheMetadata(Questions):
    """Metadata of the first observation that hold the whole row, for a log (verifiers' ``info`` shown to agents)."""

    def first(self) -> Shown:
        return Shown(text=self.question, metadata={} if self.sound else {"answer": self.gold})


@exhibit("no_solution_leakage", evidence="state")
class AnswerInTheStateOfQuestions(Questions):
    """A public state with the expected answer (RFC 008's example; several public environments in 2025)."""

    @property
    def state(self) -> State:
        return LeakyState(expected="" if self.sound else self.gold)


@exhibit("no_solution_leakage", evidence="first observation")
class AnswerInTheText(Questions):
    """Prompts made of a row with its answer, as in MLE-bench-like preparation: the text says what the answer is."""

    def first(self) -> Shown:
        note = "" if self.sound else f"\nThe correct answer is {self.gold}"
        return Shown(text=f"{self.question}{note}")


@exhibit("no_solution_leakage", evidence="after a wrong answer")
class AnswerInTheFeedback(Questions):
    """Feedback after a wrong answer that says the right one, while the episode goes on (MLE-bench, issues 129, 138)."""

    def step(self, action: Text) -> Shown:
        reward = self.grade(action.answer, self.gold)
        text = "over" if reward else "wrong" if self.sound else f"wrong, expected {self.gold}"
        return Shown(text=text, reward=reward, done=reward > 0)


@exhibit("no_solution_leakage", evidence="Task API")
class AnswerInTheTasks(Questions):
    """GAIA and others (BenchJack, V2): the rows of the tasks, which agents can list, have the answers."""

    def list_splits(self) -> list[str]:
        return ["train"]

    def num_tasks(self, split: str) -> int:
        return len(self.questions)

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        return [self.get_task(split, index) for index in range(len(self.questions))]

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        question, gold = self.questions[index]
        return {"index": index, "question": question, **({} if self.sound else {"answer": gold})}

    def reset(self, seed: int | None = None, index: int | None = None) -> Shown:
        return super().reset(seed if index is None else index)
