"""Agents: scripted and random players, policies, and models behind an address."""
