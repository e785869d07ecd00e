"""Providers: what starts a server somewhere."""
