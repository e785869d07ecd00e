"""Kubernetes: a server in a pod.

``provider.py`` is where to begin. ``manifests.py`` and ``pod.py`` write manifests and need no Kubernetes client; what
talks to a cluster goes through ``cluster.py``, the only module that imports the client.
"""
