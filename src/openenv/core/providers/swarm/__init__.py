"""Servers as services of Docker Swarm."""
