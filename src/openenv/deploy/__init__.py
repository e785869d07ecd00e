"""Deployment: files of ``openenv deploy``, by which a cluster runs servers by itself.

``settings.py`` has the settings, ``manifests.py`` and ``autoscaling.py`` write the objects, ``chart.py`` a Helm chart
that renders the same, and ``steps.py`` the next commands.
"""
