"""Mutants in a terminal: the table, the survivors, the sentence."""

from io import StringIO

from rich.console import Console

from openenv.cli.views.mutants import print_mutants, print_result
from openenv.validation import Level
from openenv.validation.mutants.mutating import Mutant
from openenv.validation.mutants.outcomes import MutantOutcome, MutantResult, MutantsReport

FOUND = MutantResult(
    Mutant("fix_seed", "server/env.py", 7, "the seed is always 7", ""), MutantOutcome.FOUND, "runtime.seed_effect"
)
SURVIVOR = MutantResult(
    Mutant("off_by_one", "server/env.py", 9, "moves[0] becomes moves[1]", ""),
    MutantOutcome.SURVIVED,
    evidence="differs in 0.1.text",
)
REPORT = MutantsReport("env", Level.SEMANTIC, 0, 12, ("static.paths",), (FOUND, SURVIVOR), 3.4)


def shown(print_it: object) -> list[str]:
    console = Console(file=StringIO(), width=120, highlight=False)
    print_it(console)  # type: ignore[operator]
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_table_has_the_operators_that_were_used() -> None:
    lines = shown(lambda console: print_mutants(REPORT, console))
    assert [line.split() for line in lines[1:4]] == [
        ["off_by_one", "1", "0", "1", "0", "0"],
        ["fix_seed", "1", "1", "0", "0", "0"],
        ["all", "2", "1", "1", "0", "0"],
    ]


def test_survivors_have_file_line_and_change() -> None:
    lines = shown(lambda console: print_mutants(REPORT, console))
    assert lines[4:6] == [
        "  survived off_by_one server/env.py:9: moves[0] becomes moves[1]",
        "      differs in 0.1.text",
    ]


def test_the_end_has_what_counts_for_none_and_what_a_pass_is_worth() -> None:
    text = " ".join(shown(lambda console: print_mutants(REPORT, console)))
    assert "count for none: static.paths" in text
    assert "2 of 12 mutants in 3 s. Of 2 planted faults with an effect, 1 (50%) are found" in text


def test_a_result_is_a_line() -> None:
    assert shown(lambda console: print_result(FOUND, console)) == [
        "  found          fix_seed           server/env.py:7 runtime.seed_effect"
    ]
