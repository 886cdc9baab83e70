"""Dechunk: a chunked body as plain bytes, for HTTP/1.0 clients (nginx's default towards us)."""

import httptools

_HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Dechunker:
    """Fed with the raw body of one answer, which its connection has already found valid."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)
        self._parser.feed_data(_HEAD)

    def feed(self, data: bytes) -> bytes:
        """The content in these bytes."""
        self._parser.feed_data(data)
        content = b"".join(self._parts)
        self._parts.clear()
        return content

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)
