"""Spaces as what a command serves or plays: their code runs only for those who say so."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.services.hub_server import HubServer

from openenv.cli.hub import local_target, space_of
from openenv.core.exceptions import ConfigurationError, HubError

FILES = {"openenv.yaml": b"name: go"}


@pytest.mark.parametrize("target", [".", "wordle", "./a", "/a/b", "a/b/c", "gymnasium:CartPole-v1", "localhost:8000"])
def test_what_is_no_space(target: str) -> None:
    assert space_of(target) is None
    assert local_target(target, trusted=False) == target


@pytest.mark.parametrize("command", ["serve", "play"])
def test_nothing_is_downloaded_for_those_who_do_not_say_so(openenv_here: Any, hub: HubServer, command: str) -> None:
    hub.add("eve/go", FILES)
    for target in ("eve/go", f"{hub.url}/spaces/eve/go"):
        ended = openenv_here(command, target)
        assert ended.returncode == 1
        assert "To run the code of the Space eve/go on this machine, say that you trust its author" in ended.stderr
    assert not hub.requests


def test_a_folder_is_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "eve" / "go").mkdir(parents=True)
    assert local_target("eve/go", trusted=False) == "eve/go"
    with pytest.raises(ConfigurationError, match="There is no folder eve/no here"):
        local_target("eve/no", trusted=False)


@pytest.mark.parametrize(("answer", "runs"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_a_person_is_asked(hub: HubServer, monkeypatch: pytest.MonkeyPatch, answer: str, runs: bool) -> None:
    hub.add("eve/go", FILES)
    monkeypatch.setattr("openenv.cli.hub.is_interactive", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda _text: answer == "y\n")
    if runs:
        assert (Path(local_target("eve/go", trusted=False)) / "openenv.yaml").read_bytes() == FILES["openenv.yaml"]
    else:
        with pytest.raises(ConfigurationError, match="--trust-remote-code"):
            local_target("eve/go", trusted=False)


def test_who_has_said_so_is_not_asked(hub: HubServer) -> None:
    hub.add("eve/go", FILES)
    assert Path(local_target(f"{hub.url}/spaces/eve/go", trusted=True)).name == "go"
    with pytest.raises(HubError, match="eve/none"):
        local_target("eve/none", trusted=True)
