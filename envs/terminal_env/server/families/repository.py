"""Tasks about a small git repository: bring a file back, undo a commit, merge a branch with a conflict."""

from random import Random

from ..task_format import Check, RepositoryCheck, TerminalTask

_KEYS = ("connections", "files", "jobs", "mails", "pages", "retries", "users")
_DOCUMENTS = ("docs/install.md", "docs/upgrade.md", "docs/backup.md")
_HISTORY = ".history"
# The history comes as a stream for `git fast-import`, so that its commits are the same ones every time.
_SETUP = (
    "git init --quiet --initial-branch=main project && cd project && git fast-import --quiet < ../.history && "
    "git checkout --quiet --force main && git config user.name agent && git config user.email agent@localhost && "
    "rm ../.history"
)
_WHERE = "The folder project is a git repository."
_LIMITS = "limits.txt"


class _History:
    """Commits, written down for ``git fast-import``."""

    def __init__(self) -> None:
        self.stream = ""
        self._count = 0

    def commit(self, subject: str, changes: dict[str, str | None], branch: str = "main", start: str = "") -> None:
        """Add a commit; a file without a text is deleted. A new branch starts at another one."""
        self._count += 1
        time = 1_770_000_000 + 3600 * self._count
        parts = [
            f"commit refs/heads/{branch}\ncommitter Robin <robin@localhost> {time} +0000\n",
            _data(subject),
            f"from refs/heads/{start}\n" if start else "",
        ]
        for path, text in changes.items():
            parts.append(f"D {path}\n" if text is None else f"M 100644 inline {path}\n{_data(text)}")
        self.stream += "".join(parts) + "\n"


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}\n"


def make(chance: Random, difficulty: str) -> TerminalTask:
    """Make a task."""
    history, limits = _History(), {key: chance.randint(10, 50) for key in sorted(chance.sample(_KEYS, 5))}
    documents = {path: f"# {path[5:-3].capitalize()}\n\nStep {chance.randint(1, 999)}.\n" for path in _DOCUMENTS}
    history.commit("Begin", {"README.md": "# Project\n", _LIMITS: _text(limits)})
    history.commit("Add the documents", dict(documents))
    make_one = {"easy": _restore, "medium": _undo, "hard": _merge}[difficulty]
    prompt, check = make_one(chance, history, limits, documents)
    return TerminalTask(
        prompt=f"{_WHERE} {prompt}",
        files={_HISTORY: history.stream},
        setup=_SETUP,
        checks=(check,),
        family="repository",
        difficulty=difficulty,
    )


def _text(limits: dict[str, int]) -> str:
    return "".join(f"{key} = {number}\n\n" for key, number in limits.items())


def _restore(chance: Random, history: _History, limits: dict[str, int], documents: dict[str, str]) -> tuple[str, Check]:
    path = chance.choice(_DOCUMENTS)
    documents[path] += f"\nThen step {chance.randint(1, 999)}.\n"
    history.commit("Say what comes next", {path: documents[path]})
    subjects = ["Begin", "Add the documents", "Say what comes next", "Tidy up", "Allow more"]
    history.commit("Tidy up", {path: None, "README.md": "# The project\n"})
    key = chance.choice(sorted(limits))
    limits[key] += 5
    history.commit("Allow more", {_LIMITS: _text(limits)})
    prompt = f"A commit has deleted {path} by mistake. Bring the file back as it last was, and commit that on main."
    files = {path: documents[path], "README.md": "# The project\n", _LIMITS: _text(limits)}
    return prompt, _check(files, subjects)


def _undo(chance: Random, history: _History, limits: dict[str, int], documents: dict[str, str]) -> tuple[str, Check]:
    wrong, *others = chance.sample(sorted(limits), 3)
    subjects = [f"Change the limit of {key}" for key in (others[0], wrong, others[1])]
    before = limits[wrong]
    for subject, key in zip(subjects, (others[0], wrong, others[1]), strict=True):
        limits[key] += chance.randint(1, 9)
        history.commit(subject, {_LIMITS: _text(limits)})
    limits[wrong] = before
    prompt = (
        f'The commit "{subjects[1]}" was a mistake. Undo what it changed with a new commit on main, and keep what was '
        "committed after it."
    )
    return prompt, _check({_LIMITS: _text(limits)} | documents, ["Begin", *subjects])


def _merge(chance: Random, history: _History, limits: dict[str, int], documents: dict[str, str]) -> tuple[str, Check]:
    both, ours, theirs = chance.sample(sorted(limits), 3)
    branch = chance.choice(("faster", "season", "trial"))
    on_branch = limits | {both: limits[both] + chance.randint(1, 40), theirs: limits[theirs] + 3}
    on_main = limits | {both: limits[both] + chance.randint(41, 80), ours: limits[ours] + 7}
    if chance.random() < 0.5:
        on_branch[both], on_main[both] = on_main[both], on_branch[both]
    history.commit(f"Raise limits for {branch}", {_LIMITS: _text(on_branch)}, branch, start="main")
    history.commit("Raise limits", {_LIMITS: _text(on_main)})
    merged = {key: max(on_branch[key], on_main[key]) for key in limits}
    prompt = (
        f"Merge the branch {branch} into main. Where both have changed the same limit in {_LIMITS}, keep the greater "
        "number; "
        "of all other changes keep both sides'."
    )
    return prompt, _check({_LIMITS: _text(merged)} | documents, ["Raise limits", f"Raise limits for {branch}"])


def _check(files: dict[str, str], subjects: list[str]) -> Check:
    return RepositoryCheck(name="the branch main", path="project", files=files, subjects=tuple(subjects))
