"""Exceptions and their exit codes: one table, the same in docs/cli.md.

OrchestratorError         1  our failure
├── InputError            2  bad input; carries problems
├── GateFailedError       3  the gate or a guard said no
├── InconclusiveError     4  the evidence is short
└── EngineError           5  an engine failed to start, to answer or to prove itself
    └── EngineGoneError   5  it cannot be reached any more
"""

from collections.abc import Iterable
from typing import ClassVar

from adapters.problem import Problem, sort_problems


class OrchestratorError(Exception):
    """Something draftgate could not do; the message says what was seen and what to do."""

    exit_code: ClassVar[int] = 1


class InputError(OrchestratorError):
    """Files or options that cannot be used. The message lists every problem."""

    exit_code = 2

    def __init__(self, problems: Iterable[Problem] | str):
        if isinstance(problems, str):
            problems = [Problem((), problems)]
        self.problems = sort_problems(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class GateFailedError(OrchestratorError):
    """Speculating output was not plain output, or a guard stopped a step."""

    exit_code = 3


class InconclusiveError(OrchestratorError):
    """Nothing was shown either way."""

    exit_code = 4


class EngineError(OrchestratorError):
    """An engine failed to start, to answer, or to prove that it does what its profile says."""

    exit_code = 5


class EngineGoneError(EngineError):
    """An engine that cannot be reached any more, or does not answer in time."""
