"""Rollouts: the loop over many episodes, and the renderers between actions and tokens."""
