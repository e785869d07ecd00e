"""Datasets of episodes that an agent has played."""
