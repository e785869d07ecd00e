"""A player that reads in the task what is to be done, and does it with some commands."""

import re
import shlex
from collections.abc import Callable, Iterator

from .models import RunAction, SubmitAction, TerminalAction, TerminalObservation, WriteFileAction

_Plan = list[TerminalAction]
_Planner = Callable[[re.Match[str]], _Plan]


class TerminalPlayer:
    """Makes a plan when it sees the task, and follows it.

    What it does not understand, it submits as it is.
    """

    def __init__(self) -> None:
        self._plan: Iterator[TerminalAction] | None = None

    def __call__(self, observation: TerminalObservation) -> TerminalAction:
        """Choose the next action.

        Args:
            observation: The last observation.

        Returns:
            The next action of the plan.
        """
        if self._plan is None:
            self._plan = iter(plan(observation.prompt))
        return next(self._plan, SubmitAction())


def plan(prompt: str) -> list[TerminalAction]:
    """Read a task, and return the actions that do it.

    Args:
        prompt: The task.

    Returns:
        The actions, without the last one, which submits; none for a task that is not one of ours.
    """
    for pattern, planner in _PLANNERS:
        match = pattern.search(prompt)
        if match is not None:
            return planner(match)
    return []


def make_player(seed: int) -> Callable[[TerminalObservation], TerminalAction]:
    """Make a player for one episode.

    Args:
        seed: Not used: it leaves nothing to chance.

    Returns:
        A function from observations to actions.
    """
    return TerminalPlayer()


def _python(program: str, *values: str) -> _Plan:
    """Run a program in the work folder, with some arguments."""
    return [RunAction(command=shlex.join(["python3", "-I", "-c", program, *values]))]


# --- Logs -------------------------------------------------------------------------------------------------------------


def _count_lines(match: re.Match[str]) -> _Plan:
    level, service = match["level"], match["service"]
    counting = f"""awk '$3 == "{level}" && $4 == "{service}"' logs/* | wc -l > answer.txt"""
    return [RunAction(command="head -n 3 logs/*"), RunAction(command=counting)]


def _most_lines(match: re.Match[str]) -> _Plan:
    counting = f"""awk '$3 == "{match["level"]}" {{print $4}}' logs/* | sort | uniq -c | sort -k1,1nr -k2 | head -n 1"""
    return [RunAction(command=f"{counting} | awk '{{print $2, $1}}' > answer.txt")]


def _report_lines(match: re.Match[str]) -> _Plan:
    rows = (
        """awk '{e[$4] += $3 == "ERROR"; w[$4] += $3 == "WARN"} END {for (s in e) print s "," e[s] "," w[s]}' logs/*"""
    )
    hours = "cut -d ' ' -f 2 logs/* | cut -c 1-2"
    return [
        RunAction(command=f"(echo service,errors,warnings; {rows} | LC_ALL=C sort) > report.csv"),
        RunAction(command=f"{hours} | sort | uniq -c | sort -k1,1nr -k2 | awk 'NR == 1 {{print $2}}' > busiest.txt"),
    ]


# --- Tables -----------------------------------------------------------------------------------------------------------


def _sum_column(match: re.Match[str]) -> _Plan:
    summing = f"""awk -F, '$2 == "{match["product"]}" {{sum += $3}} END {{print sum + 0}}' sales.csv > answer.txt"""
    return [RunAction(command="head -n 3 sales.csv"), RunAction(command=summing)]


_TOTALS = """
import csv, sys
month = sys.argv[1]
prices = {row["product"]: int(row["cents"]) for row in csv.DictReader(open("prices.csv"))}
totals, missing = {}, set()
for row in csv.DictReader(open("sales.csv")):
    name = row["product"]
    if name not in prices:
        missing.add(name)
    elif row["date"].startswith(month):
        totals[name] = totals.get(name, 0) + prices[name] * int(row["quantity"])
order = sorted(totals, key=lambda name: (-totals[name], name) if month else name)
with open((month or "totals") + ".csv", "w") as file:
    print("product,cents", *(f"{name},{totals[name]}" for name in order), sep="\\n", file=file)
if month:
    with open("missing.txt", "w") as file:
        print(*sorted(missing), sep="\\n", file=file)
"""


def _total_sales(match: re.Match[str]) -> _Plan:
    return _python(_TOTALS, match.groupdict().get("month") or "")


# --- Files ------------------------------------------------------------------------------------------------------------


def _delete_files(match: re.Match[str]) -> _Plan:
    return [RunAction(command="ls -R inbox"), RunAction(command=f"find inbox -name '*.{match['ending']}' -delete")]


def _sort_files(match: re.Match[str]) -> _Plan:
    folder = 'folder=../sorted/$(echo "${file##*.}" | tr A-Z a-z)'
    loop = f'for file in *; do {folder}; mkdir -p "$folder"; mv "$file" "$folder"; done'
    return [RunAction(command="cd inbox"), RunAction(command=loop)]


_SCANS = """
import re
from pathlib import Path
for file in list(Path("inbox").iterdir()):
    match = re.fullmatch(r"Scan (\\d\\d)\\.(\\d\\d)\\.(\\d{4}) \\((\\d+)\\)\\.txt", file.name)
    if match:
        day, month, year, number = match.groups()
        folder = Path("scans", year, month)
        folder.mkdir(parents=True, exist_ok=True)
        file.rename(folder / f"{day}-{number}.txt")
"""


def _move_scans(match: re.Match[str]) -> _Plan:
    return _python(_SCANS)


# --- Configuration ----------------------------------------------------------------------------------------------------

_SETTINGS = """
import json, re, sys
prompt, path = sys.argv[1:]
settings = json.load(open(path))
for part, key, value in re.findall(r"set (\\w+)\\.(\\w+) to (.+?)(?:;|\\. Leave)", prompt):
    settings[part][key] = json.loads(value)
for value, key in re.findall(r'add "(\\w+)" at the end of (\\w+)', prompt):
    settings[key].append(value)
for part, key in re.findall(r"remove (\\w+)\\.(\\w+)", prompt):
    del settings[part][key]
json.dump(settings, open(path, "w"), indent=2)
"""


def _change_settings(match: re.Match[str]) -> _Plan:
    steps = _python(_SETTINGS, match[0], match["path"])
    if match["timeout"] is not None:
        editing = f"sed -i '/^\\[watch\\]/,$ s/^timeout = .*/timeout = {match['timeout']}/' config/service.ini"
        steps.append(RunAction(command=editing))
    return steps


# --- Scripts ----------------------------------------------------------------------------------------------------------

_SUM = """import csv
import sys

with open(sys.argv[1], newline="") as file:
    print(sum(int(row["{column}"]) for row in csv.DictReader(file) if row["state"] == "{state}"))
"""
_GROUPS = """import csv
import sys

totals = {{}}
with open(sys.argv[1], newline="") as file:
    for row in csv.DictReader(file):
        totals[row["customer"]] = totals.get(row["customer"], 0) + int(row["{column}"] or 0)
for name in sorted(totals, key=lambda name: (-totals[name], name)):
    print(name, totals[name])
"""


def _mend_script(match: re.Match[str]) -> _Plan:
    groups = match.groupdict()
    source = (_SUM if "state" in groups else _GROUPS).format(**groups)
    return [WriteFileAction(path="report.py", text=source), RunAction(command="python3 report.py orders.csv")]


# --- The repository ---------------------------------------------------------------------------------------------------


def _bring_back(match: re.Match[str]) -> _Plan:
    path = match["path"]
    deletion = f"git rev-list --max-count 1 HEAD -- {path}"
    return [
        RunAction(command="cd project"),
        RunAction(command=f"git checkout --quiet $({deletion})^ -- {path}"),
        RunAction(command=f"git commit --quiet --message 'Bring {path} back'"),
    ]


def _undo_commit(match: re.Match[str]) -> _Plan:
    finding = f"git log --format=%H --fixed-strings --grep {shlex.quote(match['subject'])}"
    return [RunAction(command=f"cd project && git revert --no-edit $({finding}) > ../revert.log")]


_MERGE = """
import subprocess, sys
def limits(branch):
    text = subprocess.run(["git", "show", branch + ":limits.txt"], capture_output=True, text=True).stdout
    return dict(line.split(" = ") for line in text.splitlines() if line)
ours, theirs = limits("main"), limits(sys.argv[1])
with open("limits.txt", "w") as file:
    for key, number in ours.items():
        file.write(f"{key} = {max(int(number), int(theirs[key]))}\\n\\n")
"""


def _merge_branch(match: re.Match[str]) -> _Plan:
    return [
        RunAction(command=f"cd project; git merge --quiet {match['branch']}"),
        *_python(_MERGE, match["branch"]),
        RunAction(command="git commit --quiet --all --message 'Merge, with the greater limits'"),
    ]


_PLANNERS: tuple[tuple[re.Pattern[str], _Planner], ...] = tuple(
    (re.compile(pattern), planner)
    for pattern, planner in (
        (r"How many lines of the level (?P<level>\w+) does the service (?P<service>\w+) have", _count_lines),
        (r"Which service has the most lines of the level (?P<level>\w+) in all files", _most_lines),
        (r"Write report\.csv: the line `service,errors,warnings`", _report_lines),
        (r"Add up the quantities of the product (?P<product>\w+),", _sum_column),
        (r"Write totals\.csv: the line `product,cents`", _total_sales),
        (r"Write (?P<month>\d{4}-\d\d)\.csv: the line `product,cents`", _total_sales),
        (r"Delete the files .* whose names end in \.(?P<ending>\w+),", _delete_files),
        (r"Move each file of the folder inbox to a folder below the folder sorted", _sort_files),
        (r"Some files of the folder inbox are scans", _move_scans),
        (
            r"Change the file (?P<path>[\w/]+\.json): .*? Leave all other settings as they are\."
            r"(?: .* set timeout of the section watch to (?P<timeout>\d+);)?",
            _change_settings,
        ),
        (r"the sum of the column (?P<column>\w+) of all rows whose state is (?P<state>\w+), and", _mend_script),
        (r"the name, a blank, and the sum of the column (?P<column>\w+) of the customer's rows", _mend_script),
        (r"A commit has deleted (?P<path>\S+) by mistake", _bring_back),
        (r'The commit "(?P<subject>.+?)" was a mistake', _undo_commit),
        (r"Merge the branch (?P<branch>\w+) into main", _merge_branch),
    )
)
