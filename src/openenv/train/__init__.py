"""Train language models on environments: rollouts, GRPO through TRL, and a tiny policy for a CPU."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.train.api_player import ApiPlayer as ApiPlayer
    from openenv.train.collecting import CollectResult as CollectResult
    from openenv.train.collecting import collect as collect
    from openenv.train.config import TrainConfig as TrainConfig
    from openenv.train.config import load_config as load_config
    from openenv.train.env_spec import EnvSpec as EnvSpec
    from openenv.train.env_spec import EnvSpecs as EnvSpecs
    from openenv.train.environment_reward import EnvironmentReward as EnvironmentReward
    from openenv.train.environment_tools import EnvironmentTools as EnvironmentTools
    from openenv.train.episodes import Episode as Episode
    from openenv.train.episodes import Turn as Turn
    from openenv.train.evaluating import Evaluation as Evaluation
    from openenv.train.evaluating import evaluate as evaluate
    from openenv.train.generation.completions import generate_rollout_completions as generate_rollout_completions
    from openenv.train.play_settings import PlaySettings as PlaySettings
    from openenv.train.policy import Policy as Policy
    from openenv.train.policy import make_policy as make_policy
    from openenv.train.rollout_function import RolloutFunction as RolloutFunction
    from openenv.train.run import TrainResult as TrainResult
    from openenv.train.run import resume as resume
    from openenv.train.run import train as train
    from openenv.train.sessions import Sessions as Sessions
    from openenv.train.tiny import build_model as build_model
    from openenv.train.tiny import build_tokenizer as build_tokenizer
    from openenv.train.tiny_tools import build_tool_tokenizer as build_tool_tokenizer
    from openenv.train.tool_environment import EpisodeStep as EpisodeStep
    from openenv.train.tool_environment import ToolEnvironment as ToolEnvironment
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "openenv.train.api_player": ("ApiPlayer",),
            "openenv.train.collecting": ("CollectResult", "collect"),
            "openenv.train.config": ("TrainConfig", "load_config"),
            "openenv.train.env_spec": ("EnvSpec", "EnvSpecs"),
            "openenv.train.environment_reward": ("EnvironmentReward",),
            "openenv.train.environment_tools": ("EnvironmentTools",),
            "openenv.train.episodes": ("Episode", "Turn"),
            "openenv.train.evaluating": ("Evaluation", "evaluate"),
            "openenv.train.generation.completions": ("generate_rollout_completions",),
            "openenv.train.play_settings": ("PlaySettings",),
            "openenv.train.policy": ("Policy", "make_policy"),
            "openenv.train.rollout_function": ("RolloutFunction",),
            "openenv.train.run": ("TrainResult", "resume", "train"),
            "openenv.train.sessions": ("Sessions",),
            "openenv.train.tool_environment": ("EpisodeStep", "ToolEnvironment"),
            "openenv.train.tiny": ("build_model", "build_tokenizer"),
            "openenv.train.tiny_tools": ("build_tool_tokenizer",),
        },
    )
