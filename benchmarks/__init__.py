"""Ours beside the public OpenEnv package and a bare echo server, measured in one run: ``make bench``."""
