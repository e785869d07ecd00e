"""Train language models on environments: rollouts, GRPO through TRL, and a tiny policy for a CPU."""

from openenv._lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "openenv.train.api_player": ("ApiPlayer",),
        "openenv.train.collecting": ("CollectResult", "collect"),
        "openenv.train.config": ("TrainConfig", "load_config"),
        "openenv.train.dialogue": ("ChatDialogue", "PlainDialogue"),
        "openenv.train.env_spec": ("EnvSpec", "EnvSpecs"),
        "openenv.train.environment_reward": ("EnvironmentReward",),
        "openenv.train.environment_tools": ("EnvironmentTools",),
        "openenv.train.episodes": ("Episode", "Turn"),
        "openenv.train.evaluating": ("Evaluation", "TaskResult", "evaluate"),
        "openenv.train.evaluation": ("evaluate_policy", "evaluate_random_player", "evaluate_scripted_player"),
        "openenv.train.generation.completions": ("generate_rollout_completions",),
        "openenv.train.grpo": ("EpisodeRollouts", "make_trainer"),
        "openenv.train.intervals": ("Estimate", "mean_estimate", "share_estimate"),
        "openenv.train.pass_at_k": ("pass_at_k",),
        "openenv.train.play_settings": ("PlaySettings",),
        "openenv.train.players": ("RandomPlayer", "play_players"),
        "openenv.train.policy": ("Policy", "load_policy", "make_policy"),
        "openenv.train.report": ("draw_curve", "write_report"),
        "openenv.train.rollout": ("ModelPlayer", "rollout_fields"),
        "openenv.train.rollout_function": ("RolloutFunction",),
        "openenv.train.run": ("TrainResult", "resume", "train"),
        "openenv.train.run_folder": ("RunFolder",),
        "openenv.train.scores": ("Score",),
        "openenv.train.sessions": ("Sessions",),
        "openenv.train.session_pool": ("SessionPool",),
        "openenv.train.task_rows": ("task_rows",),
        "openenv.train.tool_environment": ("EpisodeStep", "ToolEnvironment"),
        "openenv.adapters.text": ("ActionText", "Reading", "observation_text"),
        "openenv.train.tiny": ("build_model", "build_tokenizer"),
        "openenv.train.tiny_tools": ("build_tool_tokenizer",),
    },
)
