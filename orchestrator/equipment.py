"""Equipment: what a process of the router has for as long as it lives, whatever its files say."""

import asyncio
import logging
import ssl

from orchestrator.access_log import AccessLog, open_lines
from orchestrator.configuration import RouterConfig
from orchestrator.errors import InputError
from orchestrator.tls import context_of, engine_trust, renew
from orchestrator.trace import tracer_of
from orchestrator.turn import Turn

LOG = logging.getLogger("draftgate.router")


class Equipment:
    """Made from the first configuration. `tls` is the context of both listeners, if they have one.

    Raises OrchestratorError when a log, a certificate or a tracer cannot be used.
    """

    def __init__(self, config: RouterConfig, loop: asyncio.AbstractEventLoop) -> None:
        self.turn = Turn(loop)
        self.tls = context_of(config.tls) if config.tls else None
        self.tracer = tracer_of(config.traces)
        self._lines = open_lines(config.access_log, config.log_prompts)
        self._trust: ssl.SSLContext | None = None

    @property
    def trust(self) -> ssl.SSLContext:
        """For engines behind TLS; made when the first one is met."""
        if self._trust is None:
            self._trust = engine_trust()
        return self._trust

    def access(self, config: RouterConfig) -> AccessLog | None:
        """The access log that a configuration asks for."""
        return AccessLog(self._lines, config.log_prompts) if self._lines else None

    def lost_lines(self) -> int | None:
        """Lines of the access log that were lost; None without one."""
        return self._lines.lost if self._lines else None

    def spans(self) -> dict[str, int] | None:
        """Spans by what became of them; None without a tracer."""
        return dict(self.tracer.counts()) if self.tracer else None

    def reopen(self) -> None:
        """Goes on in the file that has the access log's name now."""
        if self._lines is not None:
            self._lines.reopen()

    def renew(self, config: RouterConfig) -> None:
        """Takes the certificate as its files are now; a bad one is told and changes nothing."""
        if self.tls is None or config.tls is None:
            return
        try:
            renew(self.tls, config.tls)
        except InputError as error:
            LOG.error("the certificate stays as it was: %s", error)

    def close(self) -> None:
        """Writes and sends what waits."""
        if self._lines is not None:
            self._lines.close()
        if self.tracer is not None:
            self.tracer.close()
