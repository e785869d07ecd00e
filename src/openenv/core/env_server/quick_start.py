"""First lines of Python for an environment, in Markdown."""

import os

from pydantic import BaseModel

from openenv.core.env_server.http.examples import example_of
from openenv.core.env_server.serving import DEFAULT_PORT
from openenv.core.wire.types import EnvironmentMetadata

_SPACE_HOST_VARIABLE = "SPACE_HOST"

_QUICK_START = """### Play {name} from Python

```python
import openenv

with openenv.make("{url}").sync() as env:
    result = env.reset()
    result = env.step({action!r})
    print(result.observation, result.reward)
```
"""


def get_quick_start_markdown(
    metadata: EnvironmentMetadata | None, action_cls: type[BaseModel], observation_cls: type[BaseModel]
) -> str:
    """Return the first lines of Python for an environment, in Markdown.

    Args:
        metadata: Description of the environment, for its name.
        action_cls: Class of the actions, of which an example is stepped.
        observation_cls: Class of the observations; its name stands for that of an environment without metadata.

    Returns:
        The text. The address is that of the Space which ``SPACE_HOST`` names, else of the default port of this machine.
    """
    space = os.environ.get(_SPACE_HOST_VARIABLE)
    url = f"https://{space}" if space else f"http://localhost:{DEFAULT_PORT}"
    name = observation_cls.__name__.removesuffix("Observation") if metadata is None else metadata.name
    return _QUICK_START.format(name=name, url=url, action=example_of(action_cls) or {})
