"""Spaces as what a command serves or plays: their code runs only for users who say so."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.services.hub_server import HubServer

from openenv.auto.discovery import located
from openenv.auto.target import Target
from openenv.core.exceptions import EnvironmentNotFoundError, HubError

FILES = {"openenv.yaml": b"name: go"}


@pytest.mark.parametrize("command", ["serve", "play", "info", "eval", "train"])
def test_nothing_is_downloaded_for_users_who_do_not_say_so(openenv_here: Any, hub: HubServer, command: str) -> None:
    hub.add("eve/go", FILES)
    for target in ("eve/go", f"{hub.url}/spaces/eve/go"):
        ended = openenv_here(command, target)
        assert ended.returncode == 2
        assert "To run the code of the Space eve/go on this machine, declare that you trust its author" in ended.stderr
    assert not hub.requests


def test_a_folder_is_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "eve" / "go").mkdir(parents=True)
    assert located(Target.of("eve/go")).text == "eve/go"
    with pytest.raises(EnvironmentNotFoundError, match="There is no folder eve/no here"):
        located(Target.of("eve/no"))


class Terminal(io.StringIO):
    """A terminal at which an answer is typed."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "runs"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_a_person_is_asked(hub: HubServer, monkeypatch: pytest.MonkeyPatch, answer: str, runs: bool) -> None:
    hub.add("eve/go", FILES)
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", said := Terminal())
    if runs:
        folder = Path(located(Target.of("eve/go")).text)
        assert (folder / "openenv.yaml").read_bytes() == FILES["openenv.yaml"]
    else:
        with pytest.raises(EnvironmentNotFoundError, match="--trust-remote-code"):
            located(Target.of("eve/go"))
    assert "runs code from eve/go. Do you trust it?" in said.getvalue()


@pytest.mark.usefixtures("impatient")
def test_who_has_said_so_is_not_asked(hub: HubServer) -> None:
    hub.add("eve/go", FILES)
    assert Path(located(Target.of(f"{hub.url}/spaces/eve/go"), trusted=True).text).name == "go"
    with pytest.raises(HubError, match="eve/none"):
        located(Target.of("eve/none"), trusted=True)
