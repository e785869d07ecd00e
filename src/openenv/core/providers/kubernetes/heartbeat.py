"""Tells a cluster that the provider of a pod lives, so that its pod is not taken for one that was left behind."""

import logging
import threading

from openenv.core.exceptions import ProviderError
from openenv.core.providers.kubernetes.cluster import Cluster
from openenv.core.providers.kubernetes.pod import alive_patch

logger = logging.getLogger(__name__)


class Heartbeat:
    """Writes the time into an annotation of a pod, again and again, in a thread of its own.

    Args:
        cluster: Where the pod is.
        pod: The pod's name.
        interval_s: Seconds between two times.
    """

    def __init__(self, cluster: Cluster, pod: str, interval_s: float) -> None:
        self._cluster = cluster
        self._pod = pod
        self._interval_s = interval_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"heartbeat of {pod}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write no more. May be called twice."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            try:
                if not self._cluster.change_pod(self._pod, alive_patch(self._cluster.now)):
                    return  # the pod was removed
            except ProviderError as error:
                logger.warning("could not tell that the provider of %s lives: %s", self._pod, error)
