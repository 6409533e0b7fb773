"""How a ledger divides the cap of a new dataset, as its owner declares it: shares, or a programme of releases."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from sfumato import untrusted
from sfumato.errors import LedgerError, ParameterError
from sfumato.ledger.state import Standing
from sfumato.privacy.cap_shares import CapShares
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.programme import Programme, planned_releases
from sfumato.privacy.units import Cap

PureShare = float | Literal["all"]
Planned = str | os.PathLike[str] | Sequence[Mapping[str, Any]]
_LARGEST = 1 << 24  # bytes of a programme
_ASSUMED = (
    "no release had its epsilon, delta or kind of noise chosen after seeing an earlier result. Otherwise the true "
    "delta can be several times the cap's. Ledgers with a programme, or with filter composition, assume nothing"
)


def division_json(
    cap: Guarantee,
    pure_share: PureShare | None,
    tails: float,
    programme: Planned | None,
) -> dict[str, Any]:
    """How a filter divides a cap, as the entry of a dataset declares it; nothing where the first release decides."""
    if programme is not None:
        if pure_share is not None or tails:
            raise LedgerError("what a programme leaves of a cap is its pure share: give a programme, or shares")
        lines = _read(programme) if isinstance(programme, (str, os.PathLike)) else programme
        return {"programme": Programme.of(planned_releases(lines), cap.epsilon, cap.delta).to_json()}
    if pure_share is None:
        if tails:
            raise LedgerError("tails are a part of the Gaussian share: say how large the pure share is too, 0 for none")
        return {}
    return {"shares": CapShares.declared(pure_share, tails, cap.epsilon, cap.delta).to_json()}


def check_programme(dataset: Standing, cap: Cap) -> None:
    """Refuse a cap that a dataset's programme was not computed for."""
    programme = dataset.programme
    if programme is None:
        return
    if cap.key != dataset.caps[0].key:
        raise LedgerError(f"the programme of {dataset.name!r} was declared for one cap: no other can be added")
    if cap.guarantee.epsilon < programme.epsilon or cap.guarantee.delta < programme.delta:
        raise LedgerError(
            f"the programme of {dataset.name!r} needs epsilon {programme.epsilon:g} at delta {programme.delta:g}: "
            "a cap below that would leave it unfinished"
        )


def division_words(dataset: Standing, place: int) -> list[str]:
    """How a cap of a dataset is divided, and what its composition assumes, where there is something to say."""
    promise, shares, programme = dataset.caps[place].guarantee, dataset.shares(place), dataset.programme
    if dataset.composition == "tight":
        return [f"Assumes: {_ASSUMED}"]
    if programme is not None:
        made = sum(item.count for item in programme.planned)
        together = f"epsilon {programme.epsilon:g} at delta {programme.delta:g}"
        return [f"Programme: {made:,} planned, together {together}. What is left of the cap is for pure releases."]
    if dataset.composition != "filter" or promise.delta == 0:
        return []
    if shares is None:
        return ["Shares: the first release decides (or --pure-share at `ledger init`)"]
    return [f"Shares: {shares.describe(promise.epsilon, promise.delta)}"]


def _read(path: str | os.PathLike[str]) -> str:
    try:
        return untrusted.read(Path(path), _LARGEST).decode("utf-8-sig")
    except untrusted.NotOrdinaryError as error:
        raise ParameterError(f"the programme {os.fspath(path)!r} cannot be read: {error}") from None
    except (OSError, UnicodeDecodeError):
        raise ParameterError(f"the programme {os.fspath(path)!r} cannot be read as a text file in UTF-8") from None
