"""Problems of the code feedback environment: prompts, solutions, and arguments of the tests.

A problem is a family of tasks: its parameters, ``$k`` in the prompt and in the solution, are chosen anew for each task.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from string import Template
from typing import Any

Values = dict[str, Any]
"""The parameters of a task, by their names."""


@dataclass(frozen=True)
class Problem:
    """A family of tasks.

    Attributes:
        name: Name of the function.
        difficulty: ``easy``, ``medium`` or ``hard``.
        signature: Its parameters and result, as Python has it.
        prompt: What it has to do, with ``$name`` for each parameter.
        solution: Code that does it, likewise.
        parameters: Chooses the parameters.
        arguments: Chooses what the function is called with in a test.
    """

    name: str
    difficulty: str
    signature: str
    prompt: str
    solution: str
    parameters: Callable[[Random], Values]
    arguments: Callable[[Random, Values], list[Any]]

    def asked(self, values: Mapping[str, Any]) -> str:
        """Write the task for these parameters."""
        told = Template(self.prompt).substitute({name: json.dumps(value) for name, value in values.items()})
        return f"Write a Python function {self.name}{self.signature}. {told}"

    def solved(self, values: Mapping[str, Any]) -> str:
        """Write a solution for these parameters."""
        return Template(self.solution).substitute({name: repr(value) for name, value in values.items()})

    def read(self, prompt: str) -> Values | None:
        """Read the parameters off a task; ``None`` if it is of another problem."""
        match = self._pattern.match(prompt)
        return None if match is None else {name: json.loads(text) for name, text in match.groupdict().items()}

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        escaped = re.escape(f"Write a Python function {self.name}{self.signature}. ") + re.sub(
            r"\\\$(\w+)", _group(), re.escape(self.prompt)
        )
        return re.compile(escaped)


def _group() -> Callable[[re.Match[str]], str]:
    """Make a named group of a parameter where it stands first, and a reference to that where it stands again."""
    seen: set[str] = set()

    def group(match: re.Match[str]) -> str:
        name = match[1]
        if name in seen:
            return f"(?P={name})"
        seen.add(name)
        return f"(?P<{name}>.+?)"

    return group


# --- What problems are made of ----------------------------------------------------------------------------------------


def _whole(low: int, high: int, name: str = "k") -> Callable[[Random], Values]:
    return lambda chance: {name: chance.randint(low, high)}


def _none(chance: Random) -> Values:
    return {}


def _numbers(chance: Random, most: int = 9, low: int = -20, high: int = 40) -> list[int]:
    return [chance.randint(low, high) for _ in range(chance.randint(0, most))]


_WORDS = (
    "ash",
    "birch",
    "cedar",
    "elm",
    "fir",
    "hazel",
    "ivy",
    "larch",
    "maple",
    "oak",
    "pine",
    "rowan",
    "willow",
    "yew",
)


def _words(chance: Random, most: int = 8) -> list[str]:
    return [chance.choice(_WORDS) for _ in range(chance.randint(0, most))]


def _text(chance: Random) -> str:
    return " ".join(_words(chance)).capitalize() + chance.choice(("", "!", "?", ", 42"))


def _one(make: Callable[[Random], Any]) -> Callable[[Random, Values], list[Any]]:
    """Arguments of a function of one parameter, chosen without regard to the task's."""
    return lambda chance, values: [make(chance)]


def _bounds(chance: Random) -> Values:
    low = chance.randint(-10, 5)
    return {"low": low, "high": low + chance.randint(3, 20)}


def _runs(chance: Random) -> str:
    return "".join(chance.choice("abc") * chance.randint(1, 5) for _ in range(chance.randint(0, 6)))


def _intervals(chance: Random) -> list[list[int]]:
    starts = [chance.randint(0, 60) for _ in range(chance.randint(0, 7))]
    return [[start, start + chance.randint(0, 8)] for start in starts]


def _time_of_day(chance: Random) -> str:
    return f"{chance.randrange(24):02}:{chance.randrange(60):02}"


def _coins(chance: Random) -> Values:
    return {"coins": sorted(chance.sample(range(2, 12), 3))}


def _brackets(chance: Random, values: Values) -> list[Any]:
    depth = chance.randint(0, values["k"] + 1)
    text = ""
    for _ in range(depth):
        left, right = chance.choice(("()", "[]"))
        text = f"{left}{text}{right}" + chance.choice(("", "", "()", "[]"))
    if text and chance.random() < 0.4:
        place = chance.randrange(len(text))
        text = text[:place] + chance.choice("()[]") + text[place + 1 :]
    return [text]


def _sum(chance: Random) -> str:
    parts = [str(chance.randint(0, 20))]
    for _ in range(chance.randint(0, 5)):
        parts += [chance.choice("+-*"), str(chance.randint(0, 20))]
    return " ".join(parts)


def _grid(chance: Random) -> list[str]:
    width, height = chance.randint(1, 6), chance.randint(1, 6)
    rows = [["#" if chance.random() < 0.25 else "." for _ in range(width)] for _ in range(height)]
    rows[0][0] = rows[-1][-1] = "."
    return ["".join(row) for row in rows]


def _table(chance: Random) -> list[list[int]]:
    width, height = chance.randint(1, 5), chance.randint(0, 5)
    return [[chance.randint(0, 99) for _ in range(width)] for _ in range(height)]


def _scores(chance: Random) -> list[str]:
    return [f"{chance.choice(_WORDS[:5])}:{chance.randint(1, 9)}" for _ in range(chance.randint(0, 10))]


def _letters(chance: Random) -> Values:
    return {"letters": "".join(sorted(chance.sample("aceilmnorstw", 4)))}


def _separator(chance: Random) -> Values:
    return {"sep": chance.choice(("-", "/", ", ", " + ", ";"))}


# --- The problems -----------------------------------------------------------------------------------------------------

PROBLEMS: tuple[Problem, ...] = (
    Problem(
        "sum_of_multiples",
        "easy",
        "(numbers: list[int]) -> int",
        "It returns the sum of the numbers that are divisible by $k.",
        "def sum_of_multiples(numbers):\n    return sum(number for number in numbers if number % $k == 0)\n",
        _whole(2, 7),
        _one(_numbers),
    ),
    Problem(
        "count_longer",
        "easy",
        "(words: list[str]) -> int",
        "It returns how many of the words have more than $k letters.",
        "def count_longer(words):\n    return sum(len(word) > $k for word in words)\n",
        _whole(2, 5),
        _one(_words),
    ),
    Problem(
        "keep_between",
        "easy",
        "(numbers: list[int]) -> list[int]",
        "It returns the numbers from $low to $high, both included, in their order.",
        "def keep_between(numbers):\n    return [number for number in numbers if $low <= number <= $high]\n",
        _bounds,
        _one(_numbers),
    ),
    Problem(
        "every_nth",
        "easy",
        "(items: list[int]) -> list[int]",
        "It returns every item whose place is divisible by $k, where the first item has place 0.",
        "def every_nth(items):\n    return items[::$k]\n",
        _whole(2, 4),
        _one(_numbers),
    ),
    Problem(
        "shift_letters",
        "easy",
        "(text: str) -> str",
        "It replaces each letter from a to z by the one $k places later in the alphabet, where a comes after z; "
        "capital "
        "letters and all else stay as they are.",
        'def shift_letters(text):\n    shifted = (chr((ord(c) - 97 + $k) % 26 + 97) if "a" <= c <= "z" else c for c '
        "in text)\n"
        '    return "".join(shifted)\n',
        _whole(1, 25),
        _one(_text),
    ),
    Problem(
        "count_letters",
        "easy",
        "(text: str) -> int",
        "It returns how many characters of the text are one of the letters in $letters, small or capital.",
        "def count_letters(text):\n    return sum(character in $letters for character in text.lower())\n",
        _letters,
        _one(_text),
    ),
    Problem(
        "clamp_all",
        "easy",
        "(numbers: list[int]) -> list[int]",
        "It returns the numbers in their order, with $low for each that is below it and $high for each that is above "
        "it.",
        "def clamp_all(numbers):\n    return [min(max(number, $low), $high) for number in numbers]\n",
        _bounds,
        _one(_numbers),
    ),
    Problem(
        "join_reversed",
        "easy",
        "(words: list[str]) -> str",
        "It returns the words as one text, the last word first, with $sep between them.",
        "def join_reversed(words):\n    return $sep.join(reversed(words))\n",
        _separator,
        _one(_words),
    ),
    Problem(
        "mean_of_largest",
        "easy",
        "(numbers: list[int]) -> float",
        "It returns the mean of the $k largest numbers, of all where there are fewer, and 0.0 where there are none.",
        "def mean_of_largest(numbers):\n    largest = sorted(numbers)[-$k:]\n"
        "    return sum(largest) / len(largest) if largest else 0.0\n",
        _whole(2, 4),
        _one(_numbers),
    ),
    Problem(
        "rotate_left",
        "medium",
        "(items: list[int]) -> list[int]",
        "It returns the items rotated to the left by $k places; there may be fewer items than that, or none.",
        "def rotate_left(items):\n    places = $k % len(items) if items else 0\n    return items[places:] + "
        "items[:places]\n",
        _whole(1, 6),
        _one(_numbers),
    ),
    Problem(
        "digits",
        "medium",
        "(number: int) -> list[int]",
        "It returns the digits of a number, 0 or greater, in base $base, the most significant one first. 0 has one "
        "digit.",
        "def digits(number):\n    found = [number % $base]\n    while number >= $base:\n        number //= $base\n"
        "        found.insert(0, number % $base)\n    return found\n",
        _whole(2, 16, "base"),
        _one(lambda chance: chance.randrange(10 ** chance.randint(0, 5))),
    ),
    Problem(
        "long_runs",
        "medium",
        "(text: str) -> list[list]",
        "It finds the runs of one character repeated, and returns [character, length] for each run of length $k or "
        "more, in "
        "order.",
        "from itertools import groupby\n\ndef long_runs(text):\n    runs = [[key, len(list(run))] for key, run in "
        "groupby(text)]\n"
        "    return [run for run in runs if run[1] >= $k]\n",
        _whole(2, 4),
        _one(_runs),
    ),
    Problem(
        "chunks",
        "medium",
        "(items: list[int]) -> list[list[int]]",
        "It cuts the items into lists of $k; the last list may be shorter, and none is empty.",
        "def chunks(items):\n    return [items[start:start + $k] for start in range(0, len(items), $k)]\n",
        _whole(2, 4),
        _one(_numbers),
    ),
    Problem(
        "most_frequent",
        "medium",
        "(words: list[str]) -> list[str]",
        "It returns the $k words that are there most often, the most frequent first; of those that are there equally "
        "often "
        "the one first in the alphabet comes first. Where there are fewer different words, it returns all of them.",
        "from collections import Counter\n\ndef most_frequent(words):\n    counts = Counter(words)\n"
        "    return sorted(counts, key=lambda word: (-counts[word], word))[:$k]\n",
        _whole(1, 4),
        _one(lambda chance: _words(chance, 14)),
    ),
    Problem(
        "moving_sums",
        "medium",
        "(numbers: list[int]) -> list[int]",
        "It returns the sum of each $k neighbouring numbers, from the start to the end; nothing where there are fewer.",
        "def moving_sums(numbers):\n    return [sum(numbers[start:start + $k]) for start in range(len(numbers) - $k "
        "+ 1)]\n",
        _whole(2, 4),
        _one(_numbers),
    ),
    Problem(
        "merge_intervals",
        "medium",
        "(intervals: list[list[int]]) -> list[list[int]]",
        "Each interval is [start, end]. It merges those that overlap, touch, or have at most $gap between the end of "
        "one and "
        "the start of the other, and returns what that gives, sorted.",
        "def merge_intervals(intervals):\n    merged = []\n    for start, end in sorted(intervals):\n"
        "        if merged and start - merged[-1][1] <= $gap:\n            merged[-1][1] = max(merged[-1][1], end)\n"
        "        else:\n            merged.append([start, end])\n    return merged\n",
        _whole(1, 5, "gap"),
        _one(_intervals),
    ),
    Problem(
        "wrap_words",
        "medium",
        "(words: list[str]) -> list[str]",
        "It puts as many words as fit on each line, one blank between them, and returns the lines. A line has at "
        "most $width "
        "characters, but for a longer word, which has a line of its own.",
        "def wrap_words(words):\n    lines = []\n    for word in words:\n"
        "        if lines and len(lines[-1]) + 1 + len(word) <= $width:\n            lines[-1] += ' ' + word\n"
        "        else:\n            lines.append(word)\n    return lines\n",
        _whole(4, 16, "width"),
        _one(lambda chance: _words(chance, 12)),
    ),
    Problem(
        "add_minutes",
        "medium",
        "(time: str) -> str",
        'The time is like "09:05", of 24 hours. It returns the time $k minutes later in the same form; after "23:59" '
        "comes "
        '"00:00".',
        "def add_minutes(time):\n    hours, minutes = map(int, time.split(':'))\n"
        "    later = (hours * 60 + minutes + $k) % 1440\n    return f'{later // 60:02}:{later % 60:02}'\n",
        _whole(15, 3000),
        _one(_time_of_day),
    ),
    Problem(
        "roman",
        "medium",
        "(number: int) -> str",
        "It writes a number from 1 to 3999 in Roman numerals, with IV for 4, XC for 90, and so on.",
        "def roman(number):\n    marks = [(1000, 'M'), (900, 'CM'), (500, 'D'), (400, 'CD'), (100, 'C'), (90, 'XC'), "
        "(50, 'L'),\n"
        "        (40, 'XL'), (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')]\n    text = ''\n"
        "    for value, mark in marks:\n        text += mark * (number // value)\n        number %= value\n    "
        "return text\n",
        _none,
        _one(lambda chance: chance.randint(1, chance.choice((10, 100, 3999)))),
    ),
    Problem(
        "longest_smooth",
        "hard",
        "(numbers: list[int]) -> int",
        "It returns how long the longest stretch of neighbouring numbers is in which each differs by at most $k from "
        "the one "
        "before it.",
        "def longest_smooth(numbers):\n    best = length = 0\n    for place, number in enumerate(numbers):\n"
        "        near = place > 0 and abs(number - numbers[place - 1]) <= $k\n        length = length + 1 if near "
        "else 1\n"
        "        best = max(best, length)\n    return best\n",
        _whole(1, 6),
        _one(lambda chance: _numbers(chance, 12, 0, 15)),
    ),
    Problem(
        "fewest_coins",
        "hard",
        "(amount: int) -> int",
        "It returns how few coins make up the amount, 0 or greater, where there are coins of $coins, as many of each "
        "as one "
        "likes; -1 where none do.",
        "def fewest_coins(amount):\n    fewest = [0] + [None] * amount\n    for total in range(1, amount + 1):\n"
        "        ways = [fewest[total - coin] for coin in $coins if coin <= total]\n"
        "        ways = [way for way in ways if way is not None]\n        fewest[total] = min(ways) + 1 if ways else "
        "None\n"
        "    return -1 if fewest[amount] is None else fewest[amount]\n",
        _coins,
        _one(lambda chance: chance.randint(0, chance.choice((12, 80)))),
    ),
    Problem(
        "last_left",
        "hard",
        "(count: int) -> int",
        "Numbers from 1 to count stand in a circle. Counting from 1 on, and going on after the end at the start, each "
        "number at which $k is reached leaves, and counting begins anew with the next. It returns the number that is "
        "left "
        "last.",
        "def last_left(count):\n    place = 0\n    for size in range(2, count + 1):\n        place = (place + $k) % "
        "size\n"
        "    return place + 1\n",
        _whole(2, 7),
        _one(lambda chance: chance.randint(1, 40)),
    ),
    Problem(
        "well_nested",
        "hard",
        "(text: str) -> bool",
        "The text has only the brackets ( ) [ ]. It returns whether each is closed by one of its kind, rightly "
        "nested, with "
        "never more than $k open at once.",
        "def well_nested(text):\n    opened = []\n    for bracket in text:\n        if bracket in '([':\n"
        "            opened.append(bracket)\n            if len(opened) > $k:\n                return False\n"
        "        elif not opened or opened.pop() + bracket not in ('()', '[]'):\n            return False\n"
        "    return not opened\n",
        _whole(2, 4),
        _brackets,
    ),
    Problem(
        "left_to_right",
        "hard",
        "(expression: str) -> int",
        "The expression has whole numbers with + - * between them, and blanks around these. It returns its value, "
        "worked out "
        "strictly from left to right, so that * does not go before + and -; a result below 0, the last one included, "
        "is "
        "replaced by $floor as soon as it comes up.",
        "def left_to_right(expression):\n    first, *rest = expression.split()\n    value = int(first)\n"
        "    for sign, word in zip(rest[::2], rest[1::2]):\n        number = int(word)\n"
        "        value = value + number if sign == '+' else value - number if sign == '-' else value * number\n"
        "        value = $floor if value < 0 else value\n    return value\n",
        _whole(0, 3, "floor"),
        _one(_sum),
    ),
    Problem(
        "fewest_steps",
        "hard",
        "(rows: list[str]) -> int",
        "Each row has . for free and # for blocked fields. It returns in how few steps one comes from the first "
        "field of the "
        "first row to the last field of the last row over free fields, going up, down, left or right, where a step "
        "is from "
        "1 to $k free fields in one direction; -1 where there is no way.",
        "def fewest_steps(rows):\n    goal = (len(rows) - 1, len(rows[0]) - 1)\n    seen, edge, steps = {(0, 0)}, "
        "[(0, 0)], 0\n"
        "    while edge:\n        if goal in seen:\n            return steps\n        following = []\n"
        "        for row, column in edge:\n            for down, right in ((0, 1), (1, 0), (0, -1), (-1, 0)):\n"
        "                for length in range(1, $k + 1):\n                    place = (row + down * length, column + "
        "right * length)\n"
        "                    if not (0 <= place[0] <= goal[0] and 0 <= place[1] <= goal[1]) or "
        "rows[place[0]][place[1]] == '#':\n"
        "                        break\n                    if place not in seen:\n                        "
        "seen.add(place)\n"
        "                        following.append(place)\n        edge, steps = following, steps + 1\n    return -1\n",
        _whole(1, 3),
        _one(_grid),
    ),
    Problem(
        "spiral",
        "hard",
        "(rows: list[list[int]]) -> list[int]",
        "It returns the numbers of a table in a spiral: the first row from left to right, then down the last column, "
        "back "
        "along the last row, up the first column, and so on inwards; nothing for a table without rows.",
        "def spiral(rows):\n    found, rows = [], [list(row) for row in rows]\n    while rows:\n        found += "
        "rows.pop(0)\n"
        "        rows = [list(row) for row in zip(*rows)][::-1]\n    return found\n",
        _none,
        _one(_table),
    ),
    Problem(
        "leaders",
        "hard",
        "(records: list[str]) -> list[list]",
        'Each record is like "elm:3", a name and points. It adds up the points of each name, and returns [name, '
        "points] for "
        "each with at least $k points, most points first, and names in alphabetical order where these are equal.",
        "def leaders(records):\n    totals = {}\n    for record in records:\n        name, points = record.split(':')\n"
        "        totals[name] = totals.get(name, 0) + int(points)\n"
        "    kept = [[name, total] for name, total in totals.items() if total >= $k]\n"
        "    return sorted(kept, key=lambda pair: (-pair[1], pair[0]))\n",
        _whole(5, 15),
        _one(_scores),
    ),
)
"""All problems; a task's index chooses among them, so that a new problem changes the tasks of indices."""
