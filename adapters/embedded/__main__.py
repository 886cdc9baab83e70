"""Entry of the embedded server: `python -m adapters.embedded ARGV`, ARGV as for llama-server."""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from adapters.embedded.flag import ArgumentError, Arguments, help_text, parse
from adapters.embedded.server import EngineError, run


class Files:
    """The disk, for the arguments that name a file."""

    def read(self, path: str) -> str:
        try:
            return Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise ValueError(f"error: failed to open file '{path}'\n") from error

    def is_file(self, path: str) -> bool:
        return Path(path).is_file()

    def is_directory(self, path: str) -> bool:
        return Path(path).is_dir()


def config_files() -> list[Path]:
    """Files that llama-server would take settings from; the embedded server does not read them."""
    personal = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    places = (Path("/etc"), Path(personal))
    return [file for place in places if (file := place / "llama.cpp" / "config.ini").exists()]


def version_line() -> str:
    """The build number is the last component of the package's version."""
    try:
        package = version("xllamacpp")
    except PackageNotFoundError:
        return "version: unknown (xllamacpp is not installed)"
    return f"version: {package.rpartition('.')[2]} (xllamacpp {package})"


def serve(arguments: Arguments) -> None:
    for warning in arguments.warnings:
        sys.stderr.write(warning + "\n")
    for file in config_files():
        raise EngineError(f"llama-server reads {file}, which the embedded server cannot honour")
    run(arguments.settings)


def main(argv: Sequence[str]) -> int:
    try:
        arguments = parse(argv, os.environ, Files())
        if arguments.action == "serve":
            serve(arguments)
        else:
            text = help_text() if arguments.action == "help" else version_line()
            sys.stdout.write(text + "\n")
    except ArgumentError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except EngineError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
