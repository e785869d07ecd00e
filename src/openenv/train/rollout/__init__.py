"""Rollouts: sessions with a server, the loop over many episodes, and renderers between actions and tokens."""
