"""Projects of other libraries as environments: found by reading their source, and played by their own code."""
