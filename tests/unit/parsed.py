"""The project's own modules as trees, each parsed once for all tests that look at them."""

import ast
import functools
from pathlib import Path


@functools.cache
def parsed(path: Path) -> ast.Module:
    """Raises SyntaxError."""
    return ast.parse(path.read_text(encoding="utf-8"))
