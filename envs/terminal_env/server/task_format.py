"""Parts of a task: a prompt, files, and checks. Tasks made by chance and those of a file have the same form."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Check(_Part):
    """Parts of all checks.

    Attributes:
        name: Name that an agent sees at the end.
        required: Whether it gives nothing by itself, but all is lost where it fails: for what must stay as it is.
    """

    name: str = Field(min_length=1)
    required: bool = False

    @property
    def holds_for_nothing(self) -> bool:
        """Return whether deleting everything satisfies the check."""
        return False


class FileCheck(_Check):
    """A file holds this text. Blanks at the ends of lines, and empty lines at the end, do not matter.

    Attributes:
        path: From the work folder on.
        text: What it has to hold.
    """

    type: Literal["file"] = "file"
    path: str
    text: str


class JsonCheck(_Check):
    """A JSON file has this value at a path.

    Attributes:
        path: From the work folder on.
        keys: The path to the value: keys of objects, indices of lists; empty for the whole.
        value: The value.
        missing: Whether there must be no such path at all.
    """

    type: Literal["json"] = "json"
    path: str
    keys: tuple[str | int, ...] = ()
    value: Any = None
    missing: bool = False


class FolderCheck(_Check):
    """A folder has exactly these files, in it and below it, with this text; folders do not count.

    A check without files, which deleting everything would satisfy too, counts only where all other checks hold.

    Attributes:
        path: From the work folder on.
        files: The text of each file, by its path from that folder on. Without any, the folder may be missing.
    """

    type: Literal["folder"] = "folder"
    path: str
    files: dict[str, str]

    @property
    def holds_for_nothing(self) -> bool:
        """Return whether deleting everything satisfies the check."""
        return not self.files


class ProgramCheck(_Check):
    """A command gives this output, run on copies in a sandbox of its own, with files that the agent has not seen.

    Attributes:
        copies: Files that are copied from the agent's sandbox.
        files: Further files.
        command: The command and its arguments.
        output: What it has to write to its standard output; blanks as for a file.
    """

    type: Literal["program"] = "program"
    copies: tuple[str, ...]
    files: dict[str, str] = Field(default_factory=dict)
    command: tuple[str, ...] = Field(min_length=1)
    output: str


class RepositoryCheck(_Check):
    """A git repository has this on a branch, as commits, whatever lies in its folder.

    Attributes:
        path: From the work folder on.
        branch: The branch.
        files: The text of files in its last commit.
        subjects: Subjects of commits that it has to have, in any order.
    """

    type: Literal["repository"] = "repository"
    path: str
    branch: str = "main"
    files: dict[str, str] = Field(default_factory=dict)
    subjects: tuple[str, ...] = ()


Check = Annotated[FileCheck | JsonCheck | FolderCheck | ProgramCheck | RepositoryCheck, Field(discriminator="type")]


class TerminalTask(_Part):
    """A job for a shell.

    Attributes:
        prompt: What to do.
        files: The text of each file that is there, by its path from the work folder on.
        setup: A shell command that is run once the files are there.
        checks: What is looked at in the end; not all of them are ``required``.
        family: Of what kind it is.
        difficulty: How hard it is meant to be.
    """

    prompt: str = Field(min_length=1)
    files: dict[str, str] = Field(default_factory=dict)
    setup: str = ""
    checks: tuple[Check, ...]
    family: str | None = None
    difficulty: str | None = None

    @field_validator("checks")
    @classmethod
    def _some_count(cls, checks: tuple[Check, ...]) -> tuple[Check, ...]:
        if all(check.required for check in checks):
            raise ValueError("at least one check that is not 'required'")
        if len({check.name for check in checks}) < len(checks):
            raise ValueError("checks with different names")
        return checks
