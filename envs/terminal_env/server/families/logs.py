"""Tasks about the logs of some services: count lines, find who has most, make a report."""

from collections import Counter
from dataclasses import dataclass
from random import Random

from ..task_format import Check, FileCheck, TerminalTask

_SERVICES = ("auth", "billing", "catalog", "checkout", "search", "stock")
_LEVELS = ("INFO", "INFO", "INFO", "WARN", "ERROR")
_MESSAGES = {
    "INFO": ("request served", "cache refreshed", "worker started", "no ERROR since the last check"),
    "WARN": ("slow answer from checkout", "retry after 2 s", "queue nearly full"),
    "ERROR": ("timeout", "connection refused", "WARN limit passed", "bad answer from auth"),
}
_FORM = (
    "The folder logs has the log files of some services. Each line is like `2026-03-01 08:00:12 ERROR checkout "
    "timeout`: "
    "date, time, level, service, message."
)


@dataclass(frozen=True)
class _Line:
    date: str
    time: str
    level: str
    service: str
    message: str

    def __str__(self) -> str:
        return f"{self.date} {self.time} {self.level} {self.service} {self.message}"


def make(chance: Random, difficulty: str) -> TerminalTask:
    """Make a task."""
    days = [
        [_line(chance, f"2026-03-{day:02}") for _ in range(chance.randint(40, 80))]
        for day in range(1, chance.randint(3, 5))
    ]
    lines = [line for day in days for line in day]
    make_one = {"easy": _count, "medium": _most, "hard": _report}[difficulty]
    prompt, checks = make_one(chance, lines)
    files = {f"logs/day-{number}.log": "".join(f"{line}\n" for line in day) for number, day in enumerate(days, 1)}
    return TerminalTask(
        prompt=f"{_FORM} {prompt}", files=files, checks=tuple(checks), family="logs", difficulty=difficulty
    )


def _line(chance: Random, date: str) -> _Line:
    level = chance.choice(_LEVELS)
    time = f"{chance.randint(6, 20):02}:{chance.randrange(60):02}:{chance.randrange(60):02}"
    return _Line(date, time, level, chance.choice(_SERVICES), chance.choice(_MESSAGES[level]))


def _count(chance: Random, lines: list[_Line]) -> tuple[str, list[Check]]:
    level, service = chance.choice(("WARN", "ERROR")), chance.choice(_SERVICES)
    count = sum((line.level, line.service) == (level, service) for line in lines)
    prompt = (
        f"How many lines of the level {level} does the service {service} have in all files together? Write the "
        "number to "
        "answer.txt."
    )
    return prompt, [FileCheck(name="the number in answer.txt", path="answer.txt", text=str(count))]


def _most(chance: Random, lines: list[_Line]) -> tuple[str, list[Check]]:
    level = chance.choice(("WARN", "ERROR"))
    counts = Counter(line.service for line in lines if line.level == level)
    service = min(counts, key=lambda name: (-counts[name], name))
    prompt = (
        f"Which service has the most lines of the level {level} in all files together (of several, the first in the "
        "alphabet), and how many? Write its name, a blank and the number to answer.txt."
    )
    return prompt, [FileCheck(name="answer.txt", path="answer.txt", text=f"{service} {counts[service]}")]


def _report(chance: Random, lines: list[_Line]) -> tuple[str, list[Check]]:
    counts = Counter((line.service, line.level) for line in lines)
    hours = Counter(line.time[:2] for line in lines)
    busiest = min(hours, key=lambda hour: (-hours[hour], hour))
    services = sorted({line.service for line in lines})
    rows = [f"{service},{counts[service, 'ERROR']},{counts[service, 'WARN']}" for service in services]
    prompt = (
        "Write report.csv: the line `service,errors,warnings`, then for each service, in alphabetical order, its "
        "name and "
        "how many lines of the levels ERROR and WARN it has. And write to busiest.txt the hour, with two digits, in "
        "which "
        "most lines of all days and levels together were written; of several, the earliest."
    )
    report = "\n".join(["service,errors,warnings", *rows])
    return prompt, [
        FileCheck(name="report.csv", path="report.csv", text=report),
        FileCheck(name="busiest.txt", path="busiest.txt", text=busiest),
    ]
