"""Train language models on environments: rollouts, GRPO through TRL, and a tiny policy for a CPU."""

from openenv._lazy import lazy_exports

__all__, __getattr__ = lazy_exports(
    __name__,
    {
        "openenv.train.config": ("TrainConfig", "load_config"),
        "openenv.train.dialogue": ("ChatDialogue", "PlainDialogue"),
        "openenv.train.episodes": ("Episode", "Turn"),
        "openenv.train.evaluation": ("evaluate_policy", "evaluate_random_player", "evaluate_scripted_player"),
        "openenv.train.grpo": ("EpisodeRollouts", "make_trainer"),
        "openenv.train.players": ("RandomPlayer", "play_players"),
        "openenv.train.policy": ("Policy", "load_policy", "make_policy"),
        "openenv.train.report": ("draw_curve", "write_report"),
        "openenv.train.rollout": ("ModelPlayer", "rollout_fields"),
        "openenv.train.run": ("TrainResult", "resume", "train"),
        "openenv.train.run_folder": ("RunFolder",),
        "openenv.train.scores": ("Score",),
        "openenv.train.sessions": ("Sessions",),
        "openenv.adapters.text": ("ActionText", "Reading", "observation_text"),
        "openenv.train.tiny": ("build_model", "build_tokenizer"),
    },
)
