"""HTTP transport of a server."""
