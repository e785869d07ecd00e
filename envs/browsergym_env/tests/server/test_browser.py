import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from browsergym_env import BrowserGymAction, BrowserGymObservation
from browsergym_env.player import Page
from browsergym_env.server import browser
from browsergym_env.server.browsergym_environment import BrowserGymEnvironment
from browsergym_env.server.settings import Settings, find_chromium
from openenv.core.exceptions import EnvironmentFailedError, EnvironmentTimeoutError, ResetNeededError

from ..conftest import AddPage, MakeEnvironment

pytestmark = pytest.mark.needs("browser")

CLICK = BrowserGymAction(action_str="mouse_click(50, 60)")
NOOP = BrowserGymAction(action_str="noop(0)")


def processes(kind: str) -> list[psutil.Process]:
    """Those of this process's browsers: ``browser``, ``driver`` or ``renderer``."""
    return [one for one in psutil.Process().children(recursive=True) if _kind(one) == kind]


def _kind(process: psutil.Process) -> str:
    try:
        command = process.cmdline()
    except psutil.NoSuchProcess:  # a zombie's, too
        return ""
    if command[1:2] and command[1].endswith("cli.js"):
        return "driver"
    types = [part for part in command if part.startswith("--type=")]
    if types:
        return types[0].removeprefix("--type=")
    return "browser" if any(part.startswith("--remote-debugging-pipe") for part in command) else ""


def kill(kind: str) -> None:
    killed = processes(kind)
    assert killed
    for process in killed:
        process.kill()
    psutil.wait_procs(killed, timeout=60)


def test_all_sessions_share_one_browser(make_environment: MakeEnvironment) -> None:
    for _ in range(3):
        make_environment().reset(seed=1)
    assert (len(processes("browser")), len(processes("driver"))) == (1, 1)


def test_what_a_session_has_goes_with_it(make_environment: MakeEnvironment) -> None:
    make_environment().reset(seed=1)
    before = len(processes("renderer"))
    for _ in range(5):
        environment = make_environment()
        environment.reset(seed=1)
        environment.close()
    # A closed page's process ends by itself, and Chromium keeps one spare; five sessions would show.
    _wait_until(lambda: len(processes("renderer")) <= before + 1)


def _wait_until(happened: Callable[[], bool]) -> None:
    ends = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < ends
        time.sleep(0.05)


@pytest.mark.parametrize("victim", ["renderer", "browser", "driver"])
def test_after_a_crash_a_step_fails_and_a_reset_works(make_environment: MakeEnvironment, victim: str) -> None:
    environments = [make_environment() for _ in range(2)]
    for environment in environments:
        environment.reset(seed=1)
    kill(victim)
    for environment in environments:
        with pytest.raises(EnvironmentFailedError, match=r"has failed\. A reset begins on a new one"):
            environment.step(NOOP)
        assert environment.render() is None
        with pytest.raises(ResetNeededError):
            environment.step(NOOP)
        assert environment.reset(seed=1).goal == 'Click on the "cancel" button.'
        assert environment.step(NOOP).error == ""
    gc.collect()  # what Playwright says of a driver that has gone is not for a later test


def test_a_browser_that_hangs_is_replaced_once(
    make_environment: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "_ANSWER_S", 3.0)
    monkeypatch.setattr(browser, "_STOP_S", 0.5)
    first, *others = [make_environment() for _ in range(4)]
    first.reset(seed=1)
    (hanging,) = processes("browser")
    hanging.suspend()
    with ThreadPoolExecutor(3) as threads:
        goals = list(threads.map(lambda one: one.reset(seed=1).goal, others))
    assert goals == ['Click on the "cancel" button.'] * 3
    for other in others:
        assert other.step(NOOP).error == ""
    _wait_until(lambda: not hanging.is_running() or hanging.status() == psutil.STATUS_ZOMBIE)
    assert len(processes("browser")) == 1


ENDLESS = "var genProblem = () => document.addEventListener('click', () => { while (true) {} });"


def test_a_page_that_hangs_ends_with_its_time_and_harms_no_other(
    own_pages: AddPage, make_environment: MakeEnvironment
) -> None:
    own_pages("endless", ENDLESS)
    other, hanging = make_environment(), make_environment(timeout_ms=2000)
    other.reset(seed=1)
    before = len(processes("renderer"))
    hanging.reset(task_name="endless")
    with _acting_beside(other) as steps:
        with pytest.raises(EnvironmentTimeoutError, match="did not answer within 2 s"):
            hanging.step(CLICK)
        assert len(steps) > 3
    assert all(step.error == "" for step in steps)
    with pytest.raises(ResetNeededError):
        hanging.step(NOOP)
    _wait_until(lambda: len(processes("renderer")) <= before + 1)  # nothing goes on computing
    assert hanging.reset(seed=1, task_name="endless").goal == "Do it."


@contextmanager
def _acting_beside(environment: BrowserGymEnvironment) -> Iterator[list[BrowserGymObservation]]:
    steps: list[BrowserGymObservation] = []
    over = threading.Event()

    def act() -> None:
        while not over.is_set():
            steps.append(environment.step(NOOP))

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield steps
    finally:
        over.set()
        thread.join(30)


def nosy(port: int) -> str:
    """A page that reaches for what it must not, and shows what came of it."""
    return f"""var genProblem = () => {{
      const area = document.getElementById('area');
      area.innerHTML = '<p id=got></p><iframe src="file:///etc/hostname"></iframe>' +
        '<iframe src="http://127.0.0.1:{port}/frame"></iframe><img id=img src="http://127.0.0.1:{port}/img">';
      const got = (what) => document.getElementById('got').textContent += ` ${{what}}`;
      for (const url of ['http://127.0.0.1:{port}/a', 'http://localhost:{port}/a', 'file:///etc/hostname'])
        fetch(url, {{ mode: 'no-cors' }}).then(() => got('answer'), () => got('refused'));
      const socket = new WebSocket('ws://127.0.0.1:{port}/');
      socket.onopen = () => got('answer');
      socket.onerror = () => got('refused');
      document.getElementById('img').onerror = () => got('refused');
      navigator.sendBeacon('http://127.0.0.1:{port}/beacon', 'x');
      window.open('http://127.0.0.1:{port}/popup');
    }};"""


def test_a_page_reaches_no_network_and_no_file(own_pages: AddPage, own_environment: BrowserGymEnvironment) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        own_pages("nosy", nosy(listener.getsockname()[1]))
        observation = own_environment.reset(task_name="nosy")
        while observation.pruned_html.count("refused") < 5:  # which comes in the browser's own time
            assert "answer" not in observation.pruned_html
            observation = own_environment.step(NOOP)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert Path("/etc/hostname").read_text().strip() not in observation.axtree_txt
    assert own_environment.step(CLICK).error == ""


def test_a_page_can_not_be_left(own_pages: AddPage, own_environment: BrowserGymEnvironment) -> None:
    own_pages(
        "leaving",
        """var genProblem = () => document.getElementById('area').innerHTML =
        '<form><button>Send</button></form><a href="#here">here</a>';""",
    )
    observation = own_environment.reset(task_name="leaving")
    assert 'href="#here"' in observation.pruned_html
    for name in ("button", "link"):
        bid = Page(observation.axtree_txt).all(name)[0].bid
        for _ in range(3):
            after = own_environment.step(BrowserGymAction.call("click", bid))
            assert (after.error, after.done, after.axtree_txt.count("button 'Send'")) == ("", False, 1)
    assert after.url == "file:///miniwob/miniwob/leaving.html#here"


PROGRAM = """
import sys
from browsergym_env.player import Page
from browsergym_env.server.browsergym_environment import BrowserGymEnvironment
environment = BrowserGymEnvironment()
environment.reset(seed=1)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("ending", [None, signal.SIGKILL])
@pytest.mark.usefixtures("_chromium")
def test_no_process_outlives_the_server(ending: signal.Signals | None) -> None:
    server = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert server.stdout is not None
    assert server.stdin is not None
    with server:
        assert server.stdout.readline() == b"ready\n"
        started = psutil.Process(server.pid).children(recursive=True)
        assert len(started) > 3
        if ending is not None:
            server.send_signal(ending)
        server.stdin.close()
        server.wait(30)
    _, alive = psutil.wait_procs(started, timeout=30)
    assert [one for one in alive if one.status() != psutil.STATUS_ZOMBIE] == []


def test_without_a_browser_it_is_said_what_to_do(make_environment: MakeEnvironment, tmp_path: Path) -> None:
    broken = tmp_path / "chromium"
    for said, told in [
        ("", "does not start; the server's log says why"),
        ("No usable sandbox!", "BROWSERGYM_SANDBOX=0"),
    ]:
        broken.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 3\n")
        broken.chmod(0o755)
        with pytest.raises(EnvironmentFailedError, match=told):
            make_environment(executable=str(broken)).reset(seed=1)
    with pytest.raises(ValueError, match="BROWSERGYM_EXECUTABLE is '/nowhere/chromium'"):
        make_environment(executable="/nowhere/chromium").reset(seed=1)


def test_the_browser_runs_without_its_sandbox_only_where_it_must(make_environment: MakeEnvironment) -> None:
    make_environment().reset(seed=1)
    unprotected = any("--no-sandbox" in process.cmdline() for process in processes("browser"))
    assert unprotected == (os.geteuid() == 0)
    assert find_chromium(None) is not None
    assert Settings().sandbox is None
