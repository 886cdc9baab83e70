"""Level: how many requests the loaded suite keeps in flight, one level for each batch class."""

from adapters.profile import Drafted, Profile, Tier

# Without a schedule: the smallest batch, and one in which rows of several requests share a kernel.
_USUAL = (2, 8)


def levels(
    profile: Profile, most_at_once: int | None, largest: int
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Concurrencies of the loaded suite, smallest first, and in words what they never reach.

    With a schedule they are the first and the last size of each range, so that both sides of each
    threshold are decoded. One at a time is left to the suite greedy. `most_at_once` is what the
    worker decodes at once, None where nobody knows; `largest` is the most that the gate may ask.
    """
    most = min(largest, most_at_once or largest)
    spec = profile.speculation
    tiers = (spec.schedule if isinstance(spec, Drafted) else None) or ()
    wanted = [size for tier in tiers for size in _ends(tier, most)] or [
        min(s, most) for s in _USUAL
    ]
    limit = _limit(most_at_once, largest)
    notes = [note for tier in tiers if (note := _unreached(tier, most, limit))]
    if most < 2:
        notes.append(f"no load was tried: {limit}")
    return tuple(sorted({size for size in wanted if size >= 2})), tuple(notes)


def _ends(tier: Tier, most: int) -> list[int]:
    """First and last size of a range, no further than `most`; an open one has no last."""
    first, last = tier.batch.first, tier.batch.last
    if first > most:
        return []
    return [first] if last is None else [first, min(last, most)]


def _unreached(tier: Tier, most: int, limit: str) -> str:
    """An open range is reached by its first size."""
    first, last = tier.batch.first, tier.batch.last
    reached = first if last is None else last
    if reached <= most:
        return ""
    what = f"{most + 1} to {last}" if first <= most else str(tier.batch)
    return f"batches of {what} (gamma {tier.gamma}) were not reached: {limit}"


def _limit(most_at_once: int | None, largest: int) -> str:
    if most_at_once is not None and most_at_once <= largest:
        return f"the worker decodes at most {most_at_once} at once"
    return f"the gate asks at most {largest} at once"
