"""Maker of a dataset's environment by its id, as in ``openenv serve reasoning_gym:chain_sum``."""

from functools import partial

from openenv.adapters.ids import read_id
from openenv.adapters.reasoning_gym.datasets import check_dataset
from openenv.adapters.reasoning_gym.environment import ReasoningEnvironment


def environment_for(dataset_id: str) -> partial[ReasoningEnvironment]:
    """Return a maker of the environment of a dataset, to be served or used in this process.

    Args:
        dataset_id: The dataset's name. Its parameters may follow, as in ``chain_sum?max_terms=3&size=100&seed=7``;
            ``sandbox=none`` declares this machine a sandbox, which datasets need that run answers as Python.

    Raises:
        EnvironmentNotFoundError: There is no such dataset; the message lists those with a similar name.
        ConfigurationError: It does not take these parameters, or it runs answers outside of a sandbox.

    Example:
        >>> environment_for("chain_sum?max_terms=3").args
        ('chain_sum', {'max_terms': 3})
    """
    name, arguments = read_id(dataset_id)
    sandbox = arguments.pop("sandbox", None)
    check_dataset(name, arguments, sandbox)
    return partial(ReasoningEnvironment, name, arguments)
