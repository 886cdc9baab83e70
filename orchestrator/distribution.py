"""The digest of an installed Python package, told by the python that has it.

Engines' own pythons run the text of this file (build.py): it needs nothing but Python's library.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import (
    Distribution,
    PackageNotFoundError,
    distribution,
    distributions,
)
from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9._-]+")
SLACK_S = 2.0  # files are written in the same moment as the list of them


def describe(name: str) -> dict[str, str] | None:
    """`name`, `version`, and `digest` or why there is none (`reason`); None: not installed."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return None
    told = {"name": name, "version": found.version}
    if '"editable": true' in (found.read_text("direct_url.json") or ""):
        return {**told, "reason": f"{name} is installed from a folder that can be edited"}
    record = found.read_text("RECORD")
    if not record:
        return {**told, "reason": f"{name} is installed without a list of its files"}
    return {**told, "digest": record_digest(found, record)}


def beside(names: list[str]) -> dict[str, str]:
    """Versions of what these packages need, need's needs too, and of the plugins that they load."""
    installed: dict[str, Distribution] = {}
    for found in distributions():
        name = found.metadata["Name"]
        if name:
            installed.setdefault(plain_name(name), found)  # the first on the path is imported
    wanted = [plain_name(name) for name in names]
    wanted += [name for name, found in installed.items() if _is_plugin_of(found, wanted)]
    seen: dict[str, str] = {}
    while wanted:
        name = wanted.pop()
        if name in installed and name not in seen:
            seen[name] = installed[name].version
            wanted += _needs(installed[name])
    return seen


def plain_name(name: str) -> str:
    """The one spelling of a package's name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_plugin_of(found: Distribution, names: list[str]) -> bool:
    """A plugin offers entry points in a group that begins with the package's name."""
    groups = {plain_name(point.group.split(".")[0]) for point in found.entry_points}
    return bool(groups & set(names))


def _needs(found: Distribution) -> list[str]:
    """Names of its requirements; those of its extras are nobody's unless another one needs them."""
    lines = [line for line in found.requires or () if "extra ==" not in line]
    matches = [_NAME.match(line) for line in lines]
    return [plain_name(match[0]) for match in matches if match]


def record_digest(found: Distribution, record: str) -> str:
    """SHA-256 over the list of a package's files and over what was changed in them since."""
    own = sorted(line for line in record.splitlines() if _is_of_the_package(line))
    total = hashlib.sha256("\n".join(own).encode())
    for path, digest in changed_files(found, record):
        total.update(f"\n{path}\0{digest}".encode())
    return total.hexdigest()


def _is_of_the_package(line: str) -> bool:
    """Not what the installer added: compiled files, scripts and notes of its own."""
    return (
        ",sha256=" in line
        and not line.startswith("..")
        and not line.split("/")[-1].startswith(
            ("INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")
        )
    )


def changed_files(found: Distribution, record: str) -> Iterator[tuple[str, str]]:
    """Files that are not what the list says. Looked at are those of another size, and those that
    were written after the list: reading gigabytes at every start would take too long."""
    listed = Path(str(found.locate_file(_record_path(record))))
    written = listed.stat().st_mtime if listed.exists() else 0.0
    for path, recorded, size in csv.reader(filter(_is_of_the_package, record.splitlines())):
        file = Path(str(found.locate_file(path)))
        try:
            stat = file.stat()
        except OSError:
            yield path, "missing"
            continue
        if (size and stat.st_size != int(size)) or stat.st_mtime > written + SLACK_S:
            digest = _sha256(file)
            if recorded != "sha256=" + base64.urlsafe_b64encode(digest).decode().rstrip("="):
                yield path, digest.hex()


def _record_path(record: str) -> str:
    paths = (line.split(",")[0] for line in record.splitlines())
    return next((path for path in paths if path.endswith(".dist-info/RECORD")), "RECORD")


def _sha256(file: Path) -> bytes:
    total = hashlib.sha256()
    with file.open("rb") as content:
        for block in iter(lambda: content.read(1 << 20), b""):
            total.update(block)
    return total.digest()


if __name__ == "__main__":
    told = [describe(name) for name in sys.argv[1:]]
    packages = [found for found in told if found]
    others = beside(sys.argv[1:])
    sys.stdout.write(json.dumps({"packages": packages, "beside": others}) + "\n")
