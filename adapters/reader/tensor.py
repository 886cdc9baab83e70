"""Tensors as the headers of weight files list them; their values are never read."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_INDEX = re.compile(r"(?:^|\.)(?:layers|blk|h|blocks)\.(\d+)\.")


@dataclass(frozen=True)
class Tensor:
    """`shape` is outermost first, as PyTorch writes it; `size` is in bytes."""

    shape: tuple[int, ...]
    dtype: str
    size: int


@dataclass(frozen=True)
class Tensors:
    """All tensors of a checkpoint by name. `is_whole` says that every file's header was read."""

    by_name: Mapping[str, Tensor] = field(default_factory=dict)
    is_whole: bool = False
    total: int | None = None  # bytes, where known without the tensors' own sizes

    @property
    def weight_bytes(self) -> int | None:
        if not self.is_whole:
            return None
        return self.total or sum(tensor.size for tensor in self.by_name.values())

    @property
    def dtype(self) -> str | None:
        """The type that most bytes have."""
        sizes: Counter[str] = Counter()
        for tensor in self.by_name.values():
            sizes[tensor.dtype] += tensor.size
        return sizes.most_common(1)[0][0] if sizes else None

    def shape(self, *names: str) -> tuple[int, ...] | None:
        """The shape of the first of these tensors that is there."""
        return next((self.by_name[n].shape for n in names if n in self.by_name), None)

    def any_name(self, *parts: str) -> bool:
        return any(part in name for name in self.by_name for part in parts)

    def size_of(self, names: Iterable[str]) -> int:
        return sum(self.by_name[name].size for name in names)

    def names_of_mtp(self, layers: int | None) -> list[str]:
        """Tensors of multi-token prediction: named so, or in layers behind the model's own."""
        return [name for name in self.by_name if _is_mtp(name, layers)]


def _is_mtp(name: str, layers: int | None) -> bool:
    if ".nextn." in name or "mtp." in name or "mtp_" in name:
        return True
    match = _INDEX.search(name)
    return layers is not None and match is not None and int(match[1]) >= max(layers, 1)
