"""Events: what the streaming engine sends, so that its reader can tell a byte that is wrong."""

from hashlib import sha256

_HEAD = (
    b'data: {"id":"chatcmpl-%d","object":"chat.completion.chunk","created":1,"model":"t","choices"'
)
_TAIL = b':[{"index":0,"delta":{"content":" token %d"},"logprobs":null,"finish_reason":null}]}\n\n'
DONE = b"data: [DONE]\n\n"


def event(seed: int, index: int) -> bytes:
    """One event of the stream with this seed."""
    return _HEAD % seed + _TAIL % index


def digest(seed: int, count: int) -> str:
    """SHA-256 of a whole stream of so many events."""
    found = sha256()
    for index in range(count):
        found.update(event(seed, index))
    found.update(DONE)
    return found.hexdigest()


def chunk(data: bytes) -> bytes:
    """Data in HTTP's chunked coding."""
    return b"%x\r\n%s\r\n" % (len(data), data)
