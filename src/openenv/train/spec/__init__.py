"""What TRL is passed: an environment's specification, its sessions, tools, rollout function and reward."""
