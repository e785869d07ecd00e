"""What a process of an environment's own is like from within."""

import logging
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.core.env_server.isolation.conftest import Player, ServeIsolated
from tests.support.environments.isolated import Isolated, LastingIsolated
from tests.support.servers import eventually

pytestmark = pytest.mark.timeout(180)


def test_its_output_is_the_server_s_and_its_input_is_empty(
    serve_isolated: ServeIsolated, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    server = serve_isolated()  # its processes inherit what is captured now
    player = Player(server)
    with caplog.at_level(logging.WARNING):
        assert player.do("say") == ""
        player.do("x")
    player.wire.close()
    server.stop()
    captured = capfd.readouterr()
    assert captured.out == "printed this\n"
    assert captured.err == "written this\n"
    assert [(record.name, record.levelname) for record in caplog.records if record.getMessage() == "logged this"] == [
        (Isolated.__module__, "WARNING")
    ]


def test_random_numbers_differ_between_processes(play: Callable[[], Player]) -> None:
    players = [play() for _ in range(4)]
    assert len({player.do("random") for player in players}) == 4


def test_it_is_a_process_of_its_own_and_leads_a_group(play: Callable[[], Player]) -> None:
    player = play()
    pid = player.do("pid")
    assert pid != os.getpid()
    assert os.getpgid(pid) == pid
    assert os.getsid(pid) != os.getsid(0)  # out of reach of Ctrl-C, which is the server's


def test_unused_modules_of_the_server_are_not_loaded(play: Callable[[], Player]) -> None:
    player = play()
    assert "fastapi" in sys.modules
    assert player.do("modules") == []


def test_an_environment_closes_after_its_step_under_way(serve_isolated: ServeIsolated) -> None:
    server = serve_isolated(LastingIsolated, sessions_per_process=2)
    other = Player(server)
    with server.http() as http, ThreadPoolExecutor(1) as thread:
        http.post("/reset")
        stepping = thread.submit(http.post, "/step", json={"action": {"what": "last"}})
        eventually(lambda: other.do("look") == ["begins"], "the step does not begin")
        assert http.delete("/session").status_code == 204
        assert other.do("look") == ["begins"]
        other.do("release")
        assert stepping.result().status_code == 200
    eventually(lambda: other.do("look") == ["begins", "ends", "close"], "the environment is not closed")
