"""Start: what a process of the router does before it serves, and what signals ask of it."""

import asyncio
import gc
import logging
import resource
import signal
import sys
from collections.abc import Callable

LOG = logging.getLogger("draftgate.router")


def raise_file_limit() -> None:
    """As many connections as the system lets this process have: the soft limit is often 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        LOG.info("open files: %d, raised from %d", hard, soft)


def prepare_process() -> None:
    """Its log, its limits, its garbage collector."""
    logger = logging.getLogger("draftgate")
    if not logger.hasHandlers():
        logger.addHandler(logging.StreamHandler(sys.stderr))
        logger.setLevel(logging.INFO)
    raise_file_limit()
    # What was made until here lives as long as the router: the collector need not look at it again.
    gc.collect()
    gc.freeze()


def on_signals(stop: Callable[[], None], reload: Callable[[], None]) -> None:
    """Stops on SIGTERM and SIGINT, reads the files again on SIGHUP."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, reload)
