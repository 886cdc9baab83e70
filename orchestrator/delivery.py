"""Delivery: how much of what was written to a connection the other end has taken.

A request may be sent again only where the engine cannot have seen it. What its kernel has
acknowledged it may have seen, even if it closed the connection then. Closing a connection with
everything read acknowledges it; with something unread it resets the connection, and then the engine
cannot have had the whole request, whether that was acknowledged or not.
"""

import asyncio
import socket
import struct
import sys
from typing import Final

# The SYN counts as a byte (RFC 4898, tcpEStatsAppHCThruOctetsAcked).
SYN: Final = 1
_BYTES_ACKNOWLEDGED: Final = 120  # offset of tcpi_bytes_acked in struct tcp_info (linux/tcp.h, 4.1)
_LENGTH: Final = 128


def acknowledged(transport: asyncio.BaseTransport) -> int | None:
    """Bytes that the other end's kernel has taken since the connection began, the SYN included.

    None where the system does not tell: on others than Linux, and of sockets that are not TCP.
    """
    sock = transport.get_extra_info("socket")
    if sys.platform != "linux" or sock is None:
        return None
    try:
        found: bytes = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LENGTH)
    except OSError:
        return None
    if len(found) < _LENGTH:
        return None
    (count,) = struct.unpack_from("=Q", found, _BYTES_ACKNOWLEDGED)
    return int(count)
