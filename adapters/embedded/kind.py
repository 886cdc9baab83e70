"""What is known about one flag, and short forms in which the tables say it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NoReturn

from adapters.embedded.value import Read, always, plain, truth, untruth

Status = Literal["honoured", "removed", "refused"]
Source = Literal["word", "text", "file", "directory"]


@dataclass(frozen=True, slots=True)
class Flag:
    """`to` is a path of attributes in CommonParams; empty: the reader says which settings."""

    names: tuple[str, ...]
    hint: str
    to: str
    read: Read
    env: str = ""
    negative: tuple[str, ...] = ()
    status: Status = "honoured"
    source: Source = "word"

    @property
    def takes_word(self) -> bool:
        return bool(self.hint)

    @property
    def variables(self) -> tuple[str, ...]:
        """Its environment variables; the second form means no, whatever it holds."""
        if not self.env or not self.negative:
            return (self.env,) if self.env else ()
        return (self.env, self.env.replace("LLAMA_ARG_", "LLAMA_ARG_NO_"))

    def usage(self) -> str:
        """Two lines at most, laid out as in llama-server's own help."""
        first = ", ".join((*self.names, *self.negative)) + (f" {self.hint}" if self.hint else "")
        return first + (f"\n{' ' * 40}(env: {self.env})" if self.env else "")


def value(names: str, hint: str, to: str, read: Read, env: str = "") -> Flag:
    return Flag(tuple(names.split()), hint, to, read, env)


def switch(names: str, to: str, env: str = "", sets: object = True) -> Flag:
    return Flag(tuple(names.split()), "", to, always(sets), env)


def toggle(yes: str, no: str, to: str, env: str = "", read: Read = truth) -> Flag:
    return Flag(tuple(yes.split()), "", to, read, env, tuple(no.split()))


def inverse(yes: str, no: str, to: str, env: str = "") -> Flag:
    """A toggle whose setting says no_something."""
    return toggle(yes, no, to, env, untruth)


def file(names: str, to: str, read: Read, env: str = "") -> Flag:
    """The named file's text is what the reader reads."""
    return Flag(tuple(names.split()), "FNAME", to, read, env, source="text")


def existing(names: str, to: str) -> Flag:
    """A file that the engine reads, and dies of if it is missing."""
    return Flag(tuple(names.split()), "FNAME", to, plain, source="file")


def directory(names: str, to: str, env: str = "") -> Flag:
    def closed(text: str) -> str:
        return text if text.endswith("/") else text + "/"

    return Flag(tuple(names.split()), "PATH", to, closed, env, source="directory")


def removed(names: str, advice: str, env: str = "") -> Flag:
    return Flag(
        tuple(names.split()),
        "N",
        "",
        failing(f"the argument has been removed. {advice}"),
        env,
        status="removed",
    )


def refused(names: str, reason: str, env: str = "") -> Flag:
    yes, _, no = names.partition(" / ")
    return Flag(
        tuple(yes.split()), "", "", failing(reason), env, tuple(no.split()), status="refused"
    )


def failing(message: str) -> Callable[[str], NoReturn]:
    def read(text: str) -> NoReturn:
        raise ValueError(message)

    return read


def also(to: str, read: Read, others: Mapping[str, object]) -> Read:
    """Reads into `to`, and sets others with it."""
    return lambda text: {to: read(text), **others}


def processors(names: str, hint: str, to: str, read: Read) -> Flag:
    """A set of processors of `to`; having one is a setting of its own."""
    return value(names, hint, "", also(f"{to}.cpumask", read, {f"{to}.mask_valid": True}))
