"""File of traces: episodes are queried, read, added and removed. Servers may write it meanwhile."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import ValidationError

from openenv.core.env_server.settings import check_field_path
from openenv.core.env_server.traces.blobs import put_back
from openenv.core.env_server.traces.columns import lines_in
from openenv.core.env_server.traces.database import STORE_ERRORS
from openenv.core.env_server.traces.sqlite import is_damage
from openenv.core.env_server.traces.store import (
    alive_since,
    database_at,
    name_of,
    number_of,
    prune,
    remove,
    write_label,
)
from openenv.core.exceptions import ConfigurationError, IncompleteTraceError
from openenv.core.schema.generator import faults_text
from openenv.traces.additions import (
    AddedEpisodes,
    conversation_of,
    score_of,
    write_conversations,
    write_score,
)
from openenv.traces.episodes import (
    EPISODE,
    Conversation,
    Entry,
    Episode,
    EpisodeRecord,
    Filter,
    Flag,
    Group,
    Order,
    Score,
)
from openenv.traces.queries import (
    COMPONENTS,
    ENVIRONMENTS,
    FLAG_VALUES,
    FLAGS,
    LABELS,
    MODELS,
    TOKEN_NAMES,
    Query,
    episode_of,
    flags_of,
)

_Value = TypeVar("_Value")

# Seconds for a search in listed episodes, each by itself, before the whole file is searched.
_EACH_EPISODE_S = 0.2
# Forks of forks that are followed to the first episode.
_MAX_FORKS = 1000


def open(  # noqa: A001  # read as traces.open
    path: str | Path, *, create: bool = False, leave_out: Sequence[str] = ()
) -> "TraceFile":
    """Open traces. Tables of an earlier version are migrated; of a file that can't be written, in a copy.

    Args:
        path: The file, or the address of a PostgreSQL database, ``postgresql://USER@HOST/DATABASE``.
        create: Whether to create the file, or the tables, if there are none.
        leave_out: Paths of fields that are left out of what is added, such as ``observation.screenshot``; see
            ``--traces-leave-out``.

    Raises:
        ConfigurationError: There is no such file, it has no traces, is damaged, or is of a later version; or a path
            begins with no part of an episode.

    Example::

        with openenv.traces.open("traces.db") as traces:
            for episode in traces.episodes(Filter(environment="catch", min_reward=1.0)):
                print(episode.id, [entry.request for entry in traces.entries(episode.id)])
    """
    if create:
        database_at(path).prepare()
    return TraceFile(path, [check_field_path(each) for each in leave_out])


class TraceFile:
    """Traces in a file or a database; a context manager.

    Args:
        path: The file, or the address of a PostgreSQL database, ``postgresql://USER@HOST/DATABASE``.
        leave_out: Paths of fields that are left out of what is added, such as ``observation.screenshot``.

    Attributes:
        name: The path, or the address without its password.

    Raises:
        ConfigurationError: There is no such file, it has no traces, is damaged, or is of a later version; or a path
            begins with no part of an episode.
    """

    def __init__(self, path: str | Path, leave_out: Sequence[str] = ()) -> None:
        database = database_at(path)
        self.name = database.name
        self._leave_out = leave_out
        self._added: AddedEpisodes | None = None
        self._opening = ExitStack()
        with self._usable():
            self._connection = self._opening.enter_context(database.open())

    def __enter__(self) -> Self:
        """Return the open file."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file; entries that were not read yet can't be read any more."""
        try:
            if self._added is not None:
                with self._usable():
                    self._added.close()
        finally:
            self._opening.close()

    def episodes(
        self,
        where: Filter | None = None,
        limit: int | None = None,
        *,
        after: str | None = None,
        before: str | None = None,
        order: Order = "newest",
    ) -> Iterator[Episode]:
        """Iterate over episodes, by default the newest first, without reading their entries.

        Args:
            where: Filter; by default all.
            limit: Maximum number.
            after: Id of the last episode of the page before, to continue after it.
            before: Id of the first episode of the page after, for the episodes ahead of it: the nearest comes first.
            order: Which come first: ``newest``, ``oldest``, ``best`` or ``worst`` by their reward, ``longest`` or
                ``shortest`` by their steps; of equal ones, the newest. Episodes without a reward come last by it.

        Raises:
            ConfigurationError: There is no such order, no episode ``after`` or ``before``, both are given, or the file
                is damaged or locked.

        Example::

            first = list(traces.episodes(limit=50))
            second = list(traces.episodes(limit=50, after=first[-1].id))
        """
        if after is not None and before is not None:
            raise ConfigurationError(f"Expected after or before, got both: {after!r} and {before!r}.")
        query = Query(where, order)
        if after is not None:
            query = query.behind(self._number_of(after))
        if before is not None:
            query = query.ahead(self._number_of(before))
        for row in self._rows(query, partial(query.episodes, limit)):
            yield episode_of(row)

    def count(self, where: Filter | None = None) -> int:
        """Return the number of episodes.

        Args:
            where: Filter; by default all.

        Raises:
            ConfigurationError: The file is damaged or locked.
        """
        query = Query(where)
        ((number,),) = self._rows(query, query.count)
        return int(number)

    def groups(self, *by: str, where: Filter | None = None, limit: int | None = None) -> list[Group]:
        """Count episodes by values, the group with the newest episode first.

        Args:
            by: Names of the values to group by: ``environment``, ``version``, ``transport``, ``split``, ``index``,
                ``seed``, ``task_seed`` (the seed, where the task has no index), ``ending``, ``error``, ``model``,
                ``label``, or ``run``, a number for each time a server was started.
            where: Filter; by default all.
            limit: Maximum number.

        Raises:
            ConfigurationError: There is no such name, or the file is damaged or locked.

        Example::

            for task in traces.groups("environment", "split", "index"):
                print(task.key, task.episodes, task.mean_reward)
        """
        query = Query(where)
        rows = self._rows(query, partial(query.groups, by, limit))
        return [Group(dict(zip(by, row, strict=False)), *row[len(by) :]) for row in rows]

    def episode(self, name: str) -> Episode:
        """Return an episode by its id.

        Raises:
            ConfigurationError: There is no such episode, or the file is damaged or locked.
        """
        query = Query().with_number(number_of(name))
        found = [episode_of(row) for row in self._rows(query, query.episodes)]
        if not found:
            raise ConfigurationError(
                f"Expected the id of an episode in {self.name}, as openenv traces list shows it, got {name!r}."
            )
        return found[0]

    def environments(self) -> list[str]:
        """Return the names of the environments of episodes, without reading the episodes.

        Raises:
            ConfigurationError: The file is damaged or locked.
        """
        return self._names(ENVIRONMENTS)

    def models(self) -> list[str]:
        """Return the names of the models and players that the newest episodes' conversations are of.

        Raises:
            ConfigurationError: The file is damaged or locked.
        """
        return self._names(MODELS)

    def components(self) -> list[str]:
        """Return the names of the components that the rewards of the newest episodes have.

        Raises:
            ConfigurationError: The file is damaged or locked.
        """
        return self._names(COMPONENTS)

    def flags(self, names: Sequence[str]) -> dict[str, list[Flag]]:
        """Return the flags of episodes, such as ``error`` or ``no_variance``, by their ids.

        Args:
            names: Ids of at most 500 episodes; others than those on record are left out.

        Raises:
            ConfigurationError: The file is damaged or locked.
        """
        numbers = [number for number in map(number_of, names) if number is not None]
        if not numbers:
            return {}
        values: dict[str, Any] = {f"number_{at}": number for at, number in enumerate(numbers)}
        with self._usable():
            values |= {"alive": alive_since(self._connection), **FLAG_VALUES}
            rows = self._connection.execute(flags_of(len(numbers)), values).fetchall()
        return {name_of(number): [flag for flag, has in zip(FLAGS, own, strict=True) if has] for number, *own in rows}

    def token_names(self) -> list[str]:
        """Return the names of the tokens that clients showed, without reading the episodes.

        Raises:
            ConfigurationError: The file is damaged or locked.
        """
        return self._names(TOKEN_NAMES)

    def labels(self) -> list[str]:
        """Return the labels that episodes have, without reading the episodes.

        Raises:
            ConfigurationError: The file is damaged or locked.
        """
        return self._names(LABELS)

    def entries(
        self, name: str, start: int = 0, stop: int | None = None, *, long_values: bool = True
    ) -> Iterator[Entry]:
        """Iterate over the entries of an episode, those before a fork included.

        Args:
            name: Id of the episode.
            start: Number of the first entry to read, from 0; those before it are not decoded.
            stop: Number of the entry to stop before; ``None`` for the end.
            long_values: Whether to read pictures and arrays of 2 KiB or more; without them, 0 stands for each.

        Raises:
            IncompleteTraceError: Some of its entries are not on record, or can't be read.
            ConfigurationError: There is no such episode, or the file is damaged.
        """
        number = self._number_of(name)
        blob = self._blob if long_values else _left_out
        position = 0
        for ancestor, count in self._lineage(number):
            own_stop = _least(count, None if stop is None else stop - position)
            yield from self._entries_of(ancestor, max(0, start - position), own_stop, blob)
            position += count or 0

    def conversations(self, name: str) -> list[Conversation]:
        """Return the conversations that the model's side added to an episode; mostly one, or none.

        Args:
            name: Id of the episode.

        Raises:
            IncompleteTraceError: A conversation can't be read.
            ConfigurationError: There is no such episode, or the file is damaged or locked.
        """
        episode_id = self.episode(name).episode_id
        query = "SELECT episode_id, content FROM conversation WHERE episode_id = ? ORDER BY at"
        with self._usable():
            rows = self._connection.execute(query, (episode_id,)).fetchall()
        return [_read(name, conversation_of, *row) for row in rows]

    def scores(self, name: str) -> list[Score]:
        """Return the scores that other rubrics gave an episode, oldest first.

        Args:
            name: Id of the episode.

        Raises:
            IncompleteTraceError: A score can't be read.
            ConfigurationError: There is no such episode, or the file is damaged or locked.
        """
        self.episode(name)
        query = "SELECT name, at, content FROM score WHERE episode = ? ORDER BY at"
        with self._usable():
            rows = self._connection.execute(query, (number_of(name),)).fetchall()
        return [_read(name, score_of, *row) for row in rows]

    def record(self, name: str) -> EpisodeRecord:
        """Return an episode with all that is on record of it.

        Args:
            name: Id of the episode.

        Raises:
            ConfigurationError: There is no such episode, or the file is damaged.
        """
        episode = self.episode(name)
        return EpisodeRecord(episode, list(self.entries(name)), self.conversations(name), self.scores(name))

    def records(self, where: Filter | None = None, limit: int | None = None) -> Iterator[EpisodeRecord]:
        """Iterate over episodes with all that is on record of them, newest first, reading one after another.

        Episodes that are not on record as a whole, or can't be read, are left out.

        Args:
            where: Filter; by default all.
            limit: Maximum number of episodes to read.

        Raises:
            ConfigurationError: The file is damaged or locked.
        """
        for episode in self.episodes(where, limit):
            with suppress(IncompleteTraceError):
                yield self.record(episode.id)

    def add(self, episode: Episode, entries: Iterable[Entry], conversations: Iterable[Conversation] = ()) -> str:
        """Add an episode that was played elsewhere.

        Args:
            episode: The episode; its ``id`` and ``parent`` are not kept.
            entries: Its entries, which are read one after another.
            conversations: Conversations of the model's side.

        Returns:
            The id of the episode in this file.

        Raises:
            ConfigurationError: The file can't be written, or a value has no form in it.
        """
        with self._usable():
            if self._added is None:
                self._added = AddedEpisodes(self._connection, self._leave_out)
            try:
                return self._added.add(episode, entries, conversations)
            except (ValueError, TypeError, OverflowError) as error:
                raise ConfigurationError(f"The episode can't be stored in {self.name}: {error}") from error

    def add_conversation(self, conversation: Conversation) -> None:
        """Add a conversation of the model's side to the episode with its ``episode_id``.

        The episode may be recorded later, or is there already.

        Raises:
            ConfigurationError: The file can't be written.
        """
        self.add_conversations([conversation])

    def add_conversations(self, conversations: Iterable[Conversation]) -> None:
        """Add conversations of the model's side to several episodes, all or none, as ``add_conversation`` does.

        Raises:
            ConfigurationError: The file can't be written.
        """
        with self._usable():
            write_conversations(self._connection, conversations, self._leave_out)

    def add_score(self, name: str, score: Score) -> None:
        """Add a score to an episode. It replaces an earlier score of the same name.

        Args:
            name: Id of the episode.
            score: The score.

        Raises:
            ConfigurationError: There is no such episode, or the file can't be written.
        """
        self.episode(name)
        with self._usable():
            write_score(self._connection, number_of(name) or 0, score)

    def label(
        self, name: str, label: str | None, note: str | None = None, *, replaces: Sequence[str | None] | None = None
    ) -> Episode:
        """Give an episode a label and a note, which replace those that it has.

        Args:
            name: Id of the episode.
            label: ``good``, ``bad`` or another word, of up to 60 characters; ``None`` for none.
            note: A text of up to 10,000 characters; ``None`` for none.
            replaces: The label and the note to replace; others, which another person gave it, stay. ``None`` for any.

        Returns:
            The episode as it is then.

        Raises:
            ConfigurationError: There is no such episode, the label or the note is too long or empty, or the file can't
                be written.

        Example::

            traces.label("1-17", "good", "finds the shortest way")
        """
        episode = self.episode(name)
        try:
            labelled = EPISODE.validate_python(replace(episode, label=label, note=note))
        except ValidationError as error:
            raise ConfigurationError(faults_text(error.errors(include_url=False, include_context=False))) from error
        with self._usable():
            write_label(self._connection, self._number_of(name), (label, note), replaces)
        return labelled if replaces is None else self.episode(name)

    def prune(self, *, before: float | None = None, max_bytes: float | None = None) -> int:
        """Remove the oldest episodes, but for those that run now.

        Args:
            before: Remove episodes that began before this time, in seconds since 1970.
            max_bytes: Remove until the file's contents are no larger.

        Returns:
            The number of removed episodes.

        Raises:
            ConfigurationError: The file can't be written.
        """
        with self._usable():
            return prune(self._connection, before=before, max_bytes=max_bytes)

    def remove(self, names: list[str]) -> int:
        """Remove episodes by their ids; return the number of removed episodes.

        Raises:
            ConfigurationError: The file can't be written.
        """
        numbers = [number for number in map(number_of, names) if number is not None]
        with self._usable():
            return remove(self._connection, numbers)

    def _names(self, query: str) -> list[str]:
        with self._usable():
            return [name for (name,) in self._connection.execute(query)]

    def _number_of(self, name: str) -> int:
        """Return the number of an episode that is on record."""
        self.episode(name)
        number = number_of(name)
        assert number is not None
        return number

    def _lineage(self, number: int) -> list[tuple[int, int | None]]:
        """Return the episodes that an episode continues, oldest first, and how many entries to read of each."""
        lineage: list[tuple[int, int | None]] = [(number, None)]
        while len(lineage) < _MAX_FORKS:
            with self._usable():
                found = self._connection.execute(
                    "SELECT parent, parent_entries FROM episode WHERE number = ?", (lineage[0][0],)
                ).fetchone()
            if found is None:
                raise IncompleteTraceError(
                    f"The episode {name_of(number)} continues the episode {name_of(lineage[0][0])}, which is not on "
                    "record any more."
                )
            if found[0] is None:
                break
            if not all(isinstance(number, int) for number in found):
                raise IncompleteTraceError(f"What the episode {name_of(lineage[0][0])} continues can't be read.")
            lineage.insert(0, found)
        return lineage

    def _entries_of(self, number: int, start: int, stop: int | None, blob: Callable[[str], bytes]) -> Iterator[Entry]:
        """Iterate over the entries ``start`` to ``stop`` of one episode, without those before a fork."""
        position = 0
        for part, count in self._parts_of(number):
            if stop is not None and position >= stop:
                return
            if count is not None and position + count <= start:
                position += count
                continue
            for line in self._content_of(number, part, blob):
                if position >= start and (stop is None or position < stop):
                    yield _read(name_of(number), Entry.of_line, line)
                position += 1

    def _parts_of(self, number: int) -> Iterator[tuple[int, int | None]]:
        """Iterate over the numbers of an episode's parts, and how many entries each has, where that is known."""
        with self._usable():
            parts = self._connection.execute(
                "SELECT number, entries FROM part WHERE episode = ? ORDER BY number", (number,)
            ).fetchall()
        for expected, (part, count) in enumerate(parts, 1):
            if part != expected:
                raise IncompleteTraceError(
                    f"Some entries of the episode {name_of(number)} are not on record, since the traces could not be "
                    "written then."
                )
            yield part, count if isinstance(count, int) else None

    def _content_of(self, number: int, part: int, blob: Callable[[str], bytes]) -> list[bytes]:
        with self._usable():
            found = self._connection.execute(
                "SELECT content FROM part WHERE episode = ? AND number = ?", (number, part)
            ).fetchone()
            # An episode that is removed meanwhile ends here.
            content = b"" if found is None else put_back(self._bytes_of(found[0]), blob)
        return _read(name_of(number), lines_in, content) if content else []

    def _blob(self, name: str) -> bytes:
        found = self._connection.execute("SELECT content FROM blob WHERE hash = ?", (name,)).fetchone()
        if found is None:
            raise IncompleteTraceError(f"The traces {self.name} are damaged: they lack the value {name}.")
        return self._bytes_of(found[0])

    def _bytes_of(self, value: Any) -> bytes:
        """Return a value of a column of bytes, in which SQLite takes any other."""
        if not isinstance(value, bytes):
            raise IncompleteTraceError(f"The traces {self.name} are damaged: expected bytes, got {value!r:.40}.")
        return value

    def _rows(self, query: Query, sql: Callable[[], str]) -> Iterator[tuple[Any, ...]]:
        with self._usable():
            written = sql()
            values = {**query.values, "alive": alive_since(self._connection)}
            if query.has_text:
                rows = self._connection.rows_within(written, values, _EACH_EPISODE_S)
                if rows is not None:
                    yield from rows
                    return
                query.search_file()
                written = sql()
            yield from self._connection.stream(written, values)

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except ConfigurationError:  # which is a ValueError
            raise
        except (*STORE_ERRORS, ValueError, OverflowError) as error:
            what = "are damaged" if is_damage(error) else "can't be used"
            raise ConfigurationError(f"The traces {self.name} {what}: {str(error).removesuffix('.')}.") from error


def _left_out(name: str) -> bytes:
    """Return the stand-in of a long value, which is JSON within a string and without one."""
    return b"0"


def _read(name: str, read: Callable[..., _Value], *content: Any) -> _Value:
    """Read a part of an episode's record, whatever has written it."""
    try:
        return read(*content)
    except (ValueError, TypeError) as error:
        raise IncompleteTraceError(
            f"A part of what is on record of the episode {name} can't be read: {error}"
        ) from error


def _least(one: int | None, other: int | None) -> int | None:
    given = [number for number in (one, other) if number is not None]
    return min(given) if given else None
