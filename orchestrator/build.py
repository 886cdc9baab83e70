"""Build: which engine exactly a worker runs, as a digest of its package or of its program."""

import functools
import hashlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from orchestrator import distribution
from orchestrator.deployment import Member
from orchestrator.weights import file_digest

PROBE_TIMEOUT_S = 60
_LONGEST_SHEBANG = 4096


@dataclass(frozen=True)
class Build:
    """`digest` is `sha256:…` of packages or a program; without one, `reason` says why."""

    digest: str | None
    reason: str = ""


def build_of(member: Member) -> Build:
    """The build of a worker's engine, as it is on this machine."""
    if not member.is_ours:
        return Build(None, "somebody else runs it")
    image = member.launch.image
    if image is not None:
        at = image.partition("@")[2]
        return Build(at or None, "" if at else f"the image {image} is named without its digest")
    if member.missing:
        return Build(None, member.missing)
    packages = tuple(member.adapter.PACKAGES)
    if member.adapter.EMBEDDED and member.adapter.EMBEDDED[0] in member.spec.command:
        packages = (member.adapter.EMBEDDED[1],)
    return _build(Path(member.spec.command[0]), packages, member.launch.env)


def _build(program: Path, packages: Sequence[str], env: Mapping[str, str]) -> Build:
    try:
        python = _python_of(program)
        if python is not None:
            found = tuple(sorted(env.items()))
            return _packages(python, tuple(packages), found, _stamps(python, env))
        if _first_line(program).startswith(b"#!"):
            return Build(None, f"{program} is a script: what it starts is not known")
        return Build("sha256:" + program_digest(program))
    except OSError as error:
        return Build(None, f"{program} cannot be read: {error.strerror or error}")


def program_digest(path: Path) -> str:
    """SHA-256 over a program and the shared libraries beside it, by their names."""
    real = path.resolve()
    total = hashlib.sha256(file_digest(real).encode())
    for library in sorted(real.parent.glob("lib*.so*")):
        if library.is_file():
            total.update(f"\n{library.name}\0{file_digest(library)}".encode())
    return total.hexdigest()


def _python_of(program: Path) -> Path | None:
    """The python that runs this program; None: it is no Python program."""
    if program.name.startswith("python"):
        return program
    words = _first_line(program).decode(errors="replace").removeprefix("#!").split()
    named = [word for word in words if PurePath(word).name.startswith("python")]
    return Path(named[0]) if named else None


def _first_line(path: Path) -> bytes:
    """The line that names the interpreter, and with a long path the one that stands in for it."""
    with path.open("rb") as file:
        line = file.readline(_LONGEST_SHEBANG)
        if line.startswith(b"#!/bin/sh"):
            second = file.readline(_LONGEST_SHEBANG)
            if second.startswith(b"'''exec' "):
                return b"#!" + second.removeprefix(b"'''exec' ").replace(b'"', b"")
    return line


def _stamps(python: Path, env: Mapping[str, str]) -> tuple[int, ...]:
    """Times of change of the folders that packages are put into."""
    folders = [*python.parent.parent.glob("lib/python3*/site-packages")]
    folders += [Path(name) for name in env.get("PYTHONPATH", "").split(":") if name]
    return tuple(folder.stat().st_mtime_ns for folder in folders if folder.is_dir())


@functools.cache
def _packages(
    python: Path, names: Sequence[str], env: tuple[tuple[str, str], ...], stamps: tuple[int, ...]
) -> Build:
    """What the engine's own python says of its packages; asked again when `stamps` change."""
    argv = [str(python), "-c", Path(distribution.__file__).read_text(encoding="utf-8"), *names]
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            env=os.environ | dict(env),
            timeout=PROBE_TIMEOUT_S,
            check=True,
        )
        told = json.loads(done.stdout.splitlines()[-1])
        return combine(told["packages"], told["beside"]) or _none(python, names)
    except (OSError, subprocess.SubprocessError, LookupError, TypeError, ValueError) as error:
        return Build(None, f"{python} was asked for its packages: {error}"[:300])


def _none(python: Path, names: Sequence[str]) -> Build:
    return Build(None, f"{python} has no {' or '.join(names)}")


def combine(found: Sequence[Mapping[str, str]], others: Mapping[str, str]) -> Build | None:
    """One build from what was told of the packages, and of the versions of those beside them."""
    reasons = [package["reason"] for package in found if "reason" in package]
    if not found:
        return None
    if reasons:
        return Build(None, "; ".join(reasons))
    lines = [f"{package['name']}=={package['version']}={package['digest']}" for package in found]
    lines += [f"{name}=={version}" for name, version in others.items()]
    return Build("sha256:" + hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest())
