"""The sandbox and the browser, which are started."""

from pathlib import Path

import pytest

from openenv.core.sandbox.cgroup import VARIABLE
from openenv.doctor import confinement
from openenv.doctor.finding import Status


@pytest.mark.needs("sandbox")
def test_code_runs_in_the_sandbox() -> None:
    found = confinement.sandbox()
    assert found.status is Status.READY, found.detail


@pytest.mark.needs("sandbox")
def test_a_group_that_can_t_be_used_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none"))
    found = confinement.sandbox()
    assert (found.status, found.remedy) == (Status.MISSING, f"unset {VARIABLE}")


def test_without_bubblewrap_it_says_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = confinement.sandbox()
    assert found.status is Status.MISSING
    assert "apt-get install bubblewrap" in found.remedy


class TestBrowser:
    @pytest.mark.parametrize(
        ("script", "status"),
        [
            ("echo '<html><body><p>it works</p></body></html>'", Status.READY),
            ("echo 'No usable sandbox!' >&2; exit 1", Status.MISSING),
            ("exec /bin/sleep 60", Status.UNSURE),
        ],
    )
    def test_it_is_asked_to_show_a_page(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, status: Status
    ) -> None:
        (tmp_path / "chromium").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "chromium").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        found = confinement.browser()
        assert found.status is status

    def test_there_is_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        found = confinement.browser()
        assert (found.status, "install chromium" in found.remedy) == (Status.MISSING, True)
