"""Servers in sandboxes of cloud services, one module a service."""
