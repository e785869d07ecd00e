"""Say, as JSON, what a provider makes of the machine that this runs on."""

import json
import sys

from openenv.core.containers.runtime import KubernetesProvider
from openenv.core.providers.kubernetes.cluster import Cluster

if __name__ == "__main__":
    provider = KubernetesProvider("echo:1")
    target = Cluster().forward_target("p", 8000)
    json.dump([provider.namespace, provider.reach, target.url, target.headers], sys.stdout)
