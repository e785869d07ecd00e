"""Environments of verifiers, whose datasets and rubrics are played as ours. Nothing of verifiers is imported here."""

from openenv.adapters.verifiers.environment import VerifiersEnvironment, VerifiersObservation
from openenv.adapters.verifiers.loading import load_verifiers

__all__ = ["VerifiersEnvironment", "VerifiersObservation", "load_verifiers"]
