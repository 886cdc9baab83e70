"""Signatures of certificates: Ed25519 (RFC 8032), by the optional package `cryptography`.

What is signed is one line of text, `message`, so that `openssl pkeyutl -verify -rawin` can check it
without draftgate. A key is known by its fingerprint: SHA-256 over its SubjectPublicKeyInfo (DER).
"""

import base64
import binascii
import hashlib
import importlib.util
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import InputError, OrchestratorError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ed25519

ALGORITHM = "ed25519"
_LARGEST_KEY = 65536  # bytes of a key file
# Secrets mounted for a group are usual in containers; what everybody reads is no secret.
_FORBIDDEN = stat.S_IRWXO | stat.S_IWGRP


@dataclass(frozen=True)
class PublicKey:
    """A key that certificates are checked with, and the file it came from."""

    key: "ed25519.Ed25519PublicKey"
    source: str

    @property
    def fingerprint(self) -> str:
        """`sha256:` and the hex digest of the key's SubjectPublicKeyInfo."""
        from cryptography.hazmat.primitives import serialization as form  # noqa: PLC0415 — optional

        info = form.PublicFormat.SubjectPublicKeyInfo
        der = self.key.public_bytes(form.Encoding.DER, info)
        return f"sha256:{hashlib.sha256(der).hexdigest()}"


class SigningKey:
    """A private key. It shows its fingerprint and nothing else, wherever it is printed."""

    def __init__(self, key: "ed25519.Ed25519PrivateKey", source: str) -> None:
        self._key = key
        self.public = PublicKey(key.public_key(), source)

    def __repr__(self) -> str:
        return f"SigningKey({self.public.fingerprint})"

    def sign(self, digest: str) -> dict[str, str]:
        """The `signature` of a certificate with this digest."""
        value = base64.b64encode(self._key.sign(message(digest))).decode()
        return {"algorithm": ALGORITHM, "key": self.public.fingerprint, "value": value}


def message(digest: str) -> bytes:
    """What is signed; the words before the digest keep the signature from meaning anything else."""
    return f"draftgate certificate {digest}".encode()


def load_key(path: Path) -> SigningKey:
    """A private key from PEM (PKCS #8, not encrypted).

    Raises InputError when the file cannot be read, is no such key, or can be used by others.
    """
    _require_package()
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 — optional
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 — optional
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 — optional
        load_pem_private_key,
    )

    content = _read(path)
    if b"PUBLIC KEY" in content and b"PRIVATE KEY" not in content:
        raise InputError(f"{path}: a public key, and only a private one signs; {_other_half(path)}")
    _require_private(path)
    try:
        key = load_pem_private_key(content, password=None)
    except TypeError:
        raise InputError(f"{path}: the key is encrypted; write it without a password") from None
    except (ValueError, UnsupportedAlgorithm):  # not passed on: it may quote the file
        raise InputError(
            f"{path}: not a private key in PEM (PKCS #8); `draftgate certificate keygen` makes one"
        ) from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise InputError(f"{path}: not an Ed25519 key; `draftgate certificate keygen` makes one")
    return SigningKey(key, str(path))


def load_public_key(path: Path) -> PublicKey:
    """A public key from PEM. Raises InputError when it cannot be read or is none."""
    _require_package()
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 — optional
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 — optional
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 — optional
        load_pem_public_key,
    )

    content = _read(path)
    if b"PRIVATE KEY" in content:
        raise InputError(f"{path}: a private key; the public one is in the file ending in .pub")
    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(
            f"{path}: not a public key in PEM; `draftgate certificate keygen` makes one"
        ) from error
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise InputError(
            f"{path}: not an Ed25519 public key; `draftgate certificate keygen` makes one"
        )
    return PublicKey(key, str(path))


def write_keys(path: Path) -> SigningKey:
    """Makes a key: the private one at `path` (only its owner reads it), the public one beside it.

    Raises InputError when one of the files is there: a key is never overwritten.
    """
    _require_package()
    from cryptography.hazmat.primitives import serialization as form  # noqa: PLC0415 — optional
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 — optional

    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    public = key.public_key().public_bytes(
        form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo
    )
    beside = public_path(path)
    if beside.exists():
        raise InputError(f"{beside} is there already; a key is never overwritten")
    _create(path, private, 0o600)
    _create(beside, public, 0o644)
    return SigningKey(key, str(path))


def public_path(path: Path) -> Path:
    """Where the public half of the key at `path` stands."""
    return path.with_name(path.name + ".pub")


def signature_problem(digest: str, signature: Any, keys: Sequence[PublicKey]) -> str | None:
    """Why none of the keys has signed this digest; None when one has."""
    if signature is None:
        return "it is not signed"
    if not isinstance(signature, dict) or signature.get("algorithm") != ALGORITHM:
        return f"its signature is not {ALGORITHM}"
    named = signature.get("key")
    key = next((key for key in keys if key.fingerprint == named), None)
    if key is None:
        return f"it is signed with another key ({named})"
    return None if _is_signed(key, digest, signature.get("value")) else "its signature is wrong"


def _is_signed(key: PublicKey, digest: str, value: Any) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 — optional

    try:
        key.key.verify(base64.b64decode(str(value), validate=True), message(digest))
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


def is_available() -> bool:
    """Whether signatures can be made and checked here."""
    return importlib.util.find_spec("cryptography") is not None


def _require_package() -> None:
    if not is_available():
        message = "signatures need the package cryptography, which is not installed"
        raise InputError(f"{message}; pip install 'draftgate[sign]'")


def _other_half(path: Path) -> str:
    """What to name instead of a public key, as `write_keys` names the two."""
    beside = path.with_suffix("")
    if path.suffix == ".pub" and beside.exists():
        return f"name {beside}"
    return "name the file that `draftgate certificate keygen` wrote beside it, without .pub"


def _require_private(path: Path) -> None:
    mode = path.stat().st_mode
    if mode & _FORBIDDEN:
        shown = oct(stat.S_IMODE(mode))
        raise InputError(f"{path}: others may use this private key ({shown}); chmod 600 {path}")


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST_KEY)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


def _create(path: Path, content: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, flags, mode), "wb") as file:
            file.write(content)
    except FileExistsError as error:
        raise InputError(f"{path} is there already; a key is never overwritten") from error
    except OSError as error:
        raise OrchestratorError(f"{path} cannot be written: {error.strerror}") from error
