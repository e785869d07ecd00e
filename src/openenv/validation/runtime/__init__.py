"""Runtime level of validation: one planned episode over the wire, and what is measured of it."""
