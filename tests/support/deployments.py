"""Settings of deployments, in all their variety."""

from hypothesis import strategies as st

from openenv.core.providers.resources import Resources
from openenv.deploy.settings import Affinity, Autoscaler, DeploymentSettings, Egress

_NAMES = st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,8})?", fullmatch=True)
_VARIABLES = st.from_regex(r"X_[A-Z0-9_]{1,10}", fullmatch=True)
# What YAML might take for something else than text, and what a template might stumble over.
_VALUES = st.sampled_from(
    ["1", "true", "null", "0x1F", "1e3", "~", "a: b", "# no", '"quoted"', "{{ x }}", "l1\nl2", ""]
)


@st.composite
def deployments(draw: st.DrawFn) -> DeploymentSettings:
    autoscaler = draw(st.sampled_from(Autoscaler))
    scaled = autoscaler is not Autoscaler.NONE
    replicas = draw(st.integers(1, 5))
    plain = draw(st.dictionaries(_VARIABLES, _VALUES, max_size=3))
    hidden = draw(st.lists(_VARIABLES, unique=True, max_size=2))
    return DeploymentSettings(
        name=draw(_NAMES),
        image=draw(st.sampled_from(["echo:1", "registry.test:5000/team/echo@sha256:" + 64 * "0"])),
        namespace=draw(_NAMES),
        replicas=replicas,
        max_replicas=draw(st.none() | st.integers(replicas, 50)) if scaled else None,
        autoscaler=autoscaler,
        prometheus_url=draw(st.sampled_from(["http://prometheus.test:9090", "http://p.monitoring.svc"])),
        monitoring_namespace=draw(_NAMES),
        max_sessions=draw(st.integers(1, 10**7)) if scaled else draw(st.none() | st.integers(1, 10**7)),
        resources=draw(
            st.sampled_from([Resources(), Resources(cpus=0.5, memory="512m"), Resources(cpus=2, memory=1000, gpus=1)])
        ),
        env_vars=plain,
        secret_env=tuple(name for name in hidden if name not in plain),
        drain_s=draw(st.integers(0, 10**7)),
        journal=draw(st.booleans()),
        tokens=draw(st.sampled_from([None, "tokens.toml", "of the team/all tokens.toml"])),
        affinity=draw(st.sampled_from(Affinity)),
        egress=draw(st.sampled_from(Egress)),
        allowed_namespaces=tuple(draw(st.lists(_NAMES, max_size=3))),
        secret=draw(st.none() | _NAMES),
        token=draw(st.none() | st.just("a-token")),
        user=draw(st.integers(1, 2**31 - 1)),
        read_only_root=draw(st.booleans()),
    )
