"""Checks that run an environment: its server starts, and episodes are played over it, twice, in two processes.

The second process has another hash seed, time zone, locale, clock and order of directories; see ``varied_process``.

The servers run in separate processes, as for ``openenv play``, so that one that hangs or ends its process
is a finding like any other.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

from pydantic import ValidationError

from openenv.auto.manifest import MANIFEST_FILE
from openenv.auto.package import EnvironmentPackage
from openenv.auto.readme import read_readme
from openenv.core.client.blocking import wait_for
from openenv.core.client.mcp import fetch_tools
from openenv.core.client_types import StepResult
from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    OpenEnvError,
    ProviderError,
    ServerCapacityError,
)
from openenv.core.generic_client import GenericEnvClient
from openenv.core.providers.base import RuntimeProvider
from openenv.core.providers.local_process import LocalProcessProvider
from openenv.core.schema.json_models import read_model
from openenv.core.schema.reader import constants, members
from openenv.core.wire.mcp_types import CallToolObservation, ListToolsObservation
from openenv.core.wire.names import FINITE_VARIABLE
from openenv.validation.code_checks import Function, accepted, passes_on, reset_method
from openenv.validation.conformance.server import NoAnswerError, Server
from openenv.validation.findings import Check, Finding, Measurement, fail, run_check, warn
from openenv.validation.report import CheckResult
from openenv.validation.runtime.endurance import find_in_endurance
from openenv.validation.runtime.hostile import find_in_floods, find_in_hostile_actions
from openenv.validation.runtime.recorded import RECORD, first_unlike, read_recorded
from openenv.validation.runtime.states import find_in_states
from openenv.validation.runtime.varied_process import Variation, VariedProcessProvider
from openenv.validation.source import read_source
from openenv.validation.trials import (
    FEW_STEPS,
    OTHER_SEED,
    RANDOM_STEPS,
    SCRIPTED,
    SCRIPTED_STEPS,
    SEED,
    Answer,
    Client,
    FaultError,
    RunLimits,
    Trial,
    Trials,
    first_difference,
    where,
    within,
)
from openenv.validation.types import CheckStatus
from openenv.validation.url_checks import ServerRoutes

_CAUSE = "Correct its cause; `openenv play` has the same error."
_PLAYER = "Let make_player return a function from an observation to an action, as the one that `openenv init` writes."
_REPEAT = "Draw all that is random from the seed, and let nothing depend on the clock, an id, or the order of a set."
_STATE = "Keep what belongs to an episode in the instance, and no state in modules, classes, caches and variables."
_CAPACITY_WAIT_S = 10.0
_OK = 200
MAX_SEEDS = 8
"""Further seeds that are tried, until one is another episode."""


class Running:
    """Environment whose servers run, and its episodes; a context manager, which ends them.

    Attributes:
        client: A client that speaks dicts; its first use starts the first server.
        trials: Episodes that were played on the first server.
        has_sessions: Whether sessions can be opened over a WebSocket.
        is_repeatable: Whether the same actions had the same results in a second process; set by the check of that.
        plays_as_before: Whether the first server plays as at first; set by the checks of hostile input.
        prefix: The folder, as errors name it before a file of it.
    """

    def __init__(self, package: EnvironmentPackage, limits: RunLimits) -> None:
        self.package = package
        self.limits = limits
        self.trials: list[Trial] = []
        self.has_sessions = True
        self.is_repeatable = True
        self.plays_as_before = True
        self.prefix = f"{package.folder}{os.sep}"
        self._exits = ExitStack()
        self.client, self._provider = self._start()
        # Set by the first use of ``second``.
        self._second: Trials | None = None
        self._second_provider: LocalProcessProvider | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    @property
    def pid(self) -> int | None:
        """Process of the first server."""
        return self._provider.pid

    def server(self) -> Server:
        """Return the first server, for frames that no client sends."""
        return Server(self._provider.base_url, self.limits.answer_s, self._provider.token)

    def example(self) -> Trial | None:
        """Return the shortest of the trials without a fault; ``None`` where there is none."""
        whole = [trial for trial in self.trials if trial.fault is None and trial.actions]
        return min(whole, key=lambda trial: len(trial.actions), default=None)

    def resets_over_http(self) -> bool:
        """Return whether the first server resets over HTTP, and keep that it has no sessions."""
        self.has_sessions = ServerRoutes(self._provider.base_url, self.limits.answer_s).post("/reset", {}).status != _OK
        return not self.has_sessions

    def play(self) -> list[str]:
        """Play a trial with the scripted player, if there is one, and one with each kind of action."""
        trials = Trials(self.client, self.limits)
        if self.package.manifest.player is not None:
            self.trials.append(self._play_scripted(trials))
        if trials.is_out_of_time:
            return []
        kinds = trials.kinds()
        has_ended = any(trial.has_ended for trial in self.trials)
        played = list(trials.play_kinds(kinds, FEW_STEPS if has_ended else RANDOM_STEPS))
        self.trials += played
        return list(kinds.names[len(played) :])

    def _play_scripted(self, trials: Trials) -> Trial:
        """Play with the package's player and client, and compare the answers when its actions are sent again."""
        try:
            player = within(self.limits.answer_s, self.package.make_player, SEED)
            client = within(self.limits.answer_s, self._package_client)
        except (OpenEnvError, FaultError, TimeoutError) as error:
            return Trial(SCRIPTED, fault=f"it can't be made: {where(error)}")
        assert player is not None
        trial = trials.play(SCRIPTED, player, SCRIPTED_STEPS, client)
        client.disconnect()
        if trial.fault is None:
            trial.answers = trials.replay(trial)
        return trial

    def _package_client(self) -> Client:
        """Make a client of the package's class."""
        server = StartedServer(self._provider)
        client = self.package.client_class()(provider=server, message_timeout_s=self.limits.answer_s).sync()
        self._exits.callback(client.close)
        return client

    @cached_property
    def reset_method(self) -> Function | None:
        """Method of the environment's code that resets it; ``None`` where that is not in the folder."""
        has_source = (self.package.folder / MANIFEST_FILE).is_file()
        return reset_method(read_source(self.package.folder)) if has_source else None

    @property
    def second(self) -> Trials:
        """Return the trials on a second server, in another process. The first use starts it."""
        if self._second is None:
            try:
                self._second = self._start_second(tuple(Variation))
            except ProviderError:  # a library may depend on the very class of the clock, which is no fault
                self._second = self._start_second([each for each in Variation if each is not Variation.CLOCK])
        return self._second

    def _start_second(self, variations: Sequence[Variation]) -> Trials:
        client, self._second_provider = self._start(variations)
        client.connect()
        return Trials(client, self.limits)

    def replayed_anew(self, trials: Sequence[Trial]) -> list[list[Answer]]:
        """Return the answers of a third process, in which nothing is varied, to the actions of trials."""
        return self._replayed(trials, ())

    def causes(self, trials: Sequence[Trial]) -> dict[str, str]:
        """Name what has to be another for another process to answer otherwise.

        Args:
            trials: Trials that another process has answered otherwise.

        Returns:
            The cause of each, by the trial's name; nothing but the process, where that suffices.
        """
        causes: dict[str, str] = {}
        for variations in ((), *((each,) for each in Variation)):
            left = [trial for trial in trials if trial.name not in causes]
            try:
                answered = self._replayed(left, variations) if left else []
            except ProviderError:  # as for the second server
                continue
            for trial, answers in zip(left, answered, strict=True):
                if first_difference(trial.answers, answers) is not None:
                    causes[trial.name] = f"with another {variations[0].value}" if variations else "with nothing changed"
        return causes

    def _replayed(self, trials: Sequence[Trial], variations: Sequence[Variation]) -> list[list[Answer]]:
        """Return the answers of a new process to the actions of trials, in their order."""
        client, _ = self._start(variations)
        try:
            client.connect()
            anew = Trials(client, self.limits)
            return [anew.replay(trial) for trial in trials]
        finally:
            client.close()

    def neighbour(self) -> Client | None:
        """Open another session on the second server; ``None`` where it holds a single one."""
        assert self._second_provider is not None
        server = StartedServer(self._second_provider)
        client = GenericEnvClient(provider=server, message_timeout_s=self.limits.answer_s).sync()
        self._exits.callback(client.close)
        try:
            client.reset(seed=SEED)
        except ServerCapacityError:
            return None
        return client

    def _start(self, variations: Sequence[Variation] = ()) -> tuple[Client, LocalProcessProvider]:
        variables = {"PYTHONHASHSEED": "1", FINITE_VARIABLE: "1"}
        provider = VariedProcessProvider(self.package.target, variations, variables)
        client = GenericEnvClient(
            provider=provider, message_timeout_s=self.limits.answer_s, capacity_wait_s=_CAPACITY_WAIT_S
        ).sync()
        self._exits.callback(client.close)
        return client, provider


class StartedServer(RuntimeProvider):
    """A server that runs for another client, and outlives this provider's."""

    def __init__(self, started: RuntimeProvider) -> None:
        self._started = started

    @property
    def token(self) -> str | None:
        """Token that clients need."""
        return self._started.token

    @property
    def base_url(self) -> str:
        """Address of the server."""
        return self._started.base_url

    def start(self, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any) -> str:
        """Return the address of the server, which runs already."""
        return self._started.base_url

    def stop(self) -> None:
        """Leave it running."""

    def check_alive(self) -> None:
        """Raise ``ProviderError`` if the server has ended."""
        self._started.check_alive()


def run_checks(package: EnvironmentPackage, limits: RunLimits | None = None) -> list[CheckResult]:
    """Start an environment's servers and check its answers. Checks that a failure makes impossible are left out."""
    return [result for results in each_results(package, limits or RunLimits()) for result in results]


def each_results(package: EnvironmentPackage, limits: RunLimits) -> Iterator[list[CheckResult]]:
    """Iterate over the results of each check of ``run_checks``, as soon as they are known."""
    with Running(package, limits) as running:
        for check in RUN_CHECKS:
            results = run_check(check, running)
            yield results
            if check.id in _NEEDED and (results[0].status is CheckStatus.FAIL or not running.has_sessions):
                return


def _find_in_start(running: Running) -> Iterator[Finding]:
    try:
        running.client.connect()
    except ConnectionFailedError as error:
        if running.resets_over_http():
            yield warn(
                "its server has no WebSocket at /ws: only what its own client does over HTTP works, and was not tried",
                "Make the application with openenv's create_app; then every client, trainer and tool can play it.",
            )
        else:
            yield fail(_first_and_last_line(error), _CAUSE)
    except OpenEnvError as error:
        yield fail(_first_and_last_line(error), _CAUSE)


def _find_in_reset(running: Running) -> Iterator[Finding]:
    try:
        observation = _reset(running).observation
        expected = running.package.observation_class()
        if not issubclass(
            expected, CallToolObservation | ListToolsObservation
        ):  # which only a tool's call gives: a reset gives another
            read_model(expected, observation)
    except ConfigurationError as error:  # of its observations' class, which clients that speak dicts do without
        yield warn(str(error), "Name the class in openenv.yaml, as in `observation: models:MyObservation`.")
    except OpenEnvError as error:
        yield fail(str(error), _CAUSE)
    except ValidationError as error:
        yield fail(
            f"the first observation does not fit its class: {error}", "Return the fields of the observation's class."
        )


def _find_in_seeds(running: Running) -> Iterable[Finding]:
    try:
        first, second = _reset(running), _reset(running)
    except OpenEnvError:  # which the check before has reported
        return []
    if (first.observation, first.reward) == (second.observation, second.reward):
        return []
    remedy = "Episodes that can't be repeated can't be replayed either; draw all that is random from the seed."
    return [warn(f"two resets with seed {SEED} gave different observations", remedy)]


def _find_in_play(running: Running) -> Iterator[Finding]:
    try:
        left_out = running.play()
    except OpenEnvError as error:
        yield fail(str(error), _CAUSE)
        return
    faults: dict[str, Finding] = {}
    for trial in running.trials:
        if trial.fault is not None:
            remedy = _PLAYER if trial.name == SCRIPTED else _CAUSE
            faults.setdefault(trial.fault, fail(f"{trial.name}: {trial.fault}".replace(running.prefix, ""), remedy))
    yield from faults.values()
    if running.package.manifest.player is None:
        yield from _unplayed(running.trials)
    if left_out:
        yield warn(
            f"no time was left within {running.limits.play_s:g} s for the actions {', '.join(left_out)}",
            "What takes so long to step takes long to train on; do at once what need not be done in each step.",
        )


def _unplayed(played: Sequence[Trial]) -> Iterator[Finding]:
    """Find kinds of actions that were never executed; a scripted player reaches those that random choices can't."""
    for trial in played:
        if trial.untried is not None or trial.is_refused:
            reason = trial.untried or f"every one was refused, the last with: {trial.refusals[-1]}"
            yield warn(
                f"{trial.name} could not be tried: {reason}",
                "Bring a scripted player, or list what is legal in the observation's field legal_actions.",
            )


def _find_in_end(running: Running) -> Iterator[Finding]:
    if any(trial.has_ended and not trial.steps for trial in running.trials):
        yield fail("reset returns an observation with done=True", "Let an episode end with a step.")
        return
    whole = [trial for trial in running.trials if trial.fault is None and not trial.is_out_of_time]
    if any(trial.has_ended for trial in whole) or not whole or _never_ends(running.package):
        return
    longest = max(whole, key=lambda trial: trial.steps)
    text = f"no episode ended; that of {longest.name} was left after {longest.steps} steps"
    remedy = "Let an observation have done=True; if that is never so, write in the README: `- **End**: never`."
    yield fail(text, remedy) if longest.name == SCRIPTED else warn(text, remedy)


def _never_ends(package: EnvironmentPackage) -> bool:
    """Return whether the README declares that an episode never ends by itself."""
    return read_readme(package.folder).facts.get("end", "").lower().startswith(("never", "none"))


def _find_in_repeat(running: Running) -> Iterator[Finding]:
    running.is_repeatable = False
    try:
        replayed = list(_each_replayed(running, running.second.replay))
        different = [each for each in replayed if each.difference is not None]
        running.is_repeatable = not different
        if different:
            yield from _unrepeatable(running, replayed, different)
    except OpenEnvError as error:
        yield fail(f"another process does not start: {_first_and_last_line(error)}", _CAUSE)


def _unrepeatable(
    running: Running, replayed: Sequence["_Replayed"], different: Sequence["_Replayed"]
) -> Iterator[Finding]:
    """Find what differs after other episodes, and what differs in any other process."""
    anew = running.replayed_anew([each.trial for each in replayed])
    kept = {
        each.trial.name
        for each, answers in zip(replayed, anew, strict=True)
        if first_difference(each.answers, answers) is None
    }
    causes = running.causes([each.trial for each in different if each.trial.name not in kept])
    for each in different:
        if each.trial.name in kept:
            yield fail(f"an episode differs after others in its process: {each.difference}", _STATE)
        else:
            cause = causes.get(each.trial.name, "in some runs or with several changes")
            differs = f"the same actions with seed {SEED} differ in another process, {cause}"
            yield warn(f"{differs}: {each.difference}", _REPEAT)


def _find_in_sessions(running: Running) -> Iterator[Finding]:
    if not running.is_repeatable:  # then nothing could be concluded from a difference
        return
    different = _first_different(running, partial(running.second.replay, is_same_session=True))
    if different is not None:
        yield fail(f"an episode differs after another one in its session: {different}", "Let reset set all anew.")
        return
    neighbour = running.neighbour()
    if neighbour is None:
        return
    different = _first_different(running, partial(running.second.replay, neighbour=neighbour))
    if different is not None:
        yield fail(
            f"an episode differs while another session is played: {different}",
            "Keep what belongs to an episode in the instance, and no state in modules and classes, such as the module "
            "random's; or set SUPPORTS_CONCURRENT_SESSIONS = False.",
        )


def _find_in_recorded(running: Running) -> Iterator[Finding | Measurement]:
    """Find answers that are not those of the episodes on record."""
    episodes = read_recorded(running.package.folder)
    yield Measurement({"episodes": 0 if episodes is None else len(episodes)})
    if episodes is None:
        return
    running.client.disconnect()
    try:
        unlike = first_unlike(running.server(), episodes)
    except NoAnswerError as error:
        unlike = str(error)
    if unlike is not None:
        yield fail(
            f"an episode on record has other answers, {unlike}",
            f"Correct what changed; if it is meant so, record {RECORD} anew, and raise the version.",
        )


def _find_in_seed_effect(running: Running) -> Iterator[Finding]:
    """Find a seed without an effect, in code that draws from it: the same actions have the same answers with any."""
    trials = [trial for trial in running.trials if trial.fault is None]
    if running.reset_method is None or not passes_on(running.reset_method, "seed") or not trials:
        return
    anew = Trials(running.client, running.limits)
    for seed in range(OTHER_SEED, OTHER_SEED + MAX_SEEDS):
        for trial in trials:
            if anew.is_out_of_time or first_difference(trial.answers, anew.replay(trial, seed=seed)) is not None:
                return
    yield warn(
        f"{MAX_SEEDS + 1} seeds give the same episode, though reset draws from its seed",
        "Draw from the seed that reset gets, and from no other; leave the parameter alone where nothing is random.",
    )


def _find_in_state(running: Running) -> Iterator[Finding]:
    trials = [trial for trial in running.trials if trial.fault is None and trial.actions]
    keeps_id = running.reset_method is not None and "episode_id" in accepted(running.reset_method)
    yield from find_in_states(running.client, running.limits, trials, keeps_id=keeps_id)


def _find_in_endurance(running: Running) -> Iterator[Finding | Measurement]:
    trial, pid = running.example(), running.pid
    if trial is not None and pid is not None:
        yield from find_in_endurance(Trials(running.client, running.limits), trial, pid, running.limits.endurance_s)


def _find_in_hostile_actions(running: Running) -> Iterator[Finding | Measurement]:
    yield from _each_while_served(running, find_in_hostile_actions)


def _find_in_floods(running: Running) -> Iterator[Finding | Measurement]:
    yield from _each_while_served(running, partial(find_in_floods, timeout_s=running.limits.answer_s))


def _each_while_served(
    running: Running, find: Callable[[Server], Iterator[Finding | Measurement]]
) -> Iterator[Finding | Measurement]:
    """Yield what is found with the first server, and whether an episode in a new session is what it was before."""
    if not running.plays_as_before:  # which the check before has reported
        return
    running.client.disconnect()
    try:
        yield from find(running.server())
    except NoAnswerError as error:
        yield fail(f"the server does not answer: {error}", _CAUSE)
    trial = running.example()
    if trial is None:
        return
    answers = Trials(running.client, running.limits).replay(trial)
    fault = next((answer["fault"] for answer in answers if "fault" in answer), None)
    different = fault or (first_difference(trial.answers, answers) if running.is_repeatable else None)
    if different is not None:
        running.plays_as_before = False
        yield fail(f"a new session does not play as before: {different}".replace(running.prefix, ""), _STATE)


class _Replayed(NamedTuple):
    """Episode whose actions were sent again.

    Attributes:
        trial: The episode.
        answers: The answers to the same actions.
        difference: The first field that differs, and the player; ``None`` where none does.
    """

    trial: Trial
    answers: list[Answer]
    difference: str | None


def _first_different(running: Running, replay: Callable[[Trial], list[Answer]]) -> str | None:
    """Replay the episodes, as long as there is time, and name the first field that differs."""
    return next((each.difference for each in _each_replayed(running, replay) if each.difference is not None), None)


def _each_replayed(running: Running, replay: Callable[[Trial], list[Answer]]) -> Iterator[_Replayed]:
    for trial in running.trials:
        if trial.fault is not None or running.second.is_out_of_time:
            continue
        answers = replay(trial)
        found = first_difference(trial.answers, answers)
        text = None if found is None else f"{found} ({trial.name})".replace(running.prefix, "")
        yield _Replayed(trial, answers, text)


def _find_in_tools(running: Running) -> Iterator[Finding]:
    try:
        kinds = dict(members(running.client.schemas()["action"]))
        listed = wait_for(fetch_tools, running.client.async_client)
    except OpenEnvError as error:
        yield fail(str(error), _CAUSE)
        return
    remedy = "Give an action a field for each of its values, and an annotation that is a model or a union of models."
    for name, kind in kinds.items():
        if "properties" not in kind:
            yield fail(f"the action {name} is no object with fields, so agents get a tool without parameters", remedy)
    for tool in listed:
        kind = kinds.get(tool.action or "", {})
        fields = kind.get("properties", {}).keys() - {"metadata", *constants(kind)}
        if fields and not tool.input_schema.get("properties"):
            yield fail(f"the tool {tool.name} has no parameters, but {tool.action} has {', '.join(fields)}", remedy)


def _reset(running: Running) -> StepResult[Any]:
    result: StepResult[Any] = running.client.reset(seed=SEED)
    return result


def _first_and_last_line(error: OpenEnvError) -> str:
    """Shorten an error with a log in it to its sentence and the log's last line, which mostly has the reason."""
    lines = str(error).splitlines()
    return lines[0] if not isinstance(error, ProviderError) or len(lines) == 1 else f"{lines[0]} {lines[-1]}"


RUN_CHECKS = (
    Check("runtime.startup", "its server starts and makes an environment", _find_in_start),
    Check("runtime.reset", "the first observation and its class", _find_in_reset),
    Check("runtime.seed_control", "two resets with the same seed", _find_in_seeds, "runtime.seed_control"),
    Check("runtime.tool_declaration_accuracy", "each action is a tool with the action's fields", _find_in_tools),
    Check("runtime.play", "an episode with the scripted player, and with each kind of action", _find_in_play),
    Check("runtime.episode_end", "an episode ends", _find_in_end),
    Check("runtime.recorded_episodes", "the answers to the episodes on record", _find_in_recorded),
    Check("runtime.state_contract", "the state has the episode's name and count of steps", _find_in_state),
    Check(
        "runtime.seed_effect",
        "another seed is another episode, where reset draws from it",
        _find_in_seed_effect,
        "runtime.seed_effect",
    ),
    Check(
        "runtime.process_isolation",
        "the same actions in another process",
        _find_in_repeat,
        warns_as="runtime.episode_determinism",
    ),
    Check(
        "runtime.episode_isolation", "the same actions after an episode, and beside another session", _find_in_sessions
    ),
    Check("runtime.endurance", "many episodes leave nothing in the server's process", _find_in_endurance),
    Check("runtime.hostile_actions", "a session continues after actions of no schema", _find_in_hostile_actions),
    Check("runtime.floods", "floods and cut sockets leave nothing", _find_in_floods),
)
_NEEDED = ("runtime.startup", "runtime.reset", "runtime.play")
