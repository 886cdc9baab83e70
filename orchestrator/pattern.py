"""Regular expressions of a fleet file, searched in linear time.

The router searches clients' text on its one event loop: an expression that backtracks could be made
to hold everybody up. RE2 never backtracks; it has no lookaround and no back references.
"""

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


def compile_pattern(pattern: str) -> re2._Regexp:
    """The compiled expression. Raises ValueError saying what RE2 does not take."""
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        message = f"not a regular expression that RE2 takes: {text}"
        raise ValueError(f"{message} (no lookaround, no back references)") from error
