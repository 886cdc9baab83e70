"""A certificate's files: what is wrong with them is said, and new ones are taken in place."""

import ssl
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orchestrator.errors import InputError
from orchestrator.tls import Tls, context_of, expiry, renew
from tests.certificates import NOW, Issued, issue


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Issued:
    return issue(tmp_path_factory.mktemp("tls"), "server")


@pytest.fixture
def tls(issued: Issued) -> Tls:
    return Tls(issued.pem, issued.key_pem)


def shown_by(context: ssl.SSLContext, own: Issued | None = None) -> bytes:
    """The certificate that a client of this server's context sees, in DER."""
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if own is not None:
        asking.load_cert_chain(own.pem, own.key_pem)
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE
    asking.set_alpn_protocols(["h2", "http/1.1"])
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert client.selected_alpn_protocol() == "http/1.1"
    found = client.getpeercert(binary_form=True)
    assert found is not None
    return found


def der(issued: Issued) -> bytes:
    return ssl.PEM_cert_to_DER_cert(issued.pem.read_text())


def test_old_versions_are_not_spoken(tls: Tls) -> None:
    context = context_of(tls)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize("year", [2027, 2049, 2050, 2999])
def test_the_end_of_a_certificate_is_read(tmp_path: Path, year: int) -> None:
    until = datetime(year, 7, 4, 12, 34, 56, tzinfo=UTC)
    found = issue(tmp_path, "server", until=until)
    assert expiry(found.pem.read_bytes()) == until == found.certificate.not_valid_after_utc


def test_the_first_certificate_of_a_chain_counts(tmp_path: Path, issued: Issued) -> None:
    other = issue(tmp_path, "other", until=NOW + timedelta(days=99))
    chain = b"a comment\n" + other.pem.read_bytes() + issued.pem.read_bytes()
    assert expiry(chain) == NOW + timedelta(days=99)


def test_bytes_that_are_cut_are_no_certificate(issued: Issued) -> None:
    whole = der(issued)
    for size in range(0, len(whole), 7):
        with pytest.raises(ValueError, match="cut short"):
            expiry(ssl.DER_cert_to_PEM_cert(whole[:size]).encode())


def test_an_expired_certificate_is_used_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = issue(tmp_path, "old", until=datetime(2024, 2, 29, 12, 0, tzinfo=UTC))
    context = context_of(Tls(found.pem, found.key_pem))
    assert shown_by(context) == der(found)
    [told] = caplog.messages
    assert told.endswith("old.pem has expired on 2024-02-29 12:00 UTC")


def _missing(tls: Tls, folder: Path) -> Tls:
    return replace(tls, certificate=folder / "none.pem")


def _no_key(tls: Tls, folder: Path) -> Tls:
    return replace(tls, key=folder / "none.key")


def _no_ca(tls: Tls, folder: Path) -> Tls:
    return replace(tls, client_ca=folder / "none.pem")


def _not_pem(tls: Tls, folder: Path) -> Tls:
    (folder / "odd").write_text("hello\n")
    return replace(tls, certificate=folder / "odd")


def _key_is_not_pem(tls: Tls, folder: Path) -> Tls:
    (folder / "odd").write_text("hello\n")
    return replace(tls, key=folder / "odd")


def _ca_is_not_pem(tls: Tls, folder: Path) -> Tls:
    (folder / "odd").write_text("hello\n")
    return replace(tls, client_ca=folder / "odd")


def _another_key(tls: Tls, folder: Path) -> Tls:
    return replace(tls, key=issue(folder, "other").key_pem)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_missing, r"router\.tls\.certificate: .*none\.pem: No such file"),
        (_no_key, r"router\.tls\.key: .*none\.key: No such file"),
        (_no_ca, r"router\.tls\.client_ca: .*none\.pem: No such file"),
        (_not_pem, r"router\.tls\.certificate: .*odd: there is no certificate in PEM form"),
        (_key_is_not_pem, r"router\.tls\.key: .*odd cannot be used with .*server\.pem"),
        (_ca_is_not_pem, r"router\.tls\.client_ca: .*odd: there is no certificate in PEM form"),
        (_another_key, r"router\.tls\.key: .*other\.key is not the key of .*server\.pem"),
    ],
)
def test_what_is_wrong_is_named(
    tls: Tls, tmp_path: Path, spoil: Callable[[Tls, Path], Tls], why: str
) -> None:
    with pytest.raises(InputError, match=why):
        context_of(spoil(tls, tmp_path))


def test_an_encrypted_key_opens_with_the_password_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = issue(tmp_path, "server", password=b"right")
    tls = Tls(found.pem, found.key_pem)
    with pytest.raises(InputError, match="is encrypted; name the environment variable"):
        context_of(tls)
    tls = replace(tls, password_env="TEST_KEY_PASSWORD")
    with pytest.raises(InputError, match="the environment has no TEST_KEY_PASSWORD"):
        context_of(tls)
    monkeypatch.setenv("TEST_KEY_PASSWORD", "wrong")
    with pytest.raises(InputError, match="does not open with the password in TEST_KEY_PASSWORD"):
        context_of(tls)
    monkeypatch.setenv("TEST_KEY_PASSWORD", "right")
    assert shown_by(context_of(tls)) == der(found)


@pytest.mark.parametrize("is_rsa", [True, False])
def test_a_context_shows_the_new_certificate_after_renewal(tmp_path: Path, is_rsa: bool) -> None:
    """Also where its key is of another kind: OpenSSL would keep one of each."""
    first = issue(tmp_path, "server", is_rsa=is_rsa)
    before, tls = der(first), Tls(first.pem, first.key_pem)
    context = context_of(tls)
    assert shown_by(context) == before
    for _ in range(2):
        after = der(issue(tmp_path, "server"))
        renew(context, tls)
        assert shown_by(context) == after != before


def test_clients_need_a_certificate_of_the_authorities_of_the_moment(tmp_path: Path) -> None:
    server = issue(tmp_path, "server")
    old, new = issue(tmp_path, "old"), issue(tmp_path, "new")
    tls = Tls(server.pem, server.key_pem, tmp_path / "ca.pem")
    (tmp_path / "ca.pem").write_bytes(old.pem.read_bytes())
    context = context_of(tls)
    mine = issue(tmp_path, "client", by=old)
    assert shown_by(context, mine) == der(server)
    with pytest.raises(ssl.SSLError, match=r"(?i)peer did not return a certificate"):
        shown_by(context)
    (tmp_path / "ca.pem").write_bytes(new.pem.read_bytes())
    renew(context, tls)
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate verify failed"):
        shown_by(context, mine)
    renew(context, replace(tls, client_ca=None))
    assert shown_by(context) == der(server)


def test_a_renewal_that_fails_changes_nothing(tmp_path: Path) -> None:
    first = issue(tmp_path, "server")
    tls = Tls(first.pem, first.key_pem)
    context = context_of(tls)
    before = der(first)
    first.pem.write_bytes(issue(tmp_path, "other").pem.read_bytes())
    with pytest.raises(InputError, match="is not the key of"):
        renew(context, tls)
    assert shown_by(context) == before
