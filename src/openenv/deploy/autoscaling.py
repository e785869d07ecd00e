"""Objects that add servers when their sessions get many, and remove them slowly: each removal ends sessions."""

from openenv.core.providers.kubernetes.manifests import Manifest
from openenv.deploy.settings import Autoscaler, DeploymentSettings

METRIC = "openenv_sessions"
"""Open sessions, as servers count them; see docs/operations.md."""
_SCRAPE = "15s"
_POLL_S = 15
_STABLE_S = 600


def autoscaling_objects(settings: DeploymentSettings) -> dict[str, Manifest]:
    """Write the objects that scale a deployment by its sessions, by the names of the files."""
    match settings.autoscaler:
        case Autoscaler.NONE:
            return {}
        case Autoscaler.PROMETHEUS_ADAPTER:
            return {"autoscaler": _horizontal_pod_autoscaler(settings), "pod-monitor": _pod_monitor(settings)}
        case Autoscaler.KEDA:
            return {"autoscaler": _scaled_object(settings), "pod-monitor": _pod_monitor(settings)}


def adapter_rules() -> Manifest:
    """Write the values of the Prometheus adapter's chart by which it knows sessions.

    They are the same for every deployment; servers have several series, one for each worker and phase.
    """
    rule = {
        "seriesQuery": f'{METRIC}{{namespace!="",pod!=""}}',
        "resources": {"overrides": {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}}},
        "name": {"as": METRIC},
        "metricsQuery": "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
    }
    return {"rules": {"custom": [rule]}}


def _horizontal_pod_autoscaler(settings: DeploymentSettings) -> Manifest:
    target = {"type": "AverageValue", "averageValue": str(settings.sessions_per_replica)}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": settings.name},
        "minReplicas": settings.replicas,
        "maxReplicas": settings.most_replicas,
        "metrics": [{"type": "Pods", "pods": {"metric": {"name": METRIC}, "target": target}}],
        "behavior": _behavior(),
    }
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": spec}


def _scaled_object(settings: DeploymentSettings) -> Manifest:
    pods = f"{settings.name}-[a-z0-9]+-[a-z0-9]+"  # not those of a deployment whose name only begins so
    query = f'sum({METRIC}{{namespace="{settings.namespace}",pod=~"{pods}"}})'
    metadata = {
        "serverAddress": settings.prometheus_url,
        "query": query,
        "threshold": str(settings.sessions_per_replica),
    }
    spec = {
        "scaleTargetRef": {"name": settings.name},
        "minReplicaCount": settings.replicas,
        "maxReplicaCount": settings.most_replicas,
        "pollingInterval": _POLL_S,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _behavior()}},
        "triggers": [{"type": "prometheus", "metricType": "AverageValue", "metadata": metadata}],
    }
    return {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "spec": spec}


def _behavior() -> Manifest:
    double = {"type": "Percent", "value": 100, "periodSeconds": 30}
    one = {"type": "Pods", "value": 1, "periodSeconds": 120}
    return {
        "scaleUp": {"stabilizationWindowSeconds": 0, "policies": [double]},
        "scaleDown": {"stabilizationWindowSeconds": _STABLE_S, "policies": [one]},
    }


def _pod_monitor(settings: DeploymentSettings) -> Manifest:
    """Write the object by which Prometheus' operator finds the metrics, with the token for them."""
    endpoint = {
        "port": "http",
        "path": "/metrics",
        "interval": _SCRAPE,
        "authorization": {"type": "Bearer", "credentials": {"name": settings.secret_name, "key": "token"}},
    }
    spec = {"selector": {"matchLabels": settings.selector}, "podMetricsEndpoints": [endpoint]}
    return {"apiVersion": "monitoring.coreos.com/v1", "kind": "PodMonitor", "spec": spec}
