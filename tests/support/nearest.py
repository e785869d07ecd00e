"""``python -m tests.support.nearest``: run the tests nearest to what has changed, for ``make check``.

Changed is what differs from the commit at which this branch left the main one. Nearest are changed tests, and those
at the mirrored path of a changed file (``tests/core/test_seeding.py`` for ``src/openenv/core/seeding.py``); then those
with the fewest imports between them and a changed module, or that name a changed file of another kind or a changed
environment. They are chosen in this order until their recorded costs (``tests/costs.tsv``) reach a limit, and only
their files are collected. What is left out is counted, by folder.
"""

import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated

import typer
from tests.support.costs import Cost, file_of, read_costs
from tests.support.import_graph import ROOT, ImportGraph, module_name
from tests.support.levels import is_test_file
from tests.support.pages import pages_of

_PROCESSES = 3
_DISTRIBUTION = (f"--numprocesses={_PROCESSES}", "--dist=loadfile", "--no-loadscope-reorder", "--quiet")


@dataclass(frozen=True)
class Choice:
    """Tests chosen to run.

    Attributes:
        files: Their files, the nearest first.
        cost: What those that are on record cost.
        left_out: Tests of these files that are too dear.
        not_run: All tests that are on record and are not chosen, counted by folder.
    """

    files: Sequence[str]
    cost: Cost
    left_out: Sequence[str]
    not_run: Mapping[str, int]


def changed_files(base: str, root: Path = ROOT) -> list[Path]:
    """Return the files that differ from where this branch left another one, new and uncommitted ones among them."""
    left = _git(root, "merge-base", base, "HEAD").strip()
    changed = _git(root, "diff", "--name-only", "--no-renames", "-z", left)
    new = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return [Path(name) for name in dict.fromkeys((changed + new).split("\0")) if name]


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


def distances(changed: Sequence[Path], graph: ImportGraph, tests: Sequence[Path]) -> dict[Path, int]:
    """Return the distance of each test file from what has changed; a file without a connection has none.

    Args:
        changed: Changed files, relative to the repository.
        graph: The imports of the repository.
        tests: All test files.
    """
    targets = [path if path in tests else mirrored(path, graph.root) for path in changed]
    nearest = {test for test in tests for target in targets if target in (test, test.parent)}
    by_imports = graph.distances_to(module_name(path) for path in changed if path.suffix == ".py")
    named = {name for path in changed for name in _names_of(path)}
    mentions = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, sorted(named)))})(?!\w)")
    found: dict[Path, int] = {}
    for test in tests:
        if test in nearest:
            found[test] = 0
        elif (name := module_name(test)) in by_imports:
            found[test] = 1 + by_imports[name]
        elif named and mentions.search((graph.root / test).read_text(encoding="utf-8")):
            found[test] = 1
    return found


def _names_of(path: Path) -> list[str]:
    """Return the names by which tests may know a file that they do not import: its own, those of its environment.

    What a browser runs is known to all tests that open pages.
    """
    names = [] if path.suffix == ".py" else [path.name]
    if path.suffix in (".js", ".css", ".html"):
        names.append("web_pages")
    if path.parts[0] == "envs" and len(path.parts) > 2:
        names += [path.parts[1], f'"{path.parts[1].removesuffix("_env")}"', "each_environment"]
    return names


def mirrored(path: Path, root: Path = ROOT) -> Path | None:
    """Return the tests that mirror a file: a file with its name, or the innermost folder; none for other files.

    Example:
        >>> mirrored(Path("src/openenv/core/seeding.py"))
        PosixPath('tests/core/test_seeding.py')
    """
    match path.parts:
        case ("src", "openenv", *inside):
            beside = Path("tests", *inside[:-1])
        case ("benchmarks", *inside):
            beside = Path("tests", "benchmarks", *inside[:-1])
        case ("envs", environment, *inside) if inside and inside[0] != "tests":
            beside = Path("envs", environment, "tests", *inside[:-1])
        case ("tests" | "envs", *_):
            beside = path.parent
        case _:
            return None
    candidates = (beside / f"test_{path.stem}.py", beside / path.stem, beside, *beside.parents)
    return next(candidate for candidate in candidates if (root / candidate).exists())


def choose(
    found: Mapping[Path, int], tests: Mapping[Path, Sequence[str]], costs: Mapping[str, Cost], limit_s: float
) -> Choice:
    """Choose tests, the nearest first, then the cheapest, until their costs reach a limit.

    A file of which nothing is on record costs as much as files do on average; one that mirrors a changed file, or has
    changed itself, runs at whatever cost.

    Args:
        found: The distance of test files.
        tests: The tests of every file that are on record.
        costs: The cost of each.
        limit_s: Seconds of CPU time, and of wall time in each of the processes.
    """
    files: list[str] = []
    run: set[str] = set()
    left_out: list[str] = []
    spent = Cost(0.0, 0.0)
    of_all = sum(costs.values(), Cost(0.0, 0.0))
    of_file = Cost(of_all.cpu_s / max(1, len(tests)), of_all.wall_s / max(1, len(tests)))
    for file in sorted(found, key=lambda file: (found[file], sum(costs[test].cpu_s for test in tests.get(file, ())))):
        wanted = sorted(tests.get(file, ()), key=lambda test: costs[test].cpu_s)
        if not wanted:
            if found[file] == 0 or _fits(spent + of_file, limit_s):
                spent += of_file
                files.append(str(file))
            continue
        too_dear = []
        for test in wanted:
            after = spent + costs[test]
            if _fits(after, limit_s):
                spent = after
                run.add(test)
            else:
                too_dear.append(test)
        if len(too_dear) < len(wanted):
            files.append(str(file))
            left_out += too_dear
    return Choice(files, spent, left_out, Counter(_folder_of(test) for test in costs if test not in run))


def _fits(cost: Cost, limit_s: float) -> bool:
    return cost.cpu_s <= limit_s and cost.wall_s <= limit_s * _PROCESSES


def _folder_of(test: str) -> str:
    return "/".join(Path(file_of(test)).parts[:-1][:2])


def main(
    pytest_options: Annotated[list[str] | None, typer.Argument(help="Options of pytest.")] = None,
    base: Annotated[str, typer.Option(help="The branch, tag or commit that a change is seen against.")] = "",
    limit_s: Annotated[float, typer.Option(help="Seconds of CPU time that the chosen tests may take.")] = 90,
    dry: Annotated[bool, typer.Option("--list", help="Print what would be run.")] = False,
) -> None:
    """Run the tests nearest to what has changed."""
    changed = changed_files(base or _main_branch())
    graph = ImportGraph()
    costs = read_costs()
    tests: defaultdict[Path, list[str]] = defaultdict(list)
    for test in costs:
        tests[Path(file_of(test))].append(test)
    files = [module.path for module in graph if is_test_file(module.path)]
    files += [page.relative_to(ROOT) for page in pages_of(ROOT)]
    choice = choose(distances(changed, graph, files), tests, costs, limit_s)
    typer.echo(_summary(changed, choice, len(costs)))
    if dry or not choice.files:
        raise typer.Exit(0)
    with NamedTemporaryFile("w", prefix="openenv-left-out-", encoding="utf-8") as file:
        file.write("\n".join(choice.left_out))
        file.flush()
        options = ["-p", "tests.support.left_out", f"--left-out={file.name}", *_DISTRIBUTION, *(pytest_options or [])]
        raise typer.Exit(subprocess.run([sys.executable, "-m", "pytest", *options, *choice.files], cwd=ROOT).returncode)


def _main_branch() -> str:
    """Return the main branch, that of the remote repository where there is one."""
    known = _git(
        ROOT, "for-each-ref", "--format=%(refname:short)", "refs/remotes/origin/main", "refs/heads/main"
    ).split()
    return known[-1] if known else "HEAD"


def _summary(changed: Sequence[Path], choice: Choice, count: int) -> str:
    not_run = sum(choice.not_run.values())
    lines = [
        f"{len(changed)} changed files; the nearest {count - not_run} tests, {choice.cost.cpu_s:.0f} s of CPU time:"
    ]
    lines += [f"  {file}" for file in choice.files]
    lines += [f"Not run: {not_run} tests."]
    lines += [f"  {tests:6} {folder}" for folder, tests in sorted(choice.not_run.items())]
    return "\n".join(lines)


if __name__ == "__main__":
    typer.run(main)
