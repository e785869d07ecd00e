"""Answers of the viewer's routes, and the report of a run, on stored folders in three states.

The folders were written by commit f4f48a9: a training of Catch with three steps, an evaluation of the random player
with two attempts at three tasks, one of the scripted player at the same tasks, and a collection of ten episodes of
which two were kept. Each is seen *finished*; *interrupted*, with its last lines cut off; and *growing*: as it was
interrupted, and again once the rest of the lines was written, a run while it is under way.
"""

import json
import re
import shutil
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient
from tests.support.trace_files import file_of_dump

from openenv.records.run_folder import RunFolder
from openenv.train.run.report import write_report
from openenv.train.settings.config import load_config
from openenv.viewer import Source, comparison_app, source_app

FOLDERS = Path(__file__).parent / "folders"

RUN = ("run/progress", "run/rollouts", "run/rollouts?step=1", "run/rollouts?step=9")
RESULTS = (
    "results/summary",
    *(f"results/tasks?order={order}" for order in ("played", "worst", "best", "spread")),
    "results/tasks?start=1&limit=1",
    "results/extremes",
    "results/extremes?task=1",
    "results/extremes?task=99",
)
LIST_OF_TRACES = (
    "traces/environments",
    "traces/models",
    "traces/components",
    "traces/labels",
    "traces/token-names",
    "traces/count",
    "traces/count?min_reward=0.5",
    "traces/grid?by=model",
    "traces/episodes?limit=3",
)
TRACES = (
    *LIST_OF_TRACES,
    *(f"traces/grid?by={by}" for by in ("version", "run", "ending")),
    "traces/episodes?after={second}&limit=2",
    "traces/episodes/{first}",
    "traces/episodes/{first}/entries?stop=3",
    "traces/episodes/{first}/entries?start=2&brief=true",
    "traces/episodes/{first}/rewards",
    "traces/episodes/{first}/difference/{first}",
    "traces/episodes/{first}/difference/{second}",
    *(f"traces/episodes/{{first}}/export/{to}" for to in ("messages", "atif", "json", "pdf")),
    *(f"traces/export/{to}?seed={{seed}}&evaluation=false" for to in ("messages", "json")),
)
COMPARISON = ("compare/overview", "compare/tasks", "compare/tasks?start=1&limit=1")

QUERIES = {"run": RUN, "evaluation": RESULTS, "collection": RESULTS}
"""Queries of each folder in each of its states; those of traces, which stay the same, come where it is finished."""

COMPARED = ("run", "evaluation", "scripted", "collection")

_PICTURE = re.compile(r"data:image/png;base64,[A-Za-z0-9+/=]+")


def finished(kind: str, parent: Path) -> Path:
    """Make a folder as it is at the end.

    Args:
        kind: Name of the stored folder.
        parent: The folder that it is made in.
    """
    folder = parent / kind
    shutil.copytree(FOLDERS / kind, folder, ignore=shutil.ignore_patterns("traces.sql"))
    file_of_dump(FOLDERS / kind / "traces.sql", folder / "traces.db")
    if kind == "run":
        _report(folder)
    return folder


def interrupted(kind: str, parent: Path) -> tuple[Path, dict[Path, bytes]]:
    """Make a folder without results, whose files end within a line; return it, and what each file lacks."""
    folder = finished(kind, parent)
    for name in ("report.html", "curve.png", "results.json"):
        (folder / name).unlink(missing_ok=True)
    if kind == "run":
        scores = json.loads((folder / "scores.json").read_text())
        before = {name: score for name, score in scores.items() if not name.startswith("after training")}
        (folder / "scores.json").write_text(json.dumps(before))
    names = ("metrics.jsonl", "rollouts.jsonl", "episodes.jsonl", "left_out.jsonl")
    return folder, {folder / name: _cut(folder / name) for name in names if (folder / name).is_file()}


def answers_of(kind: str, folder: Path) -> dict[str, Any]:
    """Return the answers about a folder of a kind in each of its states."""
    queries = ("config", *QUERIES[kind])
    client = _client(finished(kind, folder / "finished"))
    at_the_end = _answers(client, (*queries, *_queries_of_traces(kind, client)))
    path, _ = interrupted(kind, folder / "interrupted")
    cut_off = _answers(_client(path), queries)
    path, rest = interrupted(kind, folder / "growing")
    with RunFolder(path).held() if kind == "run" else nullcontext():
        client = _client(path)
        before = _answers(client, queries)
        for file, content in rest.items():
            with file.open("ab") as written:
                written.write(content)
        after = _answers(client, queries)
        if kind == "run":
            last = before["run/progress"]
            after["run/progress, from there on"] = _answer(
                client, f"run/progress?offset={last['offset']}&mark={last['mark']}"
            )
    return {"finished": at_the_end, "interrupted": cut_off, "growing": {"before": before, "after": after}}


def answers_of_run(folder: Path) -> dict[str, Any]:
    """Return the answers about the training run."""
    return answers_of("run", folder)


def answers_of_evaluation(folder: Path) -> dict[str, Any]:
    """Return the answers about the evaluation."""
    return answers_of("evaluation", folder)


def answers_of_collection(folder: Path) -> dict[str, Any]:
    """Return the answers about the collection."""
    return answers_of("collection", folder)


def answers_of_comparison(folder: Path) -> dict[str, Any]:
    """Return the answers about all folders beside each other, finished and interrupted."""
    paths = {
        "finished": [finished(kind, folder / "finished") for kind in COMPARED],
        "interrupted": [interrupted(kind, folder / "interrupted")[0] for kind in COMPARED],
    }
    answers = {}
    for state, compared in paths.items():
        client = TestClient(comparison_app(Source.all_at(list(map(str, compared)))))
        answers[state] = _answers(client, ("config", *COMPARISON, *_differences(client)))
    return answers


def report_page(folder: Path) -> dict[str, list[str]]:
    """Return the lines of the report of the run, at its end and after an interruption; its picture is left out."""
    interrupted_run, _ = interrupted("run", folder / "interrupted")
    _report(interrupted_run)
    pages = {"finished": finished("run", folder / "finished"), "interrupted": interrupted_run}
    return {state: _lines_of((path / "report.html").read_text()) for state, path in pages.items()}


def unseen_routes(queries: Iterable[str], app: Starlette) -> list[str]:
    """Return the routes below ``/web/traces``, ``run``, ``results`` and ``compare`` that no query asks."""
    paths = [f"/web/{query.partition('?')[0]}" for query in queries]
    routes = [route for route in app.routes if isinstance(route, Route) and _is_answer(route)]
    return [route.path for route in routes if not any(route.path_regex.match(path) for path in paths)]


def _is_answer(route: Route) -> bool:
    return "GET" in (route.methods or ()) and route.path.startswith(
        ("/web/traces/", "/web/run/", "/web/results/", "/web/compare/")
    )


def _report(folder: Path) -> None:
    run = RunFolder(folder)
    write_report(run, load_config(run.config), "tiny on catch")


def _cut(path: Path) -> bytes:
    """Cut a file of lines in the middle of the last one; return what was cut off."""
    content = path.read_bytes()
    last = content.rstrip(b"\n").rfind(b"\n") + 1
    middle = (last + len(content)) // 2
    path.write_bytes(content[:middle])
    return content[middle:]


def _client(folder: Path) -> TestClient:
    return TestClient(source_app(Source.at(str(folder))))


def _answers(client: TestClient, queries: Iterable[str]) -> dict[str, Any]:
    return {query: _answer(client, query) for query in queries}


def _answer(client: TestClient, query: str) -> Any:
    """Return the JSON of an answer, or that of its lines; with its status where that is not 200."""
    answer = client.get(f"/web/{query}")
    if answer.headers["content-type"] == "application/jsonl":
        return [json.loads(line) for line in answer.text.splitlines()]
    return answer.json() if answer.status_code == 200 else {"status": answer.status_code, **answer.json()}


def _queries_of_traces(kind: str, client: TestClient) -> tuple[str, ...]:
    """Return the queries of a folder's traces: all for a run, whose episodes have tokens; lists for the others."""
    if kind != "run":
        return LIST_OF_TRACES
    first, second, *_ = client.get("/web/traces/episodes?evaluation=false").json()
    names = {"first": first["id"], "second": second["id"], "seed": first["seed"]}
    return tuple(query.format(**names) for query in TRACES)


def _differences(client: TestClient) -> list[str]:
    """Return the queries of the two episodes of each task that both sources have played."""
    pairs = [row["ids"] for row in client.get("/web/compare/tasks").json()["rows"]]
    return [f"compare/difference/{'/'.join(ids)}" for ids in pairs if len(ids) > 1]


def _lines_of(page: str) -> list[str]:
    without_picture = _PICTURE.sub("PICTURE", page)
    return [line.strip() for line in re.sub(r">\s*<", ">\n<", without_picture).splitlines() if line.strip()]
