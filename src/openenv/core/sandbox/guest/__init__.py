"""What runs inside a sandbox, on the standard library alone: this folder is all of OpenEnv that is there."""
