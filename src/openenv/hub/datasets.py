"""Publication of collected episodes as a dataset."""

from functools import partial
from pathlib import Path

from openenv.core.exceptions import ConfigurationError
from openenv.hub.client import Hub
from openenv.hub.library import CommitInfo, CommitOperationAdd

__all__ = ["push_dataset"]

_DATASET = "dataset"
_CARD = "README.md"


def push_dataset(
    file: Path, repo_id: str, hub: Hub, *, message: str = "Add collected episodes", private: bool = False
) -> str:
    """Publish a file of episodes as a dataset. The dataset is made if it is not there.

    Beside the file it gets a card, if it has none, by which ``load_dataset`` and the Hub's viewer find the file.

    Args:
        file: The episodes, an object of JSON in each line. It has the same name in the dataset, and replaces the one
            that is there.
        repo_id: ``OWNER/NAME`` of the dataset.
        hub: The Hub.
        message: Message of the commit.
        private: Whether the dataset is for its owner only. A private one stays so.

    Returns:
        Address of the dataset's page.

    Raises:
        ConfigurationError: There is no file.
        HubError: The Hub refuses, or can't be reached. The dataset's files are then what they were before.

    Example::

        push_dataset(Path("data/episodes.jsonl"), "me/wordle-episodes", Hub(), private=True)
    """
    if not file.is_file():
        raise ConfigurationError(f"There are no episodes to push: no file {file}.")
    _prepare(repo_id, hub, private)
    hub.request(f"upload to {repo_id}", partial(_commit, file, repo_id, hub, message))
    return hub.page_of(repo_id, _DATASET)


def _prepare(repo_id: str, hub: Hub, private: bool) -> None:
    """Make the dataset, or make it private before it gets episodes that others are not to see."""
    found = hub.find(repo_id, _DATASET)
    if found is None:
        call = partial(
            hub.api.create_repo,
            repo_id,
            repo_type=_DATASET,
            private=private or None,  # an organization may have another default
            exist_ok=True,  # there was none: where the Hub knows it, an earlier attempt has made it
        )
        hub.request(f"create the dataset {repo_id}", call)
    elif private and not found.private:
        change = partial(hub.api.update_repo_settings, repo_id, private=True, repo_type=_DATASET)
        hub.request(f"make the dataset {repo_id} private", change)


def _commit(file: Path, repo_id: str, hub: Hub, message: str) -> CommitInfo:
    added = [CommitOperationAdd(file.name, str(file))]
    if _CARD not in hub.api.list_repo_files(repo_id, repo_type=_DATASET):
        added.append(CommitOperationAdd(_CARD, _card(file.name, repo_id).encode()))
    return hub.commit(repo_id, added, message=message, kind=_DATASET)


def _card(file: str, repo_id: str) -> str:
    return f"""---
configs:
- config_name: default
  data_files:
  - split: train
    path: {file}
tags:
- openenv
---

# {repo_id.partition("/")[2]}

Episodes of an OpenEnv environment, played and written by `openenv collect`. Each line of `{file}` is one of them: its
conversation in `messages` and `tools`, its `environment` and `task`, its `reward` and the `rewards` of its steps.

```python
from datasets import load_dataset

episodes = load_dataset("{repo_id}", split="train")
```
"""
