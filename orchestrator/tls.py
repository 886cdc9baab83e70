"""TLS: the certificate that clients see, from its files.

A listener keeps its context, which is renewed in place: later handshakes use the new files, and
connections that are up keep theirs.
"""

import logging
import os
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.errors import InputError

LOG = logging.getLogger("draftgate.router")

_WHERE = "router.tls"
# DER's tags on the way to a certificate's validity (RFC 5280, 4.1).
_VERSION, _UTC_TIME = 0xA0, 0x17


@dataclass(frozen=True)
class Tls:
    """Where a certificate's files are. `password_env` names the variable with the key's password.

    `client_ca`: clients must show a certificate that one of these authorities signed.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None
    password_env: str | None = None


def context_of(tls: Tls) -> ssl.SSLContext:
    """A server's context. Raises InputError that names the file which cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    _load(context, tls)
    if tls.client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    end = expiry(tls.certificate.read_bytes())
    if end < datetime.now(UTC):
        LOG.warning(
            "%s: %s has expired on %s", _WHERE, tls.certificate, f"{end:%Y-%m-%d %H:%M} UTC"
        )
    return context


def check(tls: Tls) -> None:
    """Raises InputError that names the file which cannot be used."""
    _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), tls)


def renew(context: ssl.SSLContext, tls: Tls) -> None:
    """Reads the files again, for handshakes to come. Raises InputError; then nothing has changed.

    Handshakes go over to a fresh context: loading into the old one would leave a certificate of
    another kind of key beside the new one, and authorities that were taken away.
    """
    fresh = context_of(tls)

    def exchange(handshake: ssl.SSLObject, name: str | None, before: ssl.SSLContext) -> None:
        handshake.context = fresh

    context.sni_callback = exchange  # called without a server name too
    context.verify_mode = fresh.verify_mode


def engine_trust() -> ssl.SSLContext:
    """A client's context for engines behind TLS: the system's authorities, or SSL_CERT_FILE's."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def expiry(pem: bytes) -> datetime:
    """Until when the first certificate of a chain is valid. Raises ValueError."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    _, found, rest = pem.decode("latin-1").partition(begin)
    text, closed, _ = rest.partition(end)
    if not found or not closed:
        raise ValueError("there is no certificate in PEM form in it")
    der = ssl.PEM_cert_to_DER_cert(f"{begin}{text}{end}")
    try:
        return _not_after(der)
    except IndexError:
        raise ValueError("its certificate is cut short") from None


def _load(context: ssl.SSLContext, tls: Tls) -> None:
    _check_certificate(tls.certificate)
    _read("key", tls.key)
    password = _Password(tls)
    try:
        context.load_cert_chain(tls.certificate, tls.key, password)
    except ssl.SSLError as error:
        raise InputError(_key_fault(tls, error, password.was_asked)) from error
    if tls.client_ca is not None:
        _read("client_ca", tls.client_ca)
        try:
            context.load_verify_locations(tls.client_ca)
        except ssl.SSLError as error:
            message = f"{_WHERE}.client_ca: {tls.client_ca}: there is no certificate in PEM form"
            raise InputError(message) from error


class _Password:
    """The key's password, looked up when OpenSSL asks; without one it would ask the terminal."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self.was_asked = False

    def __call__(self) -> str:
        self.was_asked = True
        name = self._tls.password_env
        if name is None:
            hint = "name the environment variable with its password in key_password_env"
            raise InputError(f"{_WHERE}.key: {self._tls.key} is encrypted; {hint}")
        if name not in os.environ:
            message = f"{_WHERE}.key_password_env: the environment has no {name}"
            raise InputError(f"{message}, and {self._tls.key} is encrypted")
        return os.environ[name]


def _key_fault(tls: Tls, error: ssl.SSLError, was_asked: bool) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"{_WHERE}.key: {tls.key} is not the key of {tls.certificate}"
    if was_asked:
        return f"{_WHERE}.key: {tls.key} does not open with the password in {tls.password_env}"
    why = error.reason or "there is no private key in PEM form"
    return f"{_WHERE}.key: {tls.key} cannot be used with {tls.certificate}: {why}"


def _check_certificate(path: Path) -> None:
    try:
        expiry(_read("certificate", path))
    except ValueError as error:
        raise InputError(f"{_WHERE}.certificate: {path}: {error}") from error


def _read(field: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{_WHERE}.{field}: {path}: {error.strerror}") from error


def _not_after(der: bytes) -> datetime:
    """From the fields before it: version (or none), serial, algorithm, issuer, validity."""
    _, at, _ = _field(der, 0)
    _, at, _ = _field(der, at)
    tag, _, end = _field(der, at)
    for _ in range(4 if tag == _VERSION else 3):
        _, at, end = _field(der, end)
    _, _, end = _field(der, at)
    tag, at, end = _field(der, end)
    text = der[at:end].decode("ascii")
    if tag == _UTC_TIME:  # two digits of the year: RFC 5280, 4.1.2.5.1
        text = ("20" if text < "50" else "19") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _field(der: bytes, at: int) -> tuple[int, int, int]:
    """Tag of the field at a place, and where its content begins and ends."""
    length = der[at + 1]
    start = at + 2
    if length >= 0x80:
        start += length - 0x80
        length = int.from_bytes(der[at + 2 : start], "big")
    if start + length > len(der):
        raise IndexError(at)
    return der[at], start, start + length
