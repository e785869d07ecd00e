"""The start of a built image: what is said where Docker's SDK is missing. ``test_build.py`` has real ones."""

import pytest

from openenv.auto.manifest import Manifest
from openenv.cli.views.image_start import start_image
from openenv.core.providers.base import unavailable
from openenv.core.providers.docker.labels import ImageLabels
from openenv.images.builder import BuiltImage


def test_without_docker_s_sdk_it_warns_that_nothing_was_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = unavailable("LocalDockerProvider", ImportError("Install the SDK."))
    monkeypatch.setattr("openenv.core.providers.LocalDockerProvider", missing, raising=False)
    image = BuiltImage("my-env", "sha256:0", 1, None, ImageLabels())
    start_image(image, Manifest(name="my_env"), left_out_by="--no-start", timeout_s=5)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "Starting my-env; it has 5 s to be healthy (--no-start leaves this out).",
        "Warning: my-env was not started, so it may not work. Install the SDK.",
    ]
