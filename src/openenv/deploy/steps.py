"""Commands to type once a deployment is written."""

import shlex
from pathlib import Path

from openenv.deploy.files import ADAPTER_VALUES, CHART, MANIFESTS
from openenv.deploy.manifests import TOKENS_KEY
from openenv.deploy.settings import Autoscaler, DeploymentSettings


def next_steps(settings: DeploymentSettings, folder: Path, *, as_chart: bool = False) -> str:
    """Return the commands that install a deployment in a cluster, and its address then."""
    steps = [
        ("Make its Secret, once", [] if settings.token else _make_secret(settings)),
        ("Make the Secret of the named tokens, and again when they change", _make_tokens_secret(settings)),
        ("Deploy it", _deploy(settings, folder, as_chart)),
        ("Use it from this machine", _use(settings)),
    ]
    parts = ["\n".join([f"{title}:", *(f"  {line}" for line in lines)]) for title, lines in steps if lines]
    return "\n\n".join([*parts, _within(settings), *_needs(settings, folder)])


def _make_secret(settings: DeploymentSettings) -> list[str]:
    values = ['--from-literal=token="$(openssl rand -hex 24)"']
    values += [f'--from-literal={name}="${name}"' for name in settings.secret_env]
    if settings.journal:
        values.append('--from-literal=journal="postgresql://USER:PASSWORD@HOST/DATABASE"')
    first = f"kubectl create secret generic {settings.secret_name} --namespace {settings.namespace} \\"
    return [first, *(f"  {value} \\" for value in values[:-1]), f"  {values[-1]}"]


def _make_tokens_secret(settings: DeploymentSettings) -> list[str]:
    if settings.tokens is None:
        return []
    return [
        f"kubectl create secret generic {settings.tokens_secret_name} --namespace {settings.namespace} \\",
        f"  --from-file={TOKENS_KEY}={shlex.quote(settings.tokens)} \\",
        "  --dry-run=client --output yaml | kubectl apply --filename -",
    ]


def _deploy(settings: DeploymentSettings, folder: Path, as_chart: bool) -> list[str]:
    if as_chart:
        start = f"helm upgrade --install {settings.name} {_quoted(folder / CHART)} --namespace {settings.namespace}"
    else:
        start = f"kubectl apply --filename {_quoted(folder / MANIFESTS)}"
    return [start, f"kubectl rollout status deployment/{settings.name} --namespace {settings.namespace}"]


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _use(settings: DeploymentSettings) -> list[str]:
    where = f"--namespace {settings.namespace}"
    secret = f"kubectl get secret {settings.secret_name} {where} --output jsonpath='{{.data.token}}'"
    return [
        f"kubectl port-forward service/{settings.name} 8000 {where} &",
        f'export OPENENV_TOKEN="$({secret} | base64 --decode)"',
        "openenv play http://localhost:8000",
    ]


def _within(settings: DeploymentSettings) -> str:
    return (
        f"Within the cluster, its address is http://{settings.name}.{settings.namespace}.svc:8000. Pods of the "
        "namespace may connect to it, if they have the token."
    )


def _needs(settings: DeploymentSettings, folder: Path) -> list[str]:
    match settings.autoscaler:
        case Autoscaler.NONE:
            return []
        case Autoscaler.PROMETHEUS_ADAPTER:
            return [
                "The autoscaler needs the Prometheus operator, and the Prometheus adapter, whose chart takes "
                f"{folder / ADAPTER_VALUES} as its values."
            ]
        case Autoscaler.KEDA:
            return [f"The autoscaler needs KEDA, the Prometheus operator, and Prometheus at {settings.prometheus_url}."]
