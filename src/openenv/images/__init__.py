"""Images of environments: built by ``openenv build``, from a folder, and started by others."""
