"""Pods whose provider is gone without having removed them, because it was killed or lost its machine."""

from openenv.core.providers.kubernetes.cluster import Cluster
from openenv.core.providers.kubernetes.pod import SELECTOR, alive_at

STALE_AFTER_S = 600.0
"""A provider says every minute that it lives: one that has not been heard of for so long is not held up, but gone."""


def remove_leftovers(cluster: Cluster, stale_after_s: float = STALE_AFTER_S) -> list[str]:
    """Delete the pods of a namespace whose providers have not been heard of for a while; their Secrets go with them.

    Args:
        cluster: The namespace.
        stale_after_s: For how many seconds.

    Returns:
        The names of the pods.

    Raises:
        ProviderError: The cluster refused, or did not answer.
    """
    leftovers = []
    for pod in cluster.pods(SELECTOR):
        last_heard_of = alive_at(pod)
        if last_heard_of is not None and cluster.now - last_heard_of > stale_after_s:
            leftovers.append(str(pod["metadata"]["name"]))
    for name in leftovers:
        cluster.delete_pod(name, grace_s=0)
    return leftovers
