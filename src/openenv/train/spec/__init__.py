"""Public import path of ``openenv.train.trl.tool_environment``."""
