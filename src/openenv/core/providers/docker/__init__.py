"""Servers in Docker containers: the provider, a pool of warm ones, and what keeps and removes them."""
