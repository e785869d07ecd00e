"""Start a pod with the kubeconfig and image of the arguments, say its name, and wait to be killed."""

import sys
import time

from openenv.core.containers.runtime import KubernetesProvider

if __name__ == "__main__":
    provider = KubernetesProvider(sys.argv[2], kubeconfig=sys.argv[1], reach="pod")
    provider.launch()
    sys.stdout.write(f"{provider.pod_name}\n")
    sys.stdout.flush()
    if sys.argv[3] == "wait":
        time.sleep(600)
