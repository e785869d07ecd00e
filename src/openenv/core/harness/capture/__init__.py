"""Capture of what a model's engine read and sampled while an agent of any make played."""
