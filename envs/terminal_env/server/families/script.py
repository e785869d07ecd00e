"""Tasks about a script that fails, to be corrected. It is checked with other data than those of the task."""

from collections import defaultdict
from random import Random

from ..task_format import Check, ProgramCheck, TerminalTask

_STATES = ("paid", "open", "sent", "void")
_CUSTOMERS = ("Ada", "Bela", "Chen", "Dora", "Emil", "Fay")

_SUM = '''"""Print the sum of the {column} of all orders in one state."""

import csv
import sys


def main():
    total = 0
    with open(sys.argv[1], newline="") as file:
        {rows}
            if row["state"] == "{state}":
                total += {number}
    {printing}


main()
'''
_GROUPS = '''"""Print the sum of the {column} of each customer, the greatest first."""

import csv
import sys


def main():
    totals = {{}}
    with open(sys.argv[1], newline="") as file:
        for row in csv.DictReader(file):
            totals[row["customer"]] = int(row["{column}"])
    for name, total in sorted(totals.items(), key=lambda pair: pair[1]):
        print(name, total)


main()
'''


def make(chance: Random, difficulty: str) -> TerminalTask:
    """Make a task."""
    column, state = chance.choice(("amount", "weight", "points")), chance.choice(_STATES[:3])
    shown = _orders(chance, column, state, gaps=False)
    hidden = [_orders(chance, column, state, gaps=difficulty == "hard") for _ in range(2)]
    if difficulty == "hard":
        prompt, source, expected = _groups(column), _GROUPS.format(column=column), _group_output
    else:
        prompt, source, expected = _sum(column, state), _broken_sum(chance, difficulty, column, state), _sum_output
    checks: list[Check] = [
        ProgramCheck(
            name=f"report.py with other orders ({number})",
            copies=("report.py",),
            files={"other.csv": _text(rows, column)},
            command=("python3", "report.py", "other.csv"),
            output=expected(rows, state),
        )
        for number, rows in enumerate(hidden, 1)
    ]
    files = {"report.py": source, "orders.csv": _text(shown, column)}
    told = f"{prompt} The file orders.csv is an example. The script is wrong: mend it."
    return TerminalTask(prompt=told, files=files, checks=tuple(checks), family="script", difficulty=difficulty)


_Order = tuple[str, str, int | None]


def _orders(chance: Random, column: str, state: str, *, gaps: bool) -> list[_Order]:
    # The first and the last one count, so that leaving one of them out shows.
    states = [state, *(chance.choice(_STATES) for _ in range(chance.randint(5, 20))), state]
    orders: list[_Order] = [(chance.choice(_CUSTOMERS), state, chance.randint(1, 500)) for state in states]
    return [*orders, (orders[0][0], "open", None), (orders[0][0], "open", 3)] if gaps else orders


def _text(orders: list[_Order], column: str) -> str:
    rows = [f"{name},{state},{'' if number is None else number}\n" for name, state, number in orders]
    return f"customer,state,{column}\n" + "".join(rows)


def _sum(column: str, state: str) -> str:
    return (
        f"`python3 report.py FILE.csv` is to print the sum of the column {column} of all rows whose state is "
        f"{state}, and "
        "nothing else."
    )


def _broken_sum(chance: Random, difficulty: str, column: str, state: str) -> str:
    right = {
        "rows": "for row in csv.DictReader(file):",
        "number": f'int(row["{column}"])',
        "printing": "print(total)",
    }
    crashing = {"rows": "for row in csv.DictReader(file)", "number": f'row["{column}"]', "printing": "print(totl)"}
    wrong = {
        "rows": "for row in list(csv.DictReader(file))[1:]:",
        "number": f'int(row["{column}"]) + 1',
        "printing": "print(total // 2)",
    }
    bugs = crashing if difficulty == "easy" else wrong
    place = chance.choice(sorted(right))
    return _SUM.format(column=column, state=state, **(right | {place: bugs[place]}))


def _sum_output(orders: list[_Order], state: str) -> str:
    return str(sum(number or 0 for _, order_state, number in orders if order_state == state))


def _groups(column: str) -> str:
    return (
        "`python3 report.py FILE.csv` is to print a line for each customer: the name, a blank, and the sum of the "
        "column "
        f"{column} of the customer's rows, where an empty field counts as 0. The greatest sum comes first; where "
        "sums are "
        "equal, names come in alphabetical order."
    )


def _group_output(orders: list[_Order], state: str) -> str:
    totals: defaultdict[str, int] = defaultdict(int)
    for name, _, number in orders:
        totals[name] += number or 0
    return "\n".join(f"{name} {totals[name]}" for name in sorted(totals, key=lambda name: (-totals[name], name)))
