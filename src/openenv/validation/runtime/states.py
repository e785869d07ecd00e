"""States of episodes: each has its episode's name, and counts the steps."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from openenv.core.exceptions import OpenEnvError
from openenv.validation.findings import Finding, warn
from openenv.validation.trials import FEW_STEPS, SEED, Client, RunLimits, Trial

MAX_STATES = 6
"""Episodes whose states are read."""

_EPISODE_ID, _OTHER_EPISODE_ID = "validated-episode", "validated-episode-2"


def find_in_states(client: Client, limits: RunLimits, trials: Sequence[Trial], *, keeps_id: bool) -> Iterator[Finding]:
    """Find a state that has another episode's name, or another count of steps.

    Args:
        client: A client that plays the episodes again.
        limits: Its limits.
        trials: The episodes.
        keeps_id: Whether a reset takes the name of its episode.
    """
    until = time.monotonic() + limits.play_s
    for trial in trials[:MAX_STATES]:
        if time.monotonic() > until:
            return
        with suppress(OpenEnvError):  # which the checks before have reported
            found = _state_fault(client, trial.actions[:FEW_STEPS], keeps_id=keeps_id)
            if found is not None:
                yield warn(f"{found[0]} ({trial.name})", found[1])
                return


def _state_fault(client: Client, actions: Sequence[dict[str, Any]], *, keeps_id: bool) -> tuple[str, str] | None:
    """Return what is wrong with the states of an episode and of the next reset, and the remedy."""
    client.disconnect()
    client.reset(seed=SEED, episode_id=_EPISODE_ID)
    first = _state_fields(client)
    count = sum(_is_accepted(client, action) for action in actions)
    last = _state_fields(client)
    client.reset(seed=SEED, episode_id=_OTHER_EPISODE_ID)
    other = _state_fields(client)
    if all(not state.get("episode_id") and not state.get("step_count") for state in (first, last, other)):
        return None  # an environment that keeps no state
    if keeps_id:
        for state, name in ((first, _EPISODE_ID), (other, _OTHER_EPISODE_ID)):
            if state.get("episode_id", name) != name:
                text = f"the state has the episode_id {state['episode_id']!r} after a reset with {name!r}"
                return text, "Keep the name of the episode that reset gets, and make one up where there is none."
    for state, least, most in ((first, 0, 0), (last, count, len(actions)), (other, 0, 0)):
        if not least <= state.get("step_count", least) <= most:
            after = f"{count} accepted actions" if state is last else "a reset"
            text = f"the state has the step_count {state['step_count']} after {after}"
            return text, "Count each action that is not refused, and begin with 0 in reset."
    return None


def _is_accepted(client: Client, action: dict[str, Any]) -> bool:
    try:
        client.step(action)
    except OpenEnvError:
        return False
    return True


def _state_fields(client: Client) -> dict[str, Any]:
    state: Any = client.state()
    return state if isinstance(state, dict) else dict(state.model_dump(mode="json"))
