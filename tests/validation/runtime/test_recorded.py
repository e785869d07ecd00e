"""Episodes on record: read from an environment's tests, and sent once more to its server."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer

from openenv.core.env_server.app import create_app
from openenv.validation.conformance.server import Server
from openenv.validation.runtime.recorded import RECORD, first_unlike, read_recorded


def write(folder: Path, content: object) -> Path:
    (folder / "tests").mkdir()
    (folder / RECORD).write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize("content", [{}, [[1]], [["reset", "{}"]], "text"])
def test_another_files_content_is_no_record(tmp_path: Path, content: object) -> None:
    assert read_recorded(write(tmp_path, content)) is None


def test_a_folder_without_the_file_has_none(tmp_path: Path) -> None:
    assert read_recorded(tmp_path) is None


@pytest.mark.parametrize("auth", ["none", "always"])
def test_answers_are_compared_with_the_record(tmp_path: Path, auth: Any) -> None:
    with RunningServer(create_app(CounterEnvironment, Add, Total, auth=auth, token="sesame")) as running:
        server = Server(running.url, 60.0, "sesame")
        request = {"type": "reset", "data": {"seed": 1, "episode_id": "0"}}
        with server.socket() as socket:
            answer = json.dumps(socket.exchange(request))
        recorded = read_recorded(write(tmp_path, [[[request, answer]]]))
        assert recorded is not None
        assert first_unlike(server, recorded) is None
        other = answer.replace("false", "true")
        assert other != answer
        found = first_unlike(server, [[(request, other)]])
        assert found is not None
        assert found.startswith("episode 0, request 0: data.done: true and false")
