"""Mutants of an environment in a terminal: what was found, what was not, and what a pass is worth."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from openenv.validation.mutants.environment_operators import OPERATORS
from openenv.validation.mutants.outcomes import MutantOutcome, MutantResult, MutantsReport

_COLOURS = {
    MutantOutcome.FOUND: "green",
    MutantOutcome.NO_EFFECT: "dim",
    MutantOutcome.SURVIVED: "red",
    MutantOutcome.UNDECIDED: "yellow",
}


def print_result(result: MutantResult, console: Console) -> None:
    """Print the line of a mutant."""
    mutant = result.mutant
    word = f"[{_COLOURS[result.outcome]}]{result.outcome.value:<14}[/]"
    console.print(f"  {word} {mutant.operator:<18} {escape(mutant.file)}:{mutant.line} {result.check}".rstrip())


def print_mutants(report: MutantsReport, console: Console) -> None:
    """Print the table of the operators, the survivors with their changes, and what a pass is worth."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("operator")
    for heading in ("mutants", "found", "survived", "without effect", "undecided"):
        table.add_column(heading, justify="right")
    for name in [*(each.name for each in OPERATORS), None]:
        counts = {outcome: report.count(outcome, name) for outcome in MutantOutcome}
        if any(counts.values()):
            columns = [MutantOutcome.FOUND, MutantOutcome.SURVIVED, MutantOutcome.NO_EFFECT, MutantOutcome.UNDECIDED]
            row = [str(each) for each in (sum(counts.values()), *(counts[outcome] for outcome in columns))]
            table.add_row(name or "all", *row, style="bold" if name is None else None)
    console.print(table)
    for result in report.results:
        if result.outcome in (MutantOutcome.SURVIVED, MutantOutcome.UNDECIDED):
            mutant = result.mutant
            where = escape(f"{mutant.file}:{mutant.line}: {mutant.change}")
            console.print(f"  [red]{result.outcome.value}[/] {mutant.operator} {where}")
            if result.evidence:
                console.print(f"      {escape(result.evidence)}", style="dim")
    if report.known:
        console.print(f"Checks that find something without a fault, and so count for none: {', '.join(report.known)}")
    console.print(f"{len(report.results)} of {report.possible} mutants in {report.seconds:.0f} s. {report.worth}")
