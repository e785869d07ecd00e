"""Train language models on environments: rollouts, GRPO through TRL, and a tiny policy for a CPU."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.train.agents.api_agent import ApiAgent as ApiAgent
    from openenv.train.agents.policy import Policy as Policy
    from openenv.train.agents.policy import make_policy as make_policy
    from openenv.train.agents.tiny import build_model as build_model
    from openenv.train.agents.tiny import build_tokenizer as build_tokenizer
    from openenv.train.agents.tiny_tools import build_tool_tokenizer as build_tool_tokenizer
    from openenv.train.dataset.collecting import CollectResult as CollectResult
    from openenv.train.dataset.collecting import collect as collect
    from openenv.train.episodes.episode import Episode as Episode
    from openenv.train.episodes.episode import Turn as Turn
    from openenv.train.evaluation.evaluating import Evaluation as Evaluation
    from openenv.train.evaluation.evaluating import evaluate as evaluate
    from openenv.train.generation.completions import generate_rollout_completions as generate_rollout_completions
    from openenv.train.run.training import TrainResult as TrainResult
    from openenv.train.run.training import resume as resume
    from openenv.train.run.training import train as train
    from openenv.train.settings.config import TrainConfig as TrainConfig
    from openenv.train.settings.config import load_config as load_config
    from openenv.train.settings.play_settings import PlaySettings as PlaySettings
    from openenv.train.spec.env_spec import EnvSpec as EnvSpec
    from openenv.train.spec.env_spec import EnvSpecs as EnvSpecs
    from openenv.train.spec.environment_reward import ComponentReward as ComponentReward
    from openenv.train.spec.environment_reward import EnvironmentReward as EnvironmentReward
    from openenv.train.spec.group_reward import GroupReward as GroupReward
    from openenv.train.spec.rollout_function import RolloutFunction as RolloutFunction
    from openenv.train.spec.sessions import Sessions as Sessions
    from openenv.train.spec.tool_environment import EpisodeStep as EpisodeStep
    from openenv.train.spec.tool_environment import ToolEnvironment as ToolEnvironment
    from openenv.train.tools.environment_tools import EnvironmentTools as EnvironmentTools
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "openenv.train.agents.policy": ("make_policy",),
            "openenv.train.agents.tiny": ("build_model", "build_tokenizer"),
            "openenv.train.evaluation.evaluating": ("evaluate",),
            "openenv.train.run.training": ("resume", "train"),
            "openenv.train.settings.config": ("TrainConfig", "load_config"),
            "openenv.train.spec.env_spec": ("EnvSpec", "EnvSpecs"),
            "openenv.train.spec.environment_reward": ("EnvironmentReward",),
            "openenv.train.spec.group_reward": ("GroupReward",),
            "openenv.train.spec.rollout_function": ("RolloutFunction",),
            "openenv.train.spec.sessions": ("Sessions",),
            "openenv.train.spec.tool_environment": ("EpisodeStep", "ToolEnvironment"),
        },
        unlisted={
            "openenv.train.agents.api_agent": ("ApiAgent",),
            "openenv.train.agents.policy": ("Policy",),
            "openenv.train.agents.tiny_tools": ("build_tool_tokenizer",),
            "openenv.train.dataset.collecting": ("CollectResult", "collect"),
            "openenv.train.episodes.episode": ("Episode", "Turn"),
            "openenv.train.evaluation.evaluating": ("Evaluation",),
            "openenv.train.generation.completions": ("generate_rollout_completions",),
            "openenv.train.run.training": ("TrainResult",),
            "openenv.train.settings.play_settings": ("PlaySettings",),
            "openenv.train.spec.environment_reward": ("ComponentReward",),
            "openenv.train.tools.environment_tools": ("EnvironmentTools",),
        },
    )
