"""Ed25519 signatures of certificates: made, checked, refused; the key never shows."""

import base64
import hashlib
import importlib.util
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from orchestrator.errors import InputError
from orchestrator.gate.signature import (
    PublicKey,
    load_key,
    load_public_key,
    message,
    signature_problem,
    write_keys,
)

ABOUT = "sha256:" + "a" * 64
PEM, PKCS8 = form.Encoding.PEM, form.PrivateFormat.PKCS8


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "gate"
    write_keys(path)
    return path


def public(path: Path) -> PublicKey:
    return load_public_key(path.with_name(path.name + ".pub"))


def write_private(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def test_keys_are_written_for_their_owner_alone(keys: Path) -> None:
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    assert stat.S_IMODE(keys.with_name("gate.pub").stat().st_mode) == 0o644
    assert keys.read_bytes().startswith(b"-----BEGIN PRIVATE KEY-----")


@pytest.mark.parametrize("name", ["gate", "gate.pub"])
def test_a_key_is_never_overwritten(keys: Path, name: str) -> None:
    before = keys.read_bytes()
    other = "gate.pub" if name == "gate" else "gate"
    keys.with_name(other).unlink()
    with pytest.raises(InputError, match="is there already"):
        write_keys(keys)
    assert [p.name for p in keys.parent.iterdir()] == [name]
    assert name == "gate.pub" or keys.read_bytes() == before


def test_a_signature_is_of_the_digest_and_of_the_key(keys: Path) -> None:
    signed = load_key(keys).sign(ABOUT)
    assert signature_problem(ABOUT, signed, [public(keys)]) is None
    assert signature_problem("sha256:b", signed, [public(keys)]) == "its signature is wrong"
    write_keys(keys.with_name("other"))
    other = public(keys.with_name("other"))
    assert str(signature_problem(ABOUT, signed, [other])).startswith("it is signed with another")
    assert signature_problem(ABOUT, signed, [other, public(keys)]) is None


def test_a_signature_can_be_checked_without_draftgate(keys: Path) -> None:
    """RFC 8032 over one line of text; the key's name is the digest of its DER form."""
    signed = load_key(keys).sign(ABOUT)
    key = form.load_pem_public_key(keys.with_name("gate.pub").read_bytes())
    assert isinstance(key, ed25519.Ed25519PublicKey)
    key.verify(base64.b64decode(signed["value"]), b"draftgate certificate " + ABOUT.encode())
    der = key.public_bytes(form.Encoding.DER, form.PublicFormat.SubjectPublicKeyInfo)
    assert signed["key"] == "sha256:" + hashlib.sha256(der).hexdigest()
    assert message(ABOUT) == b"draftgate certificate " + ABOUT.encode()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: None, "it is not signed"),
        (lambda s: [], "its signature is not ed25519"),
        (lambda s: {**s, "algorithm": "rsa"}, "its signature is not ed25519"),
        (lambda s: {"algorithm": "ed25519"}, "it is signed with another key"),
        (lambda s: {**s, "value": None}, "its signature is wrong"),
        (lambda s: {**s, "value": "é"}, "its signature is wrong"),
        (lambda s: {**s, "value": "AAAA"}, "its signature is wrong"),
        (lambda s: {**s, "value": s["value"] + "\n"}, "its signature is wrong"),
        (lambda s: {**s, "value": "A" + s["value"][1:][::-1]}, "its signature is wrong"),
    ],
)
def test_a_broken_signature_is_a_problem(keys: Path, change: Any, words: str) -> None:
    signed = change(load_key(keys).sign(ABOUT))
    assert str(signature_problem(ABOUT, signed, [public(keys)])).startswith(words)


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o601, 0o620, 0o644, 0o666])
def test_a_private_key_that_others_may_use_is_refused(keys: Path, mode: int) -> None:
    keys.chmod(mode)
    with pytest.raises(InputError, match=r"others may use this private key .*chmod 600"):
        load_key(keys)


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o440, 0o640])
def test_a_key_for_its_owner_or_a_group_is_read(keys: Path, mode: int) -> None:
    keys.chmod(mode)
    assert load_key(keys).public.fingerprint == public(keys).fingerprint


def test_other_files_are_no_private_keys(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        load_key(tmp_path / "nowhere")
    secret = b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"
    with pytest.raises(InputError, match="not a private key in PEM") as caught:
        load_key(write_private(tmp_path / "broken", secret))
    assert "c2VjcmV0" not in str(caught.value)
    assert caught.value.__cause__ is None
    large = rsa.generate_private_key(65537, 1024).private_bytes(PEM, PKCS8, form.NoEncryption())
    with pytest.raises(InputError, match="not an Ed25519 key"):
        load_key(write_private(tmp_path / "rsa", large))
    locked = ed25519.Ed25519PrivateKey.generate().private_bytes(
        PEM, PKCS8, form.BestAvailableEncryption(b"word")
    )
    with pytest.raises(InputError, match="the key is encrypted"):
        load_key(write_private(tmp_path / "locked", locked))


def test_other_files_are_no_public_keys(keys: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a private key; the public one"):
        load_public_key(keys)
    (tmp_path / "x.pub").write_text("ssh-ed25519 AAAA me@here")
    with pytest.raises(InputError, match="not a public key in PEM"):
        load_public_key(tmp_path / "x.pub")
    other = rsa.generate_private_key(65537, 1024).public_key()
    der = other.public_bytes(PEM, form.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "x.pub").write_bytes(der)
    with pytest.raises(InputError, match="not an Ed25519 public key"):
        load_public_key(tmp_path / "x.pub")


def test_a_public_key_given_as_the_private_one_is_said_to_be_one(keys: Path) -> None:
    """Also where others may read it, as they may: that is not what is wrong."""
    wrong = keys.with_name("gate.pub")
    with pytest.raises(InputError) as caught:
        load_key(wrong)
    said = f"{wrong}: a public key, and only a private one signs"
    assert str(caught.value) == f"{said}; name {keys}"
    keys.rename(keys.with_name("elsewhere"))
    with pytest.raises(InputError, match=r"wrote beside it, without \.pub"):
        load_key(wrong)


def test_a_key_that_is_printed_shows_its_fingerprint_only(keys: Path) -> None:
    key = load_key(keys)
    assert repr(key) == str(key) == f"SigningKey({key.public.fingerprint})"


def test_without_the_package_it_says_what_to_install(
    keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for start in (load_key, load_public_key, write_keys):
        with pytest.raises(InputError, match=r"pip install 'draftgate\[sign\]'"):
            start(keys)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_key_that_cannot_be_read_is_refused(keys: Path) -> None:
    keys.chmod(0)
    with pytest.raises(InputError, match="Permission denied"):
        load_key(keys)
