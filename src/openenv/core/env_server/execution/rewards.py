"""Components of the reward of a step: read from the environment's rubric, and sent in the outcome's metadata."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from openenv.core.env_server.execution.failures import failure_details
from openenv.core.exceptions import EnvironmentFailedError, EnvironmentTimeoutError, RequestError
from openenv.core.rubrics.base import Rubric, failed_component, running_component, tick
from openenv.core.rubrics.judge import judges_metadata
from openenv.core.rubrics.trajectory import TrajectoryRubric
from openenv.core.wire.redaction import message_of
from openenv.core.wire.results import (
    PARTICIPANTS,
    REWARD_EVIDENCE,
    REWARD_SIGNALS,
    REWARD_WEIGHTS,
    STEP_REWARDS,
    Outcome,
    outcome_of,
)
from openenv.core.wire.types import Observation


class ScoredStep:
    """A step of an environment with a rubric.

    Args:
        rubric: The environment's rubric, before the step.
    """

    __slots__ = ("_begun", "_rubric")

    def __init__(self, rubric: Rubric) -> None:
        self._rubric = rubric
        self._begun: Final = tick()

    def outcome(self, returned: Any) -> Any:
        """Return the step's outcome with the components of its reward in the metadata.

        A name that the environment's own metadata have is left as it is.

        Args:
            returned: What ``step`` returned.

        Returns:
            The outcome; what ``step`` returned, where no component was scored or the value has no known form.
        """
        rubric = self._rubric
        scores = rubric.component_scores(self._begun)
        evidence = rubric.component_evidence(self._begun)
        credit = self._step_rewards() if getattr(returned, "done", False) else None
        if not scores and not evidence and credit is None:
            return returned
        try:
            outcome = outcome_of(returned)
        except RequestError:
            return returned  # the session reports the wrong value
        metadata: dict[str, Any] = {}
        if scores:
            metadata[REWARD_SIGNALS] = scores
            weights = rubric.total_weights(scores)  # a part of the sum may not have been scored
            if weights:
                metadata[REWARD_WEIGHTS] = weights
        if evidence:
            metadata[REWARD_EVIDENCE] = evidence
            metadata |= judges_metadata(rubric)
        if credit:
            metadata[STEP_REWARDS] = credit
        return with_metadata(outcome, metadata, is_plain=not evidence)

    def running(self) -> str | None:
        """Return the path of the component that has not returned yet; ``None`` if none runs."""
        return running_component(self._rubric, self._begun)

    def failure(self, error: RequestError) -> RequestError:
        """Return the error of a failed step, with the name of the component that failed or did not end."""
        if isinstance(error, EnvironmentTimeoutError):
            component = self.running()
            if component is not None:
                error.blame_component(component)
                error.details |= judges_metadata(self._rubric)
            return error
        cause = error.__cause__
        component = None if cause is None else failed_component(cause, self._rubric)
        if component is None or cause is None:
            return error
        beginning = f"The reward component {component!r} raised "
        message = f"{beginning}{type(cause).__name__}: {message_of(cause)}"
        origin = None if error.origin is None else beginning + error.origin
        details = {**failure_details(cause), **judges_metadata(self._rubric)}
        return EnvironmentFailedError(message, origin=origin, component=component, **details)

    def _step_rewards(self) -> list[float] | None:
        """Return the credit of the steps of an episode that has ended, where the rubric has just scored it."""
        rubric = self._rubric
        if not isinstance(rubric, TrajectoryRubric) or not rubric.scored_since(self._begun):
            return None
        return rubric.compute_step_rewards()


def _with_participants(own: Mapping[str, Any], scored: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an environment's own metadata, with the judges beside the participants that it names."""
    named = own.get(PARTICIPANTS)
    if PARTICIPANTS not in scored or not isinstance(named, Mapping):
        return own
    return {**own, PARTICIPANTS: {**scored[PARTICIPANTS], **named}}


def with_metadata(outcome: Outcome, added: dict[str, Any], *, is_plain: bool) -> Outcome:
    """Add to the metadata of an outcome; a name that they have already is left as it is.

    Args:
        outcome: The outcome.
        added: What is added.
        is_plain: Whether that is only names and finite numbers.
    """
    own = outcome.metadata
    outcome.has_plain_metadata = is_plain and (outcome.has_plain_metadata or not own)
    metadata = {**added, **_with_participants(own, added)} if own else added
    if isinstance(outcome.observation, Observation):
        # Not by assignment, which would validate the whole observation again.
        outcome.observation.__dict__["metadata"] = metadata
    outcome.metadata = metadata
    return outcome


def rubric_states(environment: Any) -> dict[str, Any]:
    """Return what the rubrics of an environment have kept since the last reset, by path; the root's path is empty."""
    states = {path: rubric.episode_state() for path, rubric in _rubrics(environment)}
    return {path: state for path, state in states.items() if state is not None}


def restore_rubric(environment: Any, states: Mapping[str, Any]) -> None:
    """Restore what ``rubric_states`` returned.

    Raises:
        EnvironmentFailedError: The environment has no rubric at one of the paths.
    """
    rubrics = dict(_rubrics(environment))
    for path, state in states.items():
        if path not in rubrics:
            raise EnvironmentFailedError(
                f"The snapshot holds the state of a rubric {path!r}; the environment has none."
            )
        rubrics[path].load_episode_state(state)


def _rubrics(environment: Any) -> Iterator[tuple[str, Rubric]]:
    rubric = getattr(environment, "rubric", None)
    if isinstance(rubric, Rubric):
        yield "", rubric
        yield from rubric.named_rubrics()
