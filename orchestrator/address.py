"""Address: hosts, ports, engines' URLs and paths of files, as a fleet file has them."""

import ipaddress
import re
from typing import Annotated, TypeAlias

from pydantic import AfterValidator

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_ADDRESS = re.compile(rf"(\[[0-9a-fA-F:.]+\]|{_LABEL}(?:\.{_LABEL})*):([0-9]{{1,5}})", re.ASCII)

_PORT = re.compile(r":[0-9]*$")


def _is_path(text: str) -> str:
    if "\0" in text or len(text) > 1024:
        raise ValueError("a path has no NUL and at most 1,024 characters")
    if text.startswith("-"):
        raise ValueError("engines would read it as an option: a path does not begin with '-'")
    return text


def engine_url(url: str) -> str:
    """`http://host:port` without a slash at its end. Raises ValueError on anything else.

    `https://host` is the usual port's.
    """
    scheme, _, rest = url.rstrip("/").partition("://")
    if scheme == "https" and not _PORT.search(rest):
        rest += ":443"
    try:
        is_address = split_address(rest)[1] > 0
    except ValueError:
        is_address = False
    if scheme not in ("http", "https") or not is_address:
        raise ValueError("an engine's address is written http://host:port, without a path")
    return f"{scheme}://{rest}"


def _is_address(text: str) -> str:
    split_address(text)
    return text


def split_address(text: str) -> tuple[str, int]:
    """`127.0.0.1:8400` or `[::1]:8400` as host and port. Raises ValueError."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[2]) > 65535 or not _is_host(match[1]):
        raise ValueError("an address is written host:port, as in 127.0.0.1:8400")
    return match[1].strip("[]"), int(match[2])


def _is_host(text: str) -> bool:
    if not text.startswith("["):
        return True
    try:
        ipaddress.IPv6Address(text.strip("[]"))
    except ValueError:
        return False
    return True


Address: TypeAlias = Annotated[str, AfterValidator(_is_address)]
PathText: TypeAlias = Annotated[str, AfterValidator(_is_path)]
Url: TypeAlias = Annotated[str, AfterValidator(engine_url)]
