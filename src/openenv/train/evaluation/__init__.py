"""Evaluation: how good an agent is, with intervals."""
