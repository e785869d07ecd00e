"""``openenv fork``: a Space of one's own from another's."""

from typing import Any

import pytest
from tests.support.services.hub_server import HubServer

FILES = {"openenv.yaml": b"name: go"}


def test_a_fork_with_settings_of_its_own(openenv_here: Any, hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "hush")
    hub.add("bob/go", FILES, variables={"A": "1"})
    settings = ("-e", "B=2", "-s", "KEY", "--secret", "C=hush", "-H", "t4-small", "--private")
    ended = openenv_here("fork", "bob/go", "-r", "club/mine", *settings)
    assert (ended.returncode, ended.stderr) == (0, "")
    space = hub.space("club/mine")
    assert (space.files, space.private, space.hardware) == (FILES, True, "t4-small")
    assert (space.variables, space.secrets) == ({"A": "1", "B": "2"}, {"KEY": "hush", "C": "hush"})
    assert f"Forked bob/go: {hub.url}/spaces/club/mine" in ended.stdout
    assert "hush" not in ended.stdout


def test_it_is_yours_and_named_as_its_source(openenv_here: Any, hub: HubServer) -> None:
    hub.add("bob/go", FILES)
    assert openenv_here("fork", "bob/go").returncode == 0
    assert (hub.space("ada/go").hardware, hub.space("ada/go").private) == ("cpu-basic", False)
    again = openenv_here("fork", "bob/go")
    assert again.returncode == 1
    assert "There is a Space ada/go already" in again.stderr


@pytest.mark.parametrize(
    "arguments",
    [["go"], ["a/b/c"], ["bob/go", "-r", "../x"], ["https://huggingface.co/datasets/a/b"], ["bob/go", "-e", "A"]],
)
def test_what_makes_no_sense(openenv_here: Any, arguments: list[str]) -> None:
    assert openenv_here("fork", *arguments).returncode == 2
