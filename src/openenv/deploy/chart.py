"""Helm chart that renders the same objects as ``manifests.py`` writes, from values that can be changed."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from openenv._version import __version__
from openenv.core.providers.kubernetes.manifests import resources_of
from openenv.deploy.settings import Affinity, DeploymentSettings, Egress
from openenv.deploy.yaml_text import yaml_text


def write_chart(settings: DeploymentSettings, folder: Path) -> list[Path]:
    """Write the chart of a deployment into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    written = _copy(files("openenv.deploy") / "chart", folder)
    chart = {
        "apiVersion": "v2",
        "name": settings.name,
        "description": f"Servers of the environment {settings.name}.",
        "type": "application",
        "version": "0.1.0",
        "appVersion": __version__,
        "kubeVersion": ">=1.30.0-0",
    }
    for name, content in {"Chart.yaml": chart, "values.yaml": chart_values(settings)}.items():
        path = folder / name
        path.write_text(yaml_text(content), encoding="utf-8")
        written.append(path)
    return sorted(written)


def chart_values(settings: DeploymentSettings) -> dict[str, Any]:
    """Write the values of a chart, each of which its ``values.schema.json`` describes."""
    return {
        "image": settings.image,
        "imagePullSecrets": [],
        "replicas": settings.replicas,
        "maxSessions": settings.max_sessions,
        "env": dict(settings.env_vars),
        "resources": resources_of(settings.resources),
        "drainSeconds": settings.drain_s,
        "user": settings.user,
        "readOnlyRootFilesystem": settings.read_only_root,
        "secret": {
            "name": settings.secret_name,
            "env": list(settings.secret_env),
            "token": settings.token or "",
            "tokens": settings.tokens_secret_name if settings.tokens is not None else "",
        },
        "journal": settings.journal,
        "sessionAffinity": "ClientIP" if settings.affinity is Affinity.CLIENT_IP else "None",
        "network": {
            "egress": settings.egress is Egress.ALL,
            "allowedNamespaces": list(dict.fromkeys(settings.allowed_namespaces)),
        },
        "autoscaling": {
            "by": str(settings.autoscaler),
            "maxReplicas": settings.most_replicas,
            "sessionsPerReplica": settings.sessions_per_replica,
            "prometheusUrl": settings.prometheus_url,
            "monitoringNamespace": settings.monitoring_namespace,
        },
    }


def _copy(source: Traversable, target: Path) -> list[Path]:
    written = []
    for entry in source.iterdir():
        if entry.is_dir():
            (target / entry.name).mkdir(exist_ok=True)
            written += _copy(entry, target / entry.name)
        else:
            text = entry.read_text(encoding="utf-8")
            (target / entry.name).write_text(text, encoding="utf-8")
            written.append(target / entry.name)
    return written
