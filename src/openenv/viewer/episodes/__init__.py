"""Folder of an evaluation or of collected episodes: its tasks, estimates and episodes."""
