"""Card of an environment: one page and a badge with what was measured of it in five minutes."""
