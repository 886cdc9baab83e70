"""Certificates and keys of the tests' own, made when they are asked for."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

NOW = datetime.now(UTC).replace(microsecond=0)


@dataclass(frozen=True)
class Issued:
    """A certificate with its key; `pem` and `key_pem` are their files."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
    pem: Path
    key_pem: Path


def issue(  # noqa: PLR0913  each has a default
    folder: Path,
    name: str,
    by: Issued | None = None,
    until: datetime = NOW + timedelta(days=30),
    password: bytes | None = None,
    is_rsa: bool = False,
) -> Issued:
    """A certificate for localhost; an authority where nobody signs it but itself."""
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
    key = (
        rsa.generate_private_key(65537, 2048) if is_rsa else ec.generate_private_key(ec.SECP256R1())
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    addresses = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(NOW, until) - timedelta(days=1))
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(by is None, None), critical=True)
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
    )
    certificate = builder.sign(by.key if by else key, hashes.SHA256())
    found = Issued(certificate, key, folder / f"{name}.pem", folder / f"{name}.key")
    found.pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    found.key_pem.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password)
            if password
            else serialization.NoEncryption(),
        )
    )
    return found
