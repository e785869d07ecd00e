"""One HTML file of what the page shows: complete, bounded, and without any script but the page's."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.episode_folders import write_evaluation
from tests.support.trace_files import entries, episode, new_file

from openenv.core.env_server.app import create_app
from openenv.core.exceptions import ConfigurationError
from openenv.viewer import Source, save_page, viewer_app

HOSTILE = "</script><script>window.hacked = 1</script><!-- <script>"
EPISODE = "web/traces/episodes/1-1"


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """A file of two episodes, of 30 steps and of 3."""
    path = tmp_path / "traces.db"
    with new_file(path) as file:
        file.add(episode(1, 30), entries(30, HOSTILE))
        file.add(replace(episode(2, 3), environment=HOSTILE), entries(3, HOSTILE, turn_at=2))
    return path


def saved_in(page: bytes) -> Any:
    """What a file shows."""
    found = re.search(rb'<script type="application/json" id="saved">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_a_file_is_complete_and_allows_no_script_but_its_own(traces: Path) -> None:
    page = save_page([Source.at(str(traces))]).decode()
    markup = re.sub(r"<(style|script)[ >].*?</\1>", "", page, flags=re.DOTALL)
    assert re.findall(r"(?:href|src)=[^ >]+", markup) == ['href="data:,"']
    own = re.findall(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in own]
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    assert policy is not None
    assert f"default-src 'none'; script-src 'sha256-{hashes[0]}'; " in policy[1]
    assert page.index(policy[0]) < page.index("<style>") < page.index("<script")
    assert page.count("<script") == page.count("</script>") == 2
    assert "window.hacked" in page


def test_a_file_has_what_the_routes_answered(traces: Path) -> None:
    shown = saved_in(save_page([Source.at(str(traces))]))
    answers = shown["answers"]
    http = TestClient(viewer_app(traces))
    for path in (f"{EPISODE}/rewards", f"{EPISODE}/entries?brief=true"):
        assert answers[path] == http.get(f"/{path}").json()
    fact = http.get(f"/{EPISODE}").json()
    assert answers[EPISODE] == {name: fact[name] for name in ("episode", "scores", "conversations")}
    assert str(traces) not in json.dumps(shown)
    assert answers["web/traces/episodes?*"] == http.get("/web/traces/episodes").json()
    whole = [{**each, "answer": {**each["answer"], "view": None}} for each in http.get(f"/{EPISODE}/entries").json()]
    viewed = [{**each, "answer": {**each["answer"], "view": None}} for each in answers[f"{EPISODE}/entries"]]
    assert viewed == whole
    assert (shown["start"], shown["left_out"]) == ("/web/traces", [])


def test_a_file_of_episodes_has_these_alone(traces: Path) -> None:
    shown = saved_in(save_page([Source.at(str(traces))], ["1-2"]))
    assert shown["start"] == "/web/traces?episode=1-2"
    assert [each["id"] for each in shown["answers"]["web/traces/episodes?*"]] == ["1-2"]
    both = saved_in(save_page([Source.at(str(traces))], ["1-2", "1-1"]))
    assert both["answers"]["web/traces/episodes/1-2/difference/1-1"] is not None


def test_a_file_says_what_it_has_no_room_for(traces: Path) -> None:
    source = [Source.at(str(traces))]
    whole = save_page(source)
    empty = len(whole) - len(json.dumps(saved_in(whole)["answers"]))
    small = save_page(source, ["1-1"], 8_000)
    assert len(small) < empty + 12_000
    shown = saved_in(small)
    steps = shown["answers"][f"{EPISODE}/entries"]
    lacking = sum(step is None for step in steps)
    assert 0 < lacking < len(steps) == 31
    assert shown["left_out"] == [f"{lacking} steps of episodes"]
    assert saved_in(save_page(source, max_bytes=3_000))["left_out"][0] == "1 episodes"


def test_what_there_is_not_is_refused(traces: Path) -> None:
    source = [Source.at(str(traces))]
    with pytest.raises(ConfigurationError, match=r"Expected the id of an episode in .*, got '9-9'\."):
        save_page(source, ["9-9"])
    with pytest.raises(ConfigurationError, match=r"Expected up to 4 episodes beside each other, got 5\."):
        save_page(source, ["1-1"] * 5)
    with pytest.raises(ConfigurationError, match=r"too small for 1-1\. Allow more with --max-size-mb\."):
        save_page(source, ["1-1"], 100)


def test_an_evaluation_and_a_comparison_have_their_tasks_and_episodes(tmp_path: Path) -> None:
    folders = [write_evaluation(tmp_path / name, {1: [reward], 2: [0.5]}) for name, reward in (("a", 0.0), ("b", 1.0))]
    one = saved_in(save_page([Source.at(str(folders[0]))]))
    assert one["start"] == "/web/results"
    assert len(one["answers"]["web/results/tasks?order=best"]["rows"]) == 2
    assert one["answers"]["web/results/extremes?task=1"]["best"]["trace"] == "1-2"
    assert f"{EPISODE}/entries" in one["answers"]
    both = saved_in(save_page(Source.all_at([str(folder) for folder in folders])))["answers"]
    assert both["web/compare/tasks"]["rows"][0]["ids"] == ["1:1-1", "2:1-1"]
    assert {f"{number}/{EPISODE}/entries" for number in (1, 2)} <= both.keys()
    assert both["web/compare/difference/1%3A1-1/2%3A1-1"] == {"number": 2, "parts": ["request"]}
    assert both["2/web/config"]["results"]


def test_the_page_has_the_file_of_what_it_shows(traces: Path) -> None:
    http = TestClient(viewer_app(traces))
    answer = http.get("/web/html", params={"page": "traces?episode=1-2"})
    assert answer.headers["content-disposition"] == 'attachment; filename="openenv.html"'
    assert saved_in(answer.content)["start"] == "/web/traces?episode=1-2"
    listed = http.get("/web/html", params={"page": "traces?environment=walk&order=oldest"})
    assert [each["id"] for each in saved_in(listed.content)["answers"]["web/traces/episodes?*"]] == ["1-1"]
    refused = http.get("/web/html", params={"page": "run"})
    assert (refused.status_code, refused.json()["detail"]) == (
        404,
        "Expected a page that is shown here (traces), got 'run'.",
    )
    assert http.get("/web/html").status_code == 422


def test_a_server_of_an_environment_has_the_file_of_its_traces(traces: Path) -> None:
    http = TestClient(create_app(CounterEnvironment, Add, Total, traces=str(traces)))
    shown = saved_in(http.get("/web/html", params={"page": "traces?episode=1-1"}).content)
    assert (shown["answers"]["web/config"]["name"], shown["answers"]["web/config"]["play"]) == (None, False)
    assert len(shown["answers"][f"{EPISODE}/entries"]) == 31
