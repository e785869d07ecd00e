"""Writes a deployment to a folder: manifests for ``kubectl``, or a chart for Helm, and files for the autoscaler."""

from pathlib import Path

from openenv.core.exceptions import ConfigurationError
from openenv.core.providers.kubernetes.manifests import Manifest
from openenv.deploy.autoscaling import adapter_rules
from openenv.deploy.chart import write_chart
from openenv.deploy.manifests import manifests
from openenv.deploy.settings import Autoscaler, DeploymentSettings
from openenv.deploy.yaml_text import yaml_text

MANIFESTS = "manifests"
CHART = "chart"
ADAPTER_VALUES = "prometheus-adapter-values.yaml"
_PRIVATE = 0o700


def write_deployment(settings: DeploymentSettings, folder: Path, *, as_chart: bool = False) -> list[Path]:
    """Write a deployment.

    Args:
        settings: Settings of the deployment.
        folder: The folder; made if it is not there.
        as_chart: Whether to write a Helm chart, in ``chart``, instead of manifests, in ``manifests``. Only the user can
            read that folder where there is a token in it.

    Raises:
        ConfigurationError: The files are there already.
    """
    target = folder / (CHART if as_chart else MANIFESTS)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigurationError(f"Expected nothing at {target}, where the files are to be; remove it or go elsewhere.")
    target.mkdir(parents=True, exist_ok=True)
    if settings.token is not None:
        target.chmod(_PRIVATE)
    if as_chart:
        written = write_chart(settings, target)
    else:
        written = [_write(target / f"{name}.yaml", content) for name, content in manifests(settings).items()]
    if settings.autoscaler is Autoscaler.PROMETHEUS_ADAPTER:
        written.append(_write(folder / ADAPTER_VALUES, adapter_rules()))
    return written


def _write(path: Path, content: Manifest) -> Path:
    path.write_text(yaml_text(content), encoding="utf-8")
    return path
