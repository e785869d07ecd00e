"""Making a Space from another's."""

import pytest
from tests.support.services.hub_server import Fault, HubServer

from openenv.core.exceptions import HubError
from openenv.hub.client import Hub
from openenv.hub.forking import Fork, fork_space

FILES = {"openenv.yaml": b"name: go"}


def test_files_and_variables_go_along_secrets_do_not(hub: HubServer) -> None:
    hub.add("bob/go", FILES, variables={"A": "1", "B": "1"}, secrets={"KEY": "bobs"})
    fork = Fork("bob/go", "ada/mine", True, variables={"B": "2"}, secrets={"OWN": "hush"})
    assert fork_space(fork, Hub()) == f"{hub.url}/spaces/ada/mine"
    space = hub.space("ada/mine")
    assert (space.files, space.variables, space.secrets) == (FILES, {"A": "1", "B": "2"}, {"OWN": "hush"})
    assert (space.private, space.hardware) == (True, "cpu-basic")
    assert "hush" not in repr(fork)


def test_none_is_overwritten(hub: HubServer) -> None:
    hub.add("bob/go", FILES)
    hub.add("ada/mine", {})
    with pytest.raises(HubError, match="There is a Space ada/mine already; choose another name with --repo-id"):
        fork_space(Fork("bob/go", "ada/mine"), Hub())
    assert hub.space("ada/mine").files == {}


def test_one_without_an_answer_is_there_all_the_same(hub: HubServer, impatient: None) -> None:
    hub.add("bob/go", FILES)
    hub.faults.append(Fault("POST /api/spaces/bob/go/duplicate", None, done=True))
    assert fork_space(Fork("bob/go", "ada/mine"), Hub()) == f"{hub.url}/spaces/ada/mine"


def test_what_is_not_there_and_what_is_not_ones_own(hub: HubServer) -> None:
    with pytest.raises(HubError, match="fork bob/none to ada/mine: there is none of that name"):
        fork_space(Fork("bob/none", "ada/mine"), Hub())
    hub.add("bob/go", FILES)
    with pytest.raises(HubError, match=r"fork bob/go to eve/mine: your token may not.*403"):
        fork_space(Fork("bob/go", "eve/mine"), Hub())
