"""What scales a deployment: valid for those who read it, and true of what servers count."""

import json
import subprocess
from typing import Any

import promql_parser
import pytest
from tests.support.services.kubernetes_tools import check_schema
from tests.support.services.npm_packages import NODE, NpmProgram

from openenv.deploy.autoscaling import METRIC, adapter_rules
from openenv.deploy.manifests import manifests
from openenv.deploy.settings import Autoscaler, DeploymentSettings

MODELS = {
    "ScaledObject": (NpmProgram("@kubernetes-models/keda", "2.0.0", "kubernetes-models-keda"), "keda.sh/v1alpha1"),
    "PodMonitor": (
        NpmProgram("@kubernetes-models/prometheus-operator", "6.0.0", "kubernetes-models-prometheus-operator"),
        "monitoring.coreos.com/v1",
    ),
}
"""The schemas of those who define these kinds, as programs that check them."""
CHECK = """
import(process.argv[1]).then((models) => {
  let text = "";
  process.stdin.on("data", (chunk) => text += chunk).on("end", () => {
    const Model = models[process.argv[2]] ?? models.default[process.argv[2]];
    new Model(JSON.parse(text)).validate();
  });
});
"""


def scaled(autoscaler: Autoscaler, **choice: Any) -> DeploymentSettings:
    return DeploymentSettings("echo", "echo:1", namespace="rl", max_sessions=64, autoscaler=autoscaler, **choice)


def check(written: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    package, group = MODELS[written["kind"]]
    package.install()
    entry = package.folder / "node_modules" / package.package / group / f"{written['kind']}.js"
    command = [str(NODE / "node"), "-e", CHECK, str(entry), written["kind"]]
    return subprocess.run(command, input=json.dumps(written), capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("autoscaler", [Autoscaler.KEDA, Autoscaler.PROMETHEUS_ADAPTER])
def test_objects_of_others_fit_their_schemas(autoscaler: Autoscaler) -> None:
    written = [entry for entry in manifests(scaled(autoscaler)).values() if entry["kind"] in MODELS]
    assert written
    for entry in written:
        finished = check(entry)
        assert finished.returncode == 0, finished.stderr


def test_the_check_of_others_objects_finds_what_is_wrong() -> None:
    written = manifests(scaled(Autoscaler.KEDA))["autoscaler"]
    del written["spec"]["triggers"][0]["metadata"]
    assert check(written).returncode != 0
    written = manifests(scaled(Autoscaler.KEDA))["pod-monitor"]
    written["spec"]["podMetricsEndpoints"][0]["interval"] = 15
    assert check(written).returncode != 0


def test_the_horizontal_autoscaler_counts_sessions_of_each_pod() -> None:
    written = manifests(scaled(Autoscaler.PROMETHEUS_ADAPTER, replicas=2, max_replicas=9))["autoscaler"]
    check_schema(written)
    spec = written["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 9)
    (metric,) = spec["metrics"]
    assert metric["pods"]["metric"]["name"] == METRIC == "openenv_sessions"
    assert metric["pods"]["target"] == {"type": "AverageValue", "averageValue": "44"}
    assert spec["behavior"]["scaleDown"]["stabilizationWindowSeconds"] >= 600


def test_the_adapters_rule_gives_the_metric_that_the_autoscaler_asks_for() -> None:
    (rule,) = adapter_rules()["rules"]["custom"]
    assert rule["name"]["as"] == METRIC
    selector = promql_parser.parse(rule["seriesQuery"])
    assert isinstance(selector, promql_parser.VectorSelector)
    assert selector.name == METRIC
    # What the adapter makes of it for one pod.
    query = rule["metricsQuery"].replace("<<.Series>>", METRIC)
    query = query.replace("<<.LabelMatchers>>", 'namespace="rl",pod="echo-1"').replace("<<.GroupBy>>", "pod")
    assert isinstance(promql_parser.parse(query), promql_parser.AggregateExpr)


def test_keda_sums_the_sessions_of_this_deployment_alone() -> None:
    trigger = manifests(scaled(Autoscaler.KEDA))["autoscaler"]["spec"]["triggers"][0]
    assert trigger["metadata"]["threshold"] == "44"
    query = promql_parser.parse(trigger["metadata"]["query"])
    assert isinstance(query, promql_parser.AggregateExpr)
    selector = query.expr
    assert isinstance(selector, promql_parser.VectorSelector)
    assert selector.name == METRIC
    matchers = {matcher.name: matcher.value for matcher in selector.matchers.matchers}
    assert matchers == {"namespace": "rl", "pod": "echo-[a-z0-9]+-[a-z0-9]+"}


def test_metrics_are_fetched_with_the_token() -> None:
    written = manifests(scaled(Autoscaler.KEDA, secret="keys"))["pod-monitor"]
    (endpoint,) = written["spec"]["podMetricsEndpoints"]
    assert endpoint["authorization"]["credentials"] == {"name": "keys", "key": "token"}
