"""``openenv push``: publish an environment's folder, as a Space on the Hub or as an image in a registry."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from openenv.auto.manifest import MANIFEST_FILE, Manifest, load_manifest
from openenv.cli.groups import command_app
from openenv.cli.hub import is_interactive, show_progress_to_people_only
from openenv.cli.key_values import read_secrets, read_variables
from openenv.cli.options import Private, secret_option, space_option, variable_option
from openenv.cli.views.image_start import start_image
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError
from openenv.core.providers.spaces import space_url
from openenv.core.providers.venv.wheel import is_from_index, pack_openenv
from openenv.core.wire.names import TOKEN_VARIABLE
from openenv.hub.ignoring import read_patterns
from openenv.hub.names import checked_repo_id
from openenv.hub.staging import ROOT_DOCKERFILE, Look, missing_files, sizes_of, stage
from openenv.images.builder import Build, build_image
from openenv.images.context import WHEELS
from openenv.images.dockerfile import Dockerfile
from openenv.images.registry import image_name, push_image
from openenv.validation.code_checks import offers_only_tools
from openenv.validation.findings import run_check
from openenv.validation.folder_checks import CHECKS
from openenv.validation.policy import OWN_POLICY, failing, load_policy
from openenv.validation.report import CheckResult
from openenv.validation.source import Source, read_source

YOU = "YOU"
"""Owner of the Space in a dry run, which does not look up the account that is logged in."""
SECRETS = "static.secrets"
SETTINGS = ("--private", "--hardware", "--env-var", "--secret")
"""Options that change a Space, beside its files."""

image_option, files_option = (partial(typer.Option, rich_help_panel=heading) for heading in ("Image", "Files"))

Directory = Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Folder of the environment.")]
RepoId = Annotated[
    str | None,
    typer.Option(
        "--repo-id", "-r", metavar="[OWNER/]NAME", help="Name of the Space.  [default: yours, named as it is]"
    ),
]
BaseImage = Annotated[
    str | None, image_option("--base-image", "-b", help="Image to build on, instead of the Dockerfile's.")
]
Interface = Annotated[bool, space_option("--interface", help="Show browsers the server's start page.  [default]")]
NoInterface = Annotated[bool, space_option("--no-interface", help="Show browsers no start page.")]
Registry = Annotated[
    str | None,
    image_option(help="Registry to publish an image in, instead of a Space, as in ghcr.io/me; needs docker."),
]
CreatePr = Annotated[bool, space_option("--create-pr", help="Propose it to the Space's owner, as a pull request.")]
Exclude = Annotated[
    Path | None,
    files_option(metavar="FILE", exists=True, dir_okay=False, help="File with a glob a line, of files to leave out."),
]
Delete = Annotated[
    list[str] | None,
    files_option(metavar="GLOB", help="Files of the Space to delete; may be given again.", show_default=False),
]
Hardware = Annotated[str | None, space_option("--hardware", "-H", help="Hardware that it runs on, as in cpu-upgrade.")]
Count = Annotated[int, typer.Option("--count", "-n", min=1, help="Spaces to push to, named NAME-1, NAME-2, ...")]
EnvVar = Annotated[list[str] | None, variable_option("--env-var", "-e")]
Secret = Annotated[list[str] | None, secret_option("--secret")]
SkipValidation = Annotated[
    bool, typer.Option("--skip-validation", help="Look for tokens and keys only; start no image.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")]


@dataclass(frozen=True)
class _Settings:
    """Settings of a Space, beside its files."""

    private: bool
    create_pr: bool
    hardware: str | None
    variables: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)
    delete: tuple[str, ...]


def push(
    directory: Directory = Path(),
    repo_id: RepoId = None,
    base_image: BaseImage = None,
    interface: Interface = False,
    no_interface: NoInterface = False,
    registry: Registry = None,
    private: Private = False,
    create_pr: CreatePr = False,
    exclude: Exclude = None,
    delete: Delete = None,
    hardware: Hardware = None,
    count: Count = 1,
    env_var: EnvVar = None,
    secret: Secret = None,
    skip_validation: SkipValidation = False,
    dry_run: DryRun = False,
) -> None:
    """Publish an environment's folder: as a Space on the Hub, or as an image in a registry.

    It is checked first, as `openenv validate --no-run` does. Hidden files, what was built, and outputs/ are left out.
    """
    of_a_space = {
        "--repo-id": repo_id,
        "--private": private,
        "--create-pr": create_pr,
        "--delete": delete,
        "--hardware": hardware,
        "--count": count > 1,
        "--env-var": env_var,
        "--secret": secret,
    }
    _check_together("--no-interface", no_interface, {"--interface": interface})
    _check_together("--registry", registry, of_a_space)
    _check_together("--create-pr", create_pr, {name: of_a_space[name] for name in SETTINGS})
    variables, secrets = read_variables(env_var or [], "--env-var"), read_secrets(secret or [], "--secret")
    folder, manifest = _folder(directory), _manifest(directory)
    wanted = _checked_id(repo_id or manifest.name)
    _check_structure(folder)
    look = Look(manifest.name.replace("_", " ").title(), manifest.port, not no_interface, base_image)
    with tempfile.TemporaryDirectory(prefix="openenv-push-") as aside:
        staged = Path(aside) / folder.name
        stage(folder, staged, look, read_patterns(exclude) if exclude else ())
        _check(staged, only_secrets=skip_validation)
        if registry is not None:
            _push_image(staged, image_name(registry, manifest.name), dry_run, with_start=not skip_validation)
            return
        _add_wheel(staged)
        variables = {**manifest.variables, **variables}
        space = _Settings(private, create_pr, hardware, variables, secrets, tuple(delete or ()))
        message = f"Push {manifest.name} {manifest.version}"
        _push_spaces(staged, wanted, count, message, space, dry_run)


app = command_app("push", push)
"""The command as an application, for programs."""


def _check_together(option: str, given: object, others: Mapping[str, object]) -> None:
    """Refuse options that contradict each other."""
    conflicting = [name for name, value in others.items() if value]
    if given and conflicting:
        raise ConfigurationError(f"{option} does not go with {', '.join(conflicting)}; leave one of them out.")


def _folder(directory: Path) -> Path:
    if not directory.is_dir():
        raise typer.BadParameter(f"There is no folder {directory}.")
    return directory.resolve()


def _manifest(directory: Path) -> Manifest:
    if not (directory / MANIFEST_FILE).is_file():
        raise EnvironmentNotFoundError(
            f"{directory} holds no {MANIFEST_FILE}; `openenv init NAME` makes such a folder."
        )
    return load_manifest(directory)


def _checked_id(repo_id: str) -> str:
    try:
        return checked_repo_id(repo_id)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from error


def _check_structure(folder: Path) -> None:
    source = read_source(folder)
    if source.top_folder != source.folder:
        raise typer.BadParameter(f"{folder} is a part of the package in {source.top_folder}; push that folder.")
    missing = missing_files(folder, with_client=not offers_only_tools(source))
    if missing:
        raise typer.BadParameter(f"{folder} lacks {', '.join(missing)}; `openenv init NAME` shows what each is.")
    if not (folder / "outputs").is_dir():
        typer.echo(f"Warning: {folder.name} has no folder outputs/, where runs leave what they write.", err=True)


def _check(staged: Path, *, only_secrets: bool) -> None:
    """Refuse what can't work once it is published, and files that would publish a secret."""
    failed = failing(_results(read_source(staged), only_secrets), load_policy(OWN_POLICY))
    for result in failed:
        typer.echo(f"{result.check_id}:", err=True)
        remedies = (result.remediation or "").splitlines()
        for text in (*result.evidence, *(f"→ {remedy}" for remedy in remedies)):
            typer.echo(f"  {text}", err=True)
    if not failed:
        return
    if any(result.check_id == SECRETS for result in failed):
        raise ConfigurationError("Nothing was pushed. What is no secret after all can be left out with --exclude.")
    raise ConfigurationError("Nothing was pushed; correct that first. With --skip-validation it is pushed as it is.")


def _results(source: Source, only_secrets: bool) -> list[CheckResult]:
    checks = [check for check in CHECKS if check.id == SECRETS or not only_secrets]
    return [result for check in checks for result in run_check(check, source)]


def _add_wheel(staged: Path) -> None:
    """Send the OpenEnv that runs here along, unless an index has it, from which the Space installs it."""
    if not is_from_index() and Dockerfile(staged / ROOT_DOCKERFILE).mentions(WHEELS):
        pack_openenv(staged / WHEELS)


def _push_image(staged: Path, image: str, dry_run: bool, *, with_start: bool) -> None:
    if not dry_run:
        built = build_image(Build(folder=staged, tag=image, dockerfile=staged / ROOT_DOCKERFILE))
        if with_start:
            start_image(built, load_manifest(staged), left_out_by="--skip-validation")
        push_image(image)
        typer.echo(f"Pushed {image}, which is {built.id}")
        return
    _show_files(f"the image {image}", sizes_of(staged))
    typer.echo(f"Commands that a push would run:\n  docker build --tag {image} FOLDER\n  docker push {image}")


def _push_spaces(
    staged: Path,
    wanted: str,
    count: int,
    message: str,
    space: _Settings,
    dry_run: bool,
) -> None:
    from openenv.hub.client import Hub  # with its library, which takes long, and which few commands need
    from openenv.hub.pushing import Push, calls_of
    from openenv.hub.pushing import push as push_to

    hub = Hub()
    show_progress_to_people_only()
    if not dry_run:
        hub.log_in(may_prompt=is_interactive())
    if "/" not in wanted:
        wanted = f"{YOU if dry_run else hub.user()}/{wanted}"
    names = [wanted] if count == 1 else [f"{wanted}-{number}" for number in range(1, count + 1)]
    _print_access(names, space)
    for name in names:
        what = Push(staged, name, message, **vars(space))
        if dry_run:
            _show_files(f"the Space {name}", sizes_of(staged))
            typer.echo(f"Calls that a push would make to {hub.endpoint}:")
            who = ["GET /api/whoami-v2"] if name.startswith(f"{YOU}/") else []
            typer.echo("\n".join(f"  {line}" for line in (*who, *calls_of(what))))
            continue
        pushed = push_to(what, hub)
        _print_result(name, pushed.page, pushed.pull_request, pushed.changed, pushed.opened)


def _print_access(names: Sequence[str], space: _Settings) -> None:
    """Warn, before anything is sent, of what a push opens to others; a pull request opens nothing."""
    from openenv.hub.pushing import OPEN  # with the Hub's library, as below

    if space.create_pr:
        return
    if not space.private:
        typer.echo(f"{', '.join(names)}: open to all, unless private already. --private keeps it to you.")
    if OPEN[0] not in space.variables and TOKEN_VARIABLE not in space.secrets:
        typer.echo(
            f"Who sees it may play there: its server needs no token ({'='.join(OPEN)}), unless the Space has "
            f"another setting. To require a token: --secret {TOKEN_VARIABLE} -e {OPEN[0]}=token."
        )


def _show_files(what: str, sizes: Mapping[PurePosixPath, int]) -> None:
    typer.echo(f"Dry run: nothing is sent. {what[:1].upper()}{what[1:]} would have {len(sizes)} files:")
    for path, size in sizes.items():
        typer.echo(f"  {size:>10,}  {path}")
    typer.echo(f"  {sum(sizes.values()):>10,}  bytes in all")


def _print_result(name: str, page: str, pull_request: str | None, changed: bool, opened: bool) -> None:
    if pull_request is not None:
        typer.echo(f"Proposed to {name}: {pull_request}")
        return
    typer.echo(f"Pushed {name}: {page}" if changed else f"Nothing has changed in {name}: {page}")
    typer.echo(f"  once it is built   openenv play {space_url(name)}")
    if opened:
        typer.echo("  without a token, since OPENENV_AUTH=none was set")
