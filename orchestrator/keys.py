"""Keys: the file of API keys: who may use a router, and how much. Keys themselves are not in it."""

import hashlib
import os
import secrets
from collections.abc import Collection, Iterator
from pathlib import Path as FilePath
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from adapters.document import read_document
from adapters.problem import Path, Problem, did_you_mean
from adapters.profile import Model, Name
from adapters.reading import Reading, read_model, with_problems
from orchestrator.errors import InputError

ENGINE_KEY_VARIABLE: Final = "DRAFTGATE_ENGINE_API_KEY"
PREFIX: Final = "dg-"
_RANDOM_BYTES: Final = 32

Sha256: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class KeyEntry(Model):
    """One caller. A limit that is not given is none."""

    name: Name
    sha256: Sha256 = Field(description="Of the key, in hexadecimal: draftgate key prints it.")
    requests_per_minute: int | None = Field(default=None, ge=1, le=10**9)
    tokens_per_minute: int | None = Field(
        default=None, ge=1, le=10**12, description="Of prompts and answers together."
    )
    in_flight: int | None = Field(default=None, ge=1, le=10**6, description="Requests at once.")
    share: float = Field(
        default=1, gt=0, le=1000, description="Of the turns among callers whose requests wait."
    )
    models: tuple[Name, ...] = Field(default=(), description="Those that it may use; none: all.")


class KeyFile(Model):
    """All callers of a router."""

    keys: tuple[KeyEntry, ...] = Field(min_length=1)


def key_file(fleet_file: FilePath, keys: str) -> FilePath:
    """The file that a fleet's router.keys names."""
    return fleet_file.resolve().parent / keys


def read_keys(fleet_file: FilePath, keys: str, models: Collection[str]) -> Reading[KeyFile]:
    """Read and check the key file of a fleet that serves these models."""
    document = read_document(key_file(fleet_file, keys), str(fleet_file.parent / keys))
    reading = read_model(document, KeyFile)
    if reading.value is None:
        return reading
    found = [*_twice(reading.value), *_unknown(reading.value, models)]
    return with_problems(reading, found)


def new_key() -> str:
    """A key that nobody can guess: 256 random bits, so that its plain SHA-256 tells nothing."""
    return PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)


def engine_key() -> str | None:
    """What engines that ask for a key get, from the environment. Raises InputError when it cannot
    be sent."""
    key = os.environ.get(ENGINE_KEY_VARIABLE) or None
    if key is not None and not (key.isascii() and key.isprintable()):
        raise InputError(f"{ENGINE_KEY_VARIABLE} has characters that no header can have")
    return key


def digest(key: bytes) -> str:
    """What stands in the file for a key."""
    return hashlib.sha256(key).hexdigest()


def _unknown(file: KeyFile, models: Collection[str]) -> Iterator[Problem]:
    for index, entry in enumerate(file.keys):
        for number, model in enumerate(entry.models):
            if model not in models:
                path: Path = ("keys", index, "models", number)
                message = f"the fleet has no model {model!r}"
                yield Problem(path, message, did_you_mean(model, models), code="key-model")


def _twice(file: KeyFile) -> Iterator[Problem]:
    names: dict[str, int] = {}
    digests: dict[str, int] = {}
    for index, entry in enumerate(file.keys):
        root: Path = ("keys", index)
        if entry.name in names:
            message = f"keys[{names[entry.name]}] is named {entry.name!r} too"
            hint = "give each key its own name: limits and metrics go by it"
            yield Problem((*root, "name"), message, hint, code="key-twice")
        if entry.sha256 in digests:
            message = f"this is the key of keys[{digests[entry.sha256]}]"
            hint = "make another one with draftgate key"
            yield Problem((*root, "sha256"), message, hint, code="key-twice")
        names.setdefault(entry.name, index)
        digests.setdefault(entry.sha256, index)
