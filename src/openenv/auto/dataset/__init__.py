"""Environments that a repository of a dataset declares in its ``environment.yaml``, with its rows as their tasks."""
