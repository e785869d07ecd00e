"""Train language models on environments: rollouts, GRPO through TRL, and a tiny policy for a CPU."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.adapters.text import ActionText as ActionText
    from openenv.adapters.text import Reading as Reading
    from openenv.adapters.text import observation_text as observation_text
    from openenv.train.api_player import ApiPlayer as ApiPlayer
    from openenv.train.collecting import CollectResult as CollectResult
    from openenv.train.collecting import collect as collect
    from openenv.train.config import TrainConfig as TrainConfig
    from openenv.train.config import load_config as load_config
    from openenv.train.dialogue import ChatDialogue as ChatDialogue
    from openenv.train.dialogue import PlainDialogue as PlainDialogue
    from openenv.train.env_spec import EnvSpec as EnvSpec
    from openenv.train.env_spec import EnvSpecs as EnvSpecs
    from openenv.train.environment_reward import EnvironmentReward as EnvironmentReward
    from openenv.train.environment_tools import EnvironmentTools as EnvironmentTools
    from openenv.train.episodes import Episode as Episode
    from openenv.train.episodes import Turn as Turn
    from openenv.train.evaluating import Evaluation as Evaluation
    from openenv.train.evaluating import TaskResult as TaskResult
    from openenv.train.evaluating import evaluate as evaluate
    from openenv.train.evaluation import evaluate_policy as evaluate_policy
    from openenv.train.evaluation import evaluate_random_player as evaluate_random_player
    from openenv.train.evaluation import evaluate_scripted_player as evaluate_scripted_player
    from openenv.train.generation.completions import generate_rollout_completions as generate_rollout_completions
    from openenv.train.grpo import make_trainer as make_trainer
    from openenv.train.intervals import Estimate as Estimate
    from openenv.train.intervals import mean_estimate as mean_estimate
    from openenv.train.intervals import share_estimate as share_estimate
    from openenv.train.play_settings import PlaySettings as PlaySettings
    from openenv.train.players import RandomPlayer as RandomPlayer
    from openenv.train.policy import Policy as Policy
    from openenv.train.policy import load_policy as load_policy
    from openenv.train.policy import make_policy as make_policy
    from openenv.train.recording import play_players as play_players
    from openenv.train.report import draw_curve as draw_curve
    from openenv.train.report import write_report as write_report
    from openenv.train.rollout_function import RolloutFunction as RolloutFunction
    from openenv.train.run import TrainResult as TrainResult
    from openenv.train.run import resume as resume
    from openenv.train.run import train as train
    from openenv.train.run_folder import RunFolder as RunFolder
    from openenv.train.scores import Score as Score
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
            "openenv.train.dialogue": ("ChatDialogue", "PlainDialogue"),
            "openenv.train.env_spec": ("EnvSpec", "EnvSpecs"),
            "openenv.train.environment_reward": ("EnvironmentReward",),
            "openenv.train.environment_tools": ("EnvironmentTools",),
            "openenv.train.episodes": ("Episode", "Turn"),
            "openenv.train.evaluating": ("Evaluation", "TaskResult", "evaluate"),
            "openenv.train.evaluation": ("evaluate_policy", "evaluate_random_player", "evaluate_scripted_player"),
            "openenv.train.generation.completions": ("generate_rollout_completions",),
            "openenv.train.grpo": ("make_trainer",),
            "openenv.train.intervals": ("Estimate", "mean_estimate", "share_estimate"),
            "openenv.train.play_settings": ("PlaySettings",),
            "openenv.train.players": ("RandomPlayer",),
            "openenv.train.recording": ("play_players",),
            "openenv.train.policy": ("Policy", "load_policy", "make_policy"),
            "openenv.train.report": ("draw_curve", "write_report"),
            "openenv.train.rollout_function": ("RolloutFunction",),
            "openenv.train.run": ("TrainResult", "resume", "train"),
            "openenv.train.run_folder": ("RunFolder",),
            "openenv.train.scores": ("Score",),
            "openenv.train.sessions": ("Sessions",),
            "openenv.train.tool_environment": ("EpisodeStep", "ToolEnvironment"),
            "openenv.adapters.text": ("ActionText", "Reading", "observation_text"),
            "openenv.train.tiny": ("build_model", "build_tokenizer"),
            "openenv.train.tiny_tools": ("build_tool_tokenizer",),
        },
    )
