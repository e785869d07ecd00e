"""Objects of a deployment: servers, an address for them, and network policies."""

from openenv.core.providers.kubernetes.manifests import (
    CONTAINER_PORT,
    SCRATCH,
    Manifest,
    container_security,
    health_probe,
    plain_variables,
    pod_security,
    resources_of,
    scratch_mount,
    scratch_volume,
    secret_variable,
)
from openenv.core.wire.names import TOKEN_VARIABLE
from openenv.deploy.autoscaling import autoscaling_objects
from openenv.deploy.settings import PRE_STOP_S, TOKENS_VARIABLE, Affinity, Autoscaler, DeploymentSettings, Egress

TOKEN_KEY = "token"  # noqa: S105  # where in the Secret it is
JOURNAL_KEY = "journal"
TOKENS_KEY = "tokens.toml"
_TOKENS_FOLDER = "/etc/openenv/tokens"
_READABLE = 0o440
_AFFINITY_S = 3 * 3600
_POSTGRESQL_PORT = 5432


def manifests(settings: DeploymentSettings) -> dict[str, Manifest]:
    """Write the objects of a deployment, by the names of their files.

    Example:
        >>> sorted(manifests(DeploymentSettings(name="echo", image="echo:1")))
        ['deployment', 'disruption-budget', 'network-policy', 'service']
    """
    objects = {
        "deployment": _deployment(settings),
        "service": _service(settings),
        "disruption-budget": _disruption_budget(settings),
        "network-policy": _network_policy(settings),
        **autoscaling_objects(settings),
    }
    if settings.token is not None:
        objects["secret"] = _secret(settings, settings.token)
    return {file: _named(settings, written) for file, written in objects.items()}


def _named(settings: DeploymentSettings, written: Manifest) -> Manifest:
    labels = {**settings.selector, "app.kubernetes.io/managed-by": "openenv"}
    metadata = {"name": settings.name, "namespace": settings.namespace, "labels": labels, **written.get("metadata", {})}
    rest = {key: value for key, value in written.items() if key not in ("apiVersion", "kind", "metadata")}
    return {"apiVersion": written["apiVersion"], "kind": written["kind"], "metadata": metadata, **rest}


def _deployment(settings: DeploymentSettings) -> Manifest:
    spec: Manifest = {
        "selector": {"matchLabels": settings.selector},
        # No server goes before another one is ready: each of them holds sessions.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": {"metadata": {"labels": settings.selector}, "spec": _pod(settings)},
    }
    if settings.autoscaler is Autoscaler.NONE:  # an autoscaler's number would be undone by each `kubectl apply`
        spec = {"replicas": settings.replicas, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}


def _pod(settings: DeploymentSettings) -> Manifest:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": settings.selector},
    }
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": settings.grace_s,
        "securityContext": pod_security(settings.user),
        "topologySpreadConstraints": [spread],
        "containers": [_container(settings)],
        "volumes": [scratch_volume(), *_tokens_volume(settings)],
    }


def _container(settings: DeploymentSettings) -> Manifest:
    return {
        "name": "server",
        "image": settings.image,
        "ports": [{"name": "http", "containerPort": CONTAINER_PORT}],
        "env": _variables(settings),
        "resources": resources_of(settings.resources),
        "securityContext": container_security(settings.read_only_root),
        "volumeMounts": [scratch_mount(), *_tokens_mount(settings)],
        "startupProbe": health_probe("/health", periodSeconds=2, timeoutSeconds=2, failureThreshold=150),
        "livenessProbe": health_probe("/health", periodSeconds=10, timeoutSeconds=5, failureThreshold=6),
        "readinessProbe": health_probe("/ready", periodSeconds=5, timeoutSeconds=2, failureThreshold=2),
        "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_S}}},
    }


def _variables(settings: DeploymentSettings) -> list[Manifest]:
    variables = {"PORT": str(CONTAINER_PORT), "HOME": SCRATCH, "OPENENV_DRAIN_S": str(settings.drain_s)}
    if settings.max_sessions is not None:
        variables["MAX_CONCURRENT_ENVS"] = str(settings.max_sessions)
    env = plain_variables({**variables, **dict(sorted(settings.env_vars.items()))})
    env.append(secret_variable(TOKEN_VARIABLE, settings.secret_name, TOKEN_KEY))
    if settings.tokens is not None:
        env += plain_variables({TOKENS_VARIABLE: f"{_TOKENS_FOLDER}/{TOKENS_KEY}"})
    env += [secret_variable(name, settings.secret_name, name) for name in settings.secret_env]
    if settings.journal:
        env.append(secret_variable("OPENENV_JOURNAL", settings.secret_name, JOURNAL_KEY))
    return env


def _tokens_volume(settings: DeploymentSettings) -> list[Manifest]:
    if settings.tokens is None:
        return []
    return [{"name": "tokens", "secret": {"secretName": settings.tokens_secret_name, "defaultMode": _READABLE}}]


def _tokens_mount(settings: DeploymentSettings) -> list[Manifest]:
    """Write the mount of the Secret: a folder, since a single file of a Secret would never change."""
    if settings.tokens is None:
        return []
    return [{"name": "tokens", "mountPath": _TOKENS_FOLDER, "readOnly": True}]


def _service(settings: DeploymentSettings) -> Manifest:
    spec: Manifest = {
        "selector": settings.selector,
        "ports": [{"name": "http", "port": CONTAINER_PORT, "targetPort": "http"}],
    }
    if settings.affinity is Affinity.CLIENT_IP:
        affinity = {"clientIP": {"timeoutSeconds": _AFFINITY_S}}
        spec |= {"sessionAffinity": "ClientIP", "sessionAffinityConfig": affinity}
    return {"apiVersion": "v1", "kind": "Service", "spec": spec}


def _disruption_budget(settings: DeploymentSettings) -> Manifest:
    spec = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": settings.selector},
    }
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": spec}


def _network_policy(settings: DeploymentSettings) -> Manifest:
    namespaces = list(settings.allowed_namespaces)
    if settings.autoscaler is not Autoscaler.NONE:
        namespaces.append(settings.monitoring_namespace)
    peers: list[Manifest] = [{"podSelector": {}}, *map(_namespace, dict.fromkeys(namespaces))]
    spec: Manifest = {
        "podSelector": {"matchLabels": settings.selector},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": peers, "ports": [{"protocol": "TCP", "port": "http"}]}],
    }
    if settings.egress is Egress.NONE:
        spec |= {"policyTypes": ["Ingress", "Egress"], "egress": _to_journal() if settings.journal else []}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": spec}


def _namespace(name: str) -> Manifest:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}


def _to_journal() -> list[Manifest]:
    names = [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]
    return [
        {"to": [_namespace("kube-system")], "ports": names},
        {"ports": [{"protocol": "TCP", "port": _POSTGRESQL_PORT}]},
    ]


def _secret(settings: DeploymentSettings, token: str) -> Manifest:
    named = {"name": settings.secret_name}
    values = {TOKEN_KEY: token}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": named, "type": "Opaque", "stringData": values}
