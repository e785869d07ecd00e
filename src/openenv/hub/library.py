"""Names of ``huggingface_hub`` that are used; an extra installs it."""

from openenv._extras import install_command
from openenv.core.exceptions import ConfigurationError

try:
    from huggingface_hub import CommitInfo, CommitOperationAdd, CommitOperationDelete, HfApi, get_token, login
    from huggingface_hub.errors import (  # type: ignore[attr-defined]
        DeviceCodeError,
        HfHubHTTPError,
        HFValidationError,
        HTTPError,  # of httpx or its successor, whichever huggingface_hub is made with
        LocalEntryNotFoundError,
        OIDCError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )
    from huggingface_hub.hf_api import DatasetInfo, KernelInfo, ModelInfo, SpaceInfo
    from huggingface_hub.utils import (  # type: ignore[attr-defined]
        disable_progress_bars,
        filter_repo_objects,
    )
except ImportError as error:
    raise ConfigurationError(f"The Hub needs huggingface_hub ({error}): {install_command('hub')}") from error

RepoInfo = SpaceInfo | ModelInfo | DatasetInfo | KernelInfo

__all__ = [
    "CommitInfo",
    "CommitOperationAdd",
    "CommitOperationDelete",
    "DeviceCodeError",
    "HFValidationError",
    "HTTPError",
    "HfApi",
    "HfHubHTTPError",
    "LocalEntryNotFoundError",
    "OIDCError",
    "RepoInfo",
    "RepositoryNotFoundError",
    "RevisionNotFoundError",
    "disable_progress_bars",
    "filter_repo_objects",
    "get_token",
    "login",
]
