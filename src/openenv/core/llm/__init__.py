"""Clients of language models beyond their classes: the reader of answers, limits, and a cache on disk."""
