"""What a head was trained for, against the target and the profile it is used with."""

from collections.abc import Iterator

from adapters.checkpoint import Checkpoint, Head
from adapters.fit.pair import Pair
from adapters.problem import Path, Problem, Severity
from adapters.profile import Dflash, DraftModel, Dspark, Eagle3, Mtp

_STATES = 3  # EAGLE-3 reads a low, a middle and a high state of the target (arXiv 2503.01840)
_GAMMA: Path = ("speculation", "gamma")


def head_problems(pair: Pair) -> list[Problem]:
    """Everything that the facts of a head, or of a target that holds it, show to be wrong."""
    head = pair.draft.head if pair.draft else None
    problems = list(_mask_token(pair))
    if pair.name is None and pair.target is not None:
        problems += _bundled_gamma(pair, pair.target)
    if head is not None:
        problems += _gamma(pair, head)
        if pair.target is not None:
            problems += [*_width(pair, head, pair.target), *_size(pair, head, pair.target)]
            problems += _layers(pair, head, pair.target)
    return problems


def _width(pair: Pair, head: Head, target: Checkpoint) -> Iterator[Problem]:
    """The head's first matrix multiplies the target's state: another width cannot be loaded."""
    if head.target_hidden is None or target.hidden in (None, head.target_hidden):
        return
    message = (
        f"draft {pair.name!r} was trained on states {head.target_hidden} wide, the target's are "
        f"{target.hidden}"
    )
    hint = "use a head that was trained for this target"
    yield Problem(pair.draft_path, message, hint, code="head-target")


def _size(pair: Pair, head: Head, target: Checkpoint) -> Iterator[Problem]:
    """Ids the target does not have are out of range in its embedding."""
    size = head.vocabulary_size
    if size is None or target.vocabulary_size is None or size <= target.vocabulary_size:
        return
    message = (
        f"draft {pair.name!r} guesses among {size} tokens, the target has {target.vocabulary_size}"
    )
    hint = "use a head that was trained for this target"
    yield Problem(pair.draft_path, message, hint, code="head-vocabulary")


def _layers(pair: Pair, head: Head, target: Checkpoint) -> Iterator[Problem]:
    """Layers it reads: within the target, and as many different ones as it was trained on.

    Without a word in its config engines take (2, n/2, n-3); vLLM 0.32.0 keeps equal ones once
    (model_executor/models/interfaces.py), and the head's first matrix no longer fits.
    """
    if (
        target.layers is None
        or head.layers == ()
        or head.kind not in ("eagle3", "dflash", "dspark")
    ):
        return
    layers, said = head.layers, "reads the target's layers"
    if layers is None and head.kind == "eagle3":
        layers = (2, target.layers // 2, target.layers - _STATES)
        said = "does not say which layers it reads, and the usual ones are"
    complaint = _layer_complaint(layers or (), head, target.layers)
    if complaint is None:
        return
    what, severity = complaint
    message = f"draft {pair.name!r} {said} {', '.join(map(str, layers or ()))}: {what}"
    hint = "use a head that was trained for this target, or correct the ids in its config"
    yield Problem(pair.draft_path, message, hint, severity, "head-layers")


def _layer_complaint(
    layers: tuple[int, ...], head: Head, count: int
) -> tuple[str, Severity] | None:
    outside = [layer for layer in layers if not 0 <= layer <= count]
    if outside:
        return f"the target has {count} layers", "error"
    if len(set(layers)) < len(layers):
        return "they are not all different", "error"
    if head.kind == "eagle3" and len(layers) != _STATES:
        return f"EAGLE-3 reads {_STATES}: few engines take another number", "warning"
    return None


def _gamma(pair: Pair, head: Head) -> Iterator[Problem]:
    """Each Medusa head and each stage of an MLP speculator makes one guess: there is no next one.

    A block drafter makes more than it was trained for, and an MTP layer is run again; the guesses
    get worse.
    """
    gamma, length = pair.spec.gamma, head.length
    if length is None or gamma <= length:
        return
    if head.kind in ("medusa", "mlp_speculator"):
        message = f"{gamma} is more than draft {pair.name!r} can guess: {length} tokens"
        yield Problem(_GAMMA, message, f"write at most {length}", code="gamma-trained")
    elif head.kind in ("dflash", "dspark"):
        message = f"{gamma} is above the block that draft {pair.name!r} was trained on: {length}"
        hint = f"write at most {length}: guesses behind it are hardly ever accepted"
        yield Problem(_GAMMA, message, hint, "warning", "gamma-trained")
    elif head.kind == "mtp":
        yield from _rounds(gamma, length)


def _bundled_gamma(pair: Pair, target: Checkpoint) -> Iterator[Problem]:
    gamma = pair.spec.gamma
    if isinstance(pair.spec, Mtp) and target.mtp_layers:
        yield from _rounds(gamma, target.mtp_layers)
    if isinstance(pair.spec, Dspark) and target.block and gamma > target.block:
        message = f"{gamma} is above the block of the target's own drafter: {target.block}"
        hint = f"write at most {target.block}: guesses behind it are hardly ever accepted"
        yield Problem(_GAMMA, message, hint, "warning", "gamma-trained")


def _rounds(gamma: int, layers: int) -> Iterator[Problem]:
    """vLLM runs all MTP layers again and again, and refuses a number that ends within a round."""
    if gamma <= layers or gamma % layers == 0:
        return
    message = f"{gamma} is above the {layers} MTP layers and not a multiple of them"
    hint = f"write at most {layers}, or {gamma - gamma % layers} where layers are run again"
    yield Problem(_GAMMA, message, hint, "warning", "gamma-trained")


def _mask_token(pair: Pair) -> Iterator[Problem]:
    """Guessing in one pass needs a token for the places to be guessed (PARD, arXiv 2504.18583).

    vLLM 0.32.0 raises ValueError without one in the draft's config (llm_base_proposer.py).
    """
    spec, draft = pair.spec, pair.draft
    is_asked = isinstance(spec, DraftModel | Eagle3) and spec.parallel
    if draft is None or draft.mask_token is not None or draft.architecture is None:
        return
    if is_asked:
        message = f"draft {pair.name!r} was not trained to guess in parallel: it has no mask token"
        hint = "leave it out, or use a draft with mask_token_id or pard_token in its config"
        yield Problem(("speculation", "parallel"), message, hint, code="no-mask-token")
    elif isinstance(spec, Dflash | Dspark):
        message = f"draft {pair.name!r} has no mask token, and a block cannot be guessed without"
        hint = "its config should have mask_token_id, or dflash_config.mask_token_id"
        yield Problem(pair.draft_path, message, hint, code="no-mask-token")
