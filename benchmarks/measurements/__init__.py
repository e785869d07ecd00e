"""The measurements. Each function takes one round of figures of the rows that ``measure.py`` names beside it."""
