"""The `draftgate` command. Prints at the edge only; commands are imported when they are called."""

import importlib
import logging
import sys
import traceback
from collections.abc import Sequence

import click

from orchestrator import __version__, log

# name → module in orchestrator/command, help line. The help must answer in a quarter of a second,
# and importing a schema library alone takes half of that.
_COMMANDS = {
    "check": "List every problem of profiles and fleets, all at once.",
    "render": "Print what an engine is started with for a profile or a fleet.",
    "explain": "Tell what an engine makes of each key of a profile.",
    "up": "Start a fleet's workers and hold them.",
    "down": "End a fleet's workers, after their running requests.",
    "status": "Tell what really runs.",
    "gate": "Prove that speculating output is plain output, token by token.",
    "certificate": "Show, verify and sign what the gate has found.",
    "classify": "Tell which type rule matches each request of a file, and why.",
    "key": "Make an API key for a client of the router.",
    "serve": "Route requests to a fleet's workers by type and load.",
    "demo": "Do the whole job on this machine: start, prove, route, measure.",
}


class _Lazy(click.Group):
    """A group that imports a command's module only when it runs or shows its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command = importlib.import_module(f"orchestrator.command.{name}").command
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.command(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "DRAFTGATE"},
)
@click.version_option(__version__, prog_name="draftgate")
@click.option("--debug", is_flag=True, help="Show tracebacks and debug messages.")
@click.pass_context
def run(ctx: click.Context, debug: bool) -> None:
    """Speculative decoding, made safe and worth running on the engines you already use."""
    ctx.obj = {"debug": debug}
    log.to_stderr(logging.DEBUG if debug else logging.WARNING)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and exit: 0 good, else the code of the error (orchestrator/errors.py)."""
    sys.exit(_exit_code(list(sys.argv[1:] if arguments is None else arguments)))


def _exit_code(arguments: list[str]) -> int:
    debug = "--debug" in arguments
    try:
        result = run.main(arguments, prog_name="draftgate", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        click.echo("interrupted", err=True)
        return 130
    except click.ClickException as error:
        error.show()
        return 2
    except BrokenPipeError:
        return 1  # the reader of our output went away
    except Exception as error:  # noqa: BLE001 — the edge: the one place that prints an error
        return _report(error, debug)
    return result if isinstance(result, int) else 0


def _report(error: Exception, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    code = getattr(error, "exit_code", None)
    if isinstance(code, int):
        click.echo(f"{error}" if code == 2 else f"error: {error}", err=True)
        return code
    click.echo(f"error: {type(error).__name__}: {error} (a bug; --debug shows where)", err=True)
    return 1


if __name__ == "__main__":
    main()
