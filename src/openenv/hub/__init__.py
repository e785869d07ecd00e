"""The Hugging Face Hub: environments as Spaces there, pushed, pulled and forked."""

from openenv._lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "openenv.hub.client": ("Hub",),
        "openenv.hub.datasets": ("push_dataset",),
        "openenv.hub.downloading": ("download_space",),
        "openenv.hub.forking": ("Fork", "fork_space"),
        "openenv.hub.names": ("RepoName", "read_repo_name"),
        "openenv.hub.pulling": ("pull",),
        "openenv.hub.pushing": ("Push", "push"),
        "openenv.hub.staging": ("Look", "stage"),
    },
)
