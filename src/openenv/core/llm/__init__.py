"""Limits of judges on a language model, and a cache of its answers on disk."""
