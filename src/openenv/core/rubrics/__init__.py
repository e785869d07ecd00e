"""Rewards with named parts: rubrics, containers of them, rubrics of whole episodes, judges."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.core.rubrics.base import Rubric as Rubric
    from openenv.core.rubrics.containers import Gate as Gate
    from openenv.core.rubrics.containers import RubricDict as RubricDict
    from openenv.core.rubrics.containers import RubricList as RubricList
    from openenv.core.rubrics.containers import Sequential as Sequential
    from openenv.core.rubrics.containers import WeightedSum as WeightedSum
    from openenv.core.rubrics.group_judge import GroupJudge as GroupJudge
    from openenv.core.rubrics.llm_judge import LLMJudge as LLMJudge
    from openenv.core.rubrics.rubric_judge import Criterion as Criterion
    from openenv.core.rubrics.rubric_judge import RubricJudge as RubricJudge
    from openenv.core.rubrics.trajectory import (
        ExponentialDiscountingTrajectoryRubric as ExponentialDiscountingTrajectoryRubric,
    )
    from openenv.core.rubrics.trajectory import TrajectoryRubric as TrajectoryRubric
    from openenv.core.rubrics.verdicts import VerdictError as VerdictError
else:
    _PACKAGE = "openenv.core.rubrics"

    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            f"{_PACKAGE}.base": ("Rubric",),
            f"{_PACKAGE}.containers": ("Gate", "RubricDict", "RubricList", "Sequential", "WeightedSum"),
            f"{_PACKAGE}.group_judge": ("GroupJudge",),
            f"{_PACKAGE}.llm_judge": ("LLMJudge",),
            f"{_PACKAGE}.rubric_judge": ("Criterion", "RubricJudge"),
            f"{_PACKAGE}.trajectory": ("ExponentialDiscountingTrajectoryRubric", "TrajectoryRubric"),
            f"{_PACKAGE}.verdicts": ("VerdictError",),
        },
    )
