"""Deployment: what ``openenv deploy`` writes, so that servers run in a cluster by themselves.

``settings.py`` says what can be chosen, ``manifests.py`` and ``autoscaling.py`` write the objects, ``chart.py`` a Helm
chart that renders the same, and ``steps.py`` what is to be typed next.
"""
