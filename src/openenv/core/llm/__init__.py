"""Limits of a language model's client, and a cache of its answers on disk."""
