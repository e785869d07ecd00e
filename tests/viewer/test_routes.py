"""What the page reads of a file of traces: episodes by pages, entries by ranges, differences, downloads."""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import eventually
from tests.support.trace_files import BEGAN, entries, episode, new_file

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.traces.sqlite import connected
from openenv.core.exceptions import ConfigurationError
from openenv.traces import Conversation
from openenv.viewer import viewer_app

TRACES = "/web/traces"
BASE = f"{TRACES}/episodes"


@pytest.fixture(scope="module", params=["SQLite", "PostgreSQL"])
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("traces") / "traces.db")
    if request.param == "PostgreSQL":
        path = request.getfixturevalue("postgres").new_database()
    with new_file(path) as traces:
        traces.add(episode(1, 1200), entries(1200))
        traces.add(episode(2, 3), entries(3, turn_at=2))
        traces.add(episode(3, 3, "run", "closed"), entries(3, "A needle at {step}.\nGo on."))
    return path


@pytest.fixture(scope="module")
def http(file: str) -> TestClient:
    return TestClient(viewer_app(file))


def ids(http: TestClient, **query: Any) -> list[str]:
    return [found["id"] for found in http.get(BASE, params=query).json()]


def test_episodes_come_newest_first_and_by_pages(http: TestClient) -> None:
    newest, *others = ids(http)
    assert len(others) == 2
    assert http.get(f"{TRACES}/count").json() == 3
    assert http.get(f"{TRACES}/environments").json() == ["run", "walk"]
    assert ids(http, limit=1) == [newest]
    assert ids(http, limit=5, after=newest) == others
    assert ids(http, after=others[-1]) == []
    assert ids(http, before=newest) == []
    assert ids(http, before=others[-1], limit=1) == others[:1]
    assert ids(http, before=others[-1], environment="run") == [newest]


def test_episodes_come_in_the_order_of_the_query(http: TestClient) -> None:
    newest = ids(http)
    assert ids(http, order="oldest") == newest[::-1]
    assert ids(http, order="longest") == ids(http, order="best") == [newest[2], *newest[:2]]
    assert ids(http, order="worst", after=newest[0], limit=1) == newest[1:2]
    assert ids(http, order="worst", before=newest[2]) == newest[1::-1]
    assert http.get(BASE, params={"order": "colour"}).status_code == 422


def test_episodes_are_filtered_by_their_beginning(http: TestClient) -> None:
    newest = ids(http)
    assert ids(http, until=BEGAN + 2) == newest[1:]
    assert ids(http, since=BEGAN + 2, until=BEGAN + 2) == newest[1:2]


def test_episodes_are_filtered(http: TestClient) -> None:
    (needle,) = ids(http, text="needle")
    assert ids(http, environment="run") == ids(http, ending="closed") == ids(http, seed="3") == [needle]
    assert len(ids(http, min_reward="1000")) == 1
    assert ids(http, version="1", run=1) == ids(http)
    assert ids(http, version="2") == ids(http, run=2) == []
    assert http.get(f"{TRACES}/count", params={"text": "needle"}).json() == 1


def test_episodes_are_filtered_by_components_and_flags(http: TestClient) -> None:
    newest = ids(http)
    assert http.get(f"{TRACES}/components").json() == ["pace"]
    assert http.get(f"{TRACES}/token-names").json() == []
    assert ids(http, component="pace", min_reward="1.6") == newest[2:]
    assert ids(http, component="pace", min_reward="1.5", order="best") == [newest[2], *newest[:2]]
    found = http.get(BASE, params={"component": "pace"}).json()
    assert [(each["component"], each["flags"]) for each in found] == [(1.5, []), (1.5, []), (600.0, [])]
    assert ids(http, flag="error") == []
    assert http.get(f"{TRACES}/grid", params={"component": "pace"}).json()["rows"][0]["cells"][0]["max_reward"] == 1.5


def test_tasks_by_runs_are_a_grid(tmp_path: Path) -> None:
    path = tmp_path / "traces.db"
    played = [("a", "0", 1.0), ("b", "0", 3.0), ("a", "1", 0.0), ("a", "1", 1.0), (None, None, 5.0)]
    with new_file(path) as traces:
        for number, (model, index, reward) in enumerate(played):
            written = [Conversation(f"e{number}", model=model)] if model else []
            traces.add(
                replace(episode(number, 1), index=index, split=index and "test", reward=reward), entries(1), written
            )
    http = TestClient(viewer_app(path))
    assert http.get(f"{TRACES}/models").json() == ["a", "b"]
    assert [found["seed"] for found in http.get(BASE, params={"model": "b"}).json()] == ["1"]
    grid = http.get(f"{TRACES}/grid").json()
    assert (grid["by"], grid["columns"], grid["complete"]) == ("model", ["b", "a", None], True)
    assert [row["task"] for row in grid["rows"]] == [
        {"environment": "walk", "split": None, "index": None, "seed": "4"},
        {"environment": "walk", "split": "test", "index": "1", "seed": None},
        {"environment": "walk", "split": "test", "index": "0", "seed": None},
    ]
    means = [[cell and (cell["episodes"], cell["mean_reward"]) for cell in row["cells"]] for row in grid["rows"]]
    assert means == [[None, None, (1, 5.0)], [None, (2, 0.5), None], [(1, 3.0), (1, 1.0), None]]
    by_run = http.get(f"{TRACES}/grid", params={"by": "run", "index": "1"}).json()
    assert (by_run["columns"], [row["cells"][0]["max_reward"] for row in by_run["rows"]]) == ([1], [1.0])
    assert http.get(f"{TRACES}/grid", params={"by": "colour"}).status_code == 422


def test_entries_are_read_by_ranges(http: TestClient) -> None:
    long = ids(http, min_reward=1000)[0]
    found = http.get(f"{BASE}/{long}/entries", params={"start": 1199, "stop": 2000}).json()
    assert [entry["answer"]["observation"]["text"] for entry in found] == ["At 1199.\nGo on.", "At 1200.\nGo on."]
    assert len(http.get(f"{BASE}/{long}/entries", params={"stop": 1200}).json()) == 500
    assert http.get(f"{BASE}/{long}/entries", params={"start": 5000}).json() == []
    brief = http.get(f"{BASE}/{long}/entries", params={"start": 7, "stop": 8, "brief": True}).json()
    assert brief == [{"kind": "step", "request": {"move": "right"}, "reward": 1.0, "failed": False}]
    rewards = http.get(f"{BASE}/{long}/rewards").json()
    assert (len(rewards["rewards"]), rewards["rewards"][:2]) == (1201, [None, 1.0])
    assert rewards["components"] == {"pace": 600.0}


def test_an_episode_is_described_and_downloaded(http: TestClient) -> None:
    (name,) = ids(http, environment="run")
    described = http.get(f"{BASE}/{name}").json()
    assert described["episode"]["seed"] == "3"
    assert described["scores"] == described["conversations"] == []
    assert described["plays"] is False
    assert described["command"].startswith("openenv play ENVIRONMENT --from ")
    assert described["command"].endswith(f" --episode {name} --step")
    for to in ("messages", "atif", "json"):
        assert "A needle at 2." in http.get(f"{BASE}/{name}/export/{to}").text


def test_an_episode_is_played_on_where_its_environment_is(tmp_path: Path) -> None:
    file = tmp_path / "my traces.db"
    with new_file(file) as traces:
        for number, environment in enumerate(("catch_env", "catch", "walk")):
            traces.add(episode(number, 1, environment), entries(1))
    viewer = TestClient(viewer_app(file))
    described = [viewer.get(f"{BASE}/1-{number}").json() for number in (1, 2, 3)]
    named = [shlex.split(each["command"])[2:5] for each in described]
    assert named == [[name, "--from", str(file)] for name in ("catch", "catch", "ENVIRONMENT")]
    app = create_fastapi_app(CounterEnvironment, Add, Total, env_name="catch", traces=str(file))
    server = TestClient(app)
    described = [server.get(f"{BASE}/1-{number}").json() for number in (1, 2, 3)]
    assert [(each["plays"], each["command"]) for each in described] == [(True, None), (True, None), (False, None)]


def test_a_command_has_no_password(postgres: Any) -> None:
    address = postgres.new_database()
    with new_file(address) as traces:
        traces.add(episode(1, 1), entries(1))
    command = TestClient(viewer_app(address)).get(f"{BASE}/1-1").json()["command"]
    password = urlsplit(address).password
    assert "--from postgresql://" in command
    assert password is None or f":{password}@" not in command


def test_the_episodes_of_a_filter_are_downloaded_as_lines(http: TestClient) -> None:
    whole = http.get(f"{TRACES}/export/json", params={"max_reward": 10})
    assert whole.headers["content-type"] == "application/jsonl"
    assert [json.loads(line)["episode"]["id"] for line in whole.text.splitlines()] == ids(http, max_reward=10)
    (row,) = http.get(f"{TRACES}/export/messages", params={"environment": "run"}).text.splitlines()
    assert "A needle at 2." in row
    assert http.get(f"{TRACES}/export/json", params={"seed": "nothing"}).text == ""
    assert http.get(f"{TRACES}/export/pdf").status_code == 404
    assert http.get(f"{TRACES}/export/json", params={"colour": "red"}).status_code == 422


def test_what_models_learn_from_has_no_evaluations(tmp_path: Path) -> None:
    file = tmp_path / "traces.db"
    with new_file(file) as traces:
        traces.add(episode(1, 3), entries(3, "Rollout at {step}."))
        traces.add(replace(episode(2, 3), episode_id="evaluation-2"), entries(3, "Test at {step}."))
    http = TestClient(viewer_app(file))
    assert len(ids(http)) == 2
    (row,) = http.get(f"{TRACES}/export/messages").text.splitlines()
    assert "Rollout at 1." in row
    (row,) = http.get(f"{TRACES}/export/messages", params={"evaluation": True}).text.splitlines()
    assert "Test at 1." in row
    assert len(http.get(f"{TRACES}/export/json").text.splitlines()) == 2


def test_the_first_difference_is_found(http: TestClient) -> None:
    first, second = ids(http, environment="walk")
    assert http.get(f"{BASE}/{first}/difference/{first}").json() is None
    assert http.get(f"{BASE}/{first}/difference/{second}").json()["number"] == 2


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        (f"{BASE}/9-9", 404, "Expected the id of an episode"),
        (f"{BASE}/9-9/entries", 404, "Expected the id of an episode"),
        (f"{BASE}?after=9-9", 404, "Expected the id of an episode"),
        (f"{BASE}?before=9-9", 404, "Expected the id of an episode"),
        (f"{BASE}?before=1-1&after=1-1", 404, "Expected after or before, got both"),
        (f"{BASE}?limit=0", 422, "greater than or equal to 1"),
        (f"{BASE}?colour=red", 422, "colour"),
        (f"{BASE}?flag=red", 422, "no_variance"),
        (f"{TRACES}/count?order=best", 422, "order"),
        (f"{BASE}/1-1/export/pdf", 404, "Expected one of the formats messages, atif, json."),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(http: TestClient, path: str, status: int, said: str) -> None:
    answer = http.get(path)
    assert answer.status_code == status
    assert said in answer.json()["detail"]


def test_the_page_is_all_that_the_viewer_has_beside_it(http: TestClient) -> None:
    assert http.get("/", follow_redirects=False).headers["location"] == "/web/traces"
    assert http.get("/web/config").json() == {
        "name": None,
        "play": False,
        "tools": False,
        "live": False,
        "traces": True,
        "run": False,
        "custom": None,
        "results": False,
        "compare": [],
        "beside": False,
        "views": True,
    }
    assert http.get(BASE, headers={"X-Forwarded-For": "203.0.113.9"}).status_code == 401


def test_a_server_with_traces_shows_them_but_not_to_agents(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"traces": str(tmp_path / "traces.db"), "traces_sample": 1.0}
    with TestClient(create_fastapi_app(CounterEnvironment, Add, Total, **settings)) as http:
        assert http.get("/web/config").json()["traces"] is True
        assert [http.get(f"{TRACES}/{name}").json() for name in ("episodes", "environments", "count")] == [[], [], 0]
    with TestClient(create_fastapi_app(CounterEnvironment, Add, Total, mode="production", **settings)) as http:
        assert http.get("/web/config").json()["traces"] is False
        assert http.get(BASE).status_code == 404


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="Expected a file of traces"):
        viewer_app(tmp_path / "nothing.db")


def test_a_row_that_can_not_be_shown_spoils_no_list(tmp_path: Path) -> None:
    path = tmp_path / "traces.db"
    with new_file(path) as traces:
        for number in range(4):
            traces.add(episode(number, 3), entries(3), [Conversation(f"e{number}", model="tiny")])
    with connected(path) as connection:
        connection.execute("UPDATE episode SET started_at = 1e300 WHERE seed = '1'")
        connection.execute("UPDATE episode SET environment = x'ff' WHERE seed = '2'")
    http = TestClient(viewer_app(path))
    found = http.get(BASE).json()
    assert [(each["ending"], each["error"]) for each in found if each["ending"] != "done"] == [
        ("unreadable", "started_at: Input should be less than 253370764800"),
        ("unreadable", "environment: Input should be a valid string, unable to parse raw data as a unicode string"),
    ]
    for name in ("environments", "count", "grid", "export/json", "export/messages", "episodes/1-2", "episodes/1-3"):
        assert http.get(f"{TRACES}/{name}").status_code == 200


@pytest.mark.parametrize(
    "query",
    ["episodes?run=" + "9" * 30, "episodes/1-1/entries?start=" + "9" * 30, "grid?run=-1", "count?run=" + "9" * 30],
)
def test_a_number_that_no_table_holds_is_an_invalid_query(http: TestClient, query: str) -> None:
    assert http.get(f"{TRACES}/{query}").status_code == 422


@pytest.fixture
def labelled(tmp_path: Path) -> TestClient:
    with new_file(tmp_path / "traces.db") as traces:
        for number in (1, 2):
            traces.add(episode(number, 3), entries(3))
    # A browser of this machine, as far as the server can tell.
    return TestClient(viewer_app(tmp_path / "traces.db"), base_url="http://127.0.0.1", client=("127.0.0.1", 50_000))


def test_an_episode_is_given_a_label_and_a_note(labelled: TestClient) -> None:
    given = labelled.post(f"{BASE}/1-1/label", json={"label": " good ", "note": ""}).json()
    assert (given["label"], given["note"]) == ("good", None)
    assert ids(labelled, label="good") == ["1-1"]
    assert labelled.get(f"{TRACES}/labels").json() == ["good"]
    assert labelled.get(f"{TRACES}/export/messages", params={"label": "good"}).text.count("\n") == 1
    assert labelled.get(f"{BASE}/1-1").json()["episode"]["label"] == "good"
    labelled.post(f"{BASE}/1-1/label", json={"label": None, "note": None})
    assert ids(labelled, label="good") == []


def test_a_label_replaces_the_one_that_the_page_showed_and_no_other(labelled: TestClient) -> None:
    path = f"{BASE}/1-1/label"
    given = [
        labelled.post(path, json={"label": label, "note": note, "replaces": replaces}).json()
        for label, note, replaces in (
            ("good", "", ["", None]),
            ("bad", "late", ["", ""]),
            ("bad", "late", ["good", "another note"]),
            ("bad", "late", ["good", ""]),
            ("odd", "late", None),
        )
    ]
    assert [(each["label"], each["note"]) for each in given] == [
        ("good", None),
        ("good", None),
        ("good", None),
        ("bad", "late"),
        ("odd", "late"),
    ]


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("1-1", b"", 422),
        ("1-1", b'{"label": "good"}', 422),
        ("1-1", b'{"label": 1, "note": null}', 422),
        ("1-1", b'{"label": null, "note": null, "reward": 1}', 422),
        ("1-1", json.dumps({"label": "x" * 61, "note": None}).encode(), 422),
        ("1-1", b'{"label": "good", "note": null, "replaces": ["bad"]}', 422),
        ("1-1", json.dumps({"label": "good", "note": "x" * 10_001}).encode(), 422),
        ("1-1", b'{"label": "\\ud800", "note": null}', 422),
        ("1-1", json.dumps({"label": "good", "note": "x" * 200_000}).encode(), 413),
        ("9-9", b'{"label": "good", "note": null}', 404),
    ],
)
def test_a_label_that_is_none_is_refused(labelled: TestClient, name: str, body: bytes, status: int) -> None:
    assert labelled.post(f"{BASE}/{name}/label", content=body).status_code == status
    assert labelled.get(f"{TRACES}/labels").json() == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://elsewhere.test"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"X-Forwarded-For": "203.0.113.9"},
    ],
)
def test_a_page_of_another_site_and_another_machine_write_no_label(
    labelled: TestClient, headers: dict[str, str]
) -> None:
    form = {"Content-Type": "text/plain", **headers}
    refused = labelled.post(f"{BASE}/1-1/label", content=b'{"label": "good", "note": null}', headers=form)
    assert refused.status_code in (401, 403)
    assert labelled.get(f"{TRACES}/labels").json() == []


def test_a_label_of_an_episode_that_goes_on_stays(tmp_path: Path) -> None:
    path = tmp_path / "traces.db"
    with TestClient(create_fastapi_app(CounterEnvironment, Add, Total, traces=str(path))) as http:
        http.post("/reset", json={})
        eventually(lambda: path.exists() and ids(http) != [], "the episode is on record")
        (name,) = ids(http)
        assert http.post(f"{BASE}/{name}/label", json={"label": "odd", "note": None}).status_code == 200
        http.post("/step", json={"action": {"amount": 1}})
        eventually(lambda: http.get(f"{BASE}/{name}").json()["episode"]["steps"] == 1, "the step is on record")
        assert ids(http, label="odd") == [name]
