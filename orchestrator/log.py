"""Log: how every process of draftgate writes it."""

import logging
import sys


def to_stderr(level: int = logging.WARNING) -> None:
    """Lines with time, level and logger, on standard error."""
    logging.basicConfig(
        level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
