"""Mutants of an environment: small faults in copies of its code, and the share of them that validation finds."""
