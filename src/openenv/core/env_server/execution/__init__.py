"""Runners and executors, which call an environment's code."""
