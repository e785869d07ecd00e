"""Whose a container is: this process, ended ones, and texts that name nobody."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.providers.docker.owner import Owner


def test_this_process_is_there_and_survives_being_written_down() -> None:
    owner = Owner.this_process()
    assert owner.pid == os.getpid()
    assert not owner.is_gone()
    assert Owner.parse(str(owner)) == owner


def test_a_process_that_ended_is_gone_even_before_its_parent_notices() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        stat = f"/proc/{process.pid}/stat"
        with open(stat) as file:  # noqa: PTH123
            started = file.read().rpartition(")")[2].split()[19]
        owner = replace(Owner.this_process(), pid=process.pid, started=started)
        assert not owner.is_gone()
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert owner.is_gone()
    assert owner.is_gone()


def test_another_process_with_its_number_is_not_it() -> None:
    assert replace(Owner.this_process(), started="1").is_gone()


def test_what_an_earlier_start_of_the_machine_left_is_nobodys() -> None:
    assert replace(Owner.this_process(), boot="earlier").is_gone()


def test_a_process_that_the_system_hides_is_not_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Owner.this_process()
    with subprocess.Popen(["true"]) as process:
        pass
    # As /proc is to others than root where it is mounted with hidepid=2.
    monkeypatch.setattr("openenv.core.providers.docker.owner._PROCESSES", tmp_path)
    assert not here.is_gone()
    assert replace(here, pid=process.pid).is_gone()


@pytest.mark.parametrize("elsewhere", [{"host": "another-machine"}, {"namespace": "pid:[1]"}])
def test_of_a_process_elsewhere_nothing_is_said(elsewhere: dict[str, str]) -> None:
    assert not replace(Owner.this_process(), started="1", **elsewhere).is_gone()  # type: ignore[arg-type]


@given(st.one_of(st.text(), st.lists(st.text(alphabet="0123456789/ab²", max_size=5)).map("/".join)))
def test_a_text_is_an_owner_or_none(text: str) -> None:
    owner = Owner.parse(text)
    assert owner is None or str(owner).count("/") == 4
