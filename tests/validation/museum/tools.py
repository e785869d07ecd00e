"""Environments whose agents call tools by name."""

from typing import Any, ClassVar

from tests.validation.museum.exhibit import Player, Shown, exhibit, same

from openenv import Environment, ToolResult, tool


class Archive(Environment[Any, Any, Any]):
    """An archive whose files are read and written with tools, and a question about one of them."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False
    REQUIRES_RESET = True
    sound: ClassVar[bool] = False
    gold: ClassVar[str] = "Bartholomew Quill"

    def reset(self, seed: int | None = None) -> Shown:
        self.files = {"report.txt": f"On the third of May the mill burned. It was lit by {self.gold}."}
        self.prepare()
        return Shown(text="Who lit the fire at the mill? Read report.txt, and submit the name.")

    def prepare(self) -> None:
        """Put further files into the archive."""

    @tool
    def read(self, path: str) -> str:
        """Read a file.

        Args:
            path: Name of the file.
        """
        return self.content(path)

    def content(self, path: str) -> str:
        return self.files.get(path, "There is no such file.")

    @tool
    def write(self, path: str, text: str) -> str:
        """Write a file.

        Args:
            path: Name of the file.
            text: Its content.
        """
        self.files[path] = text
        return "written"

    @tool(terminal=True)
    def submit(self, answer: str) -> ToolResult:
        """Submit the name.

        Args:
            answer: The name.
        """
        return ToolResult("over", reward=self.grade(answer))

    def grade(self, answer: str) -> float:
        return float(same(answer, self.gold))

    @classmethod
    def make_player(cls, seed: int) -> Player:
        calls = iter([("read", {"path": "report.txt"}), ("submit", {"answer": cls.gold})])

        def choose(observation: Any) -> dict[str, Any]:
            name, arguments = next(calls)
            return {"type": "call_tool", "tool_name": name, "arguments": arguments}

        return choose


@exhibit("probe_hidden", evidence="a file that should be hidden")
class SolutionCanBeRead(Archive):
    """WebArena by BenchJack (V2) and Hack-Verifiable TextArena (2605.20744): a file with the solution can be read."""

    def prepare(self) -> None:
        if not self.sound:
            self.files["solution.txt"] = self.gold


@exhibit("probe_hidden", evidence="a file that should be hidden")
class EnvironmentCanBeRead(Archive):
    """Files of the server's process: its variables hold the answer (NYU CTF and Cybench reviews, BenchJack V8)."""

    def content(self, path: str) -> str:
        if path == "/proc/self/environ" and not self.sound:
            return f"PATH=/bin\0FLAG={self.gold}"
        return super().content(path)


@exhibit("probe_tamper", evidence="reward.txt")
class RewardIsAFile(Archive):
    """Harbor-like verifiers (BenchJack, V1): the reward is read from a file, which the tool for files can write."""

    def grade(self, answer: str) -> float:
        written = None if self.sound else self.files.get("reward.txt")
        return super().grade(answer) if written is None else float(written)


@exhibit("no_solution_leakage", evidence="tools")
class AnswerInATool(Archive):
    """Tool descriptions made of the task's row (BenchJack, V2): an offered tool names the answer."""

    def task_tools(self) -> list[Any]:
        def hint() -> str:
            return "Look at the report."

        hint.__doc__ = "Say where to look." if self.sound else f"Say that it was {self.gold}."
        return [hint]


@exhibit("probe_nonsense", evidence="one word without meaning")
class AnyCallOfSubmitWins(Archive):
    """FieldWorkArena (BenchJack, V6) and tau-bench's empty tasks: the call counts, not what it hands in."""

    def grade(self, answer: str) -> float:
        return (
            super().grade(answer)
            if self.sound
            else float(len(answer.strip()) > 2 and answer.strip().casefold() != "none")
        )
