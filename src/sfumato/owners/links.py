"""Private record linkage: which records of two owners' sketches are the same person's, and how many of them are not.

Two owners published sketches in one space, each with its own noise. For each pair that looks alike, how much likelier
is it as one person than as two (``level_pairs``, ``gaussian_pairs``)? Shares of typing errors and the overlap are
learned by EM (Fellegi and Sunter 1969; Winkler 1988). The share of false links is counted by decoys (``decoys``).

Guarantee: post-processing of both releases; costs no privacy. Somebody who is with both owners loses what both
releases lose together, whether or not anybody links them.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from sfumato import check
from sfumato.errors import ParameterError, ReleaseError
from sfumato.fileformat.manifest import SeveralFacts
from sfumato.fileformat.owners import loss_words
from sfumato.fileformat.spaces import space_in
from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.types import Floats, Integers
from sfumato.owners import candidate_pairs, decoys
from sfumato.owners.decoys import Competition
from sfumato.owners.gaussian_pairs import GaussianPairs
from sfumato.owners.level_pairs import LevelPairs
from sfumato.owners.several import several
from sfumato.posterior.levels import Levels
from sfumato.projection.space import told
from sfumato.releases.release import load
from sfumato.releases.sketch import SketchRelease

_FEWEST = 100  # records of each owner at least
_LOOKED_AT = 8  # candidates of each row, among the other owner's records and among decoys
_LEARNED = 1_000  # rows at most that shares of errors are learned from
_ROUNDS, _FIXED = 4, 30  # of EM, and of the overlap within each
_LARGEST = 250.0  # logarithm of a likelihood ratio
_FEW, _LOOSER = 20, (0.1, 0.2, 0.5)  # links below which it is told how many there are at looser rates, and those rates
_UNTOLD = (
    "At this noise links cannot be told from chance: this says nothing about how many people are with both owners."
)


class PairScorer(Protocol):
    """What decides how alike pairs are."""

    def features(self) -> tuple[Floats, Floats]:
        """Of rows and others, whose products choose candidates."""

    def log_ratios(self, rows: Integers, others: Integers) -> Floats:
        """How much likelier pairs are as one person than as two, in logarithms."""

    def learned(self, rows: Integers, others: Integers, weights: Floats) -> "PairScorer":
        """The same with typing errors as such pairs show them."""


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """Pairs of records that look like the same person's, one-to-one, the surest first.

    pairs            : positions in the first and in the second release.
    probability      : that each is right, by how many decoys have such a score.
    rates            : the estimated share of false links among each and all surer ones.
    expected_matches : how many records are believed to be with both owners, at least: too few where noise hides some.
    several          : what somebody loses who is with both owners: epsilon and delta of both releases, and of what.
    group            : how many records of a person the releases protect.
    loosest          : the share of false links that they were chosen by (``at``); 1: all are there.

    Error: shares of false links are estimated by decoys, the first owner's own records. They are right in expectation
    if records that are with one owner only come from the same population for both, and nobody has two records with
    one owner; two records of one person make them too large, owners of different populations too small or too large.
    """

    pairs: Integers
    probability: Floats
    rates: Floats
    expected_matches: float
    several: SeveralFacts
    group: int = 1
    loosest: float = 1.0

    def __len__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        if not len(self):
            return "<no links of two owners, which does not say that nobody is with both>"
        return f"<{len(self)} links of two owners; at least about {self.expected_matches:.0f} records are with both>"

    def describe(self, fdr: float = 0.05) -> str:
        """How many links there are at a share of false ones, and what follows; if few, how many at looser shares."""
        kept = self.at(fdr)
        lines = [
            f"{len(kept):,} {'link' if len(kept) == 1 else 'links'}, of which {kept.fdr():.1%} are estimated to be "
            f"false.\nAt least about {self.expected_matches:,.0f} records are believed to be with both owners."
            if len(kept)
            else f"No links at {_percent(fdr)}. {_UNTOLD}"
        ]
        looser = [rate for rate in _LOOSER if fdr < rate <= self.loosest][:2]
        if len(kept) < _FEW and looser:
            counts = [f"{_percent(rate)}: {len(self.at(rate)):,}" for rate in looser]
            lines.append(f"At {counts[0]} links{''.join(f'; at {count}' for count in counts[1:])}.")
        return "\n".join(lines)

    def fdr(self, at: float = 0.0) -> float:
        """The estimated share of false ones among links whose probability is at least this; 0 if there are none."""
        check.between(0, 1, at=at)
        inside = np.flatnonzero(self.probability >= at)
        return float(self.rates[inside[-1]]) if len(inside) else 0.0

    def at(self, fdr: float = 0.05) -> "Links":
        """The most links of which at most this share is estimated to be false."""
        check.between(0, 1, fdr=fdr)
        count = int(np.sum(self.rates <= fdr))
        kept = {name: getattr(self, name)[:count] for name in ("pairs", "probability", "rates")}
        return replace(self, **kept, loosest=min(fdr, self.loosest))

    @property
    def privacy(self) -> str:
        """What linking says of privacy, in words."""
        return (
            f"Linking is post-processing and costs nothing. Somebody who is with both owners loses what both releases "
            f"lose together: {loss_words(self.several, self.group)}."
        )

    def table(self) -> pa.Table:
        """The links as an Arrow table: first, second, probability, false_rate."""
        first, second = self.pairs.T
        return pa.table({"first": first, "second": second, "probability": self.probability, "false_rate": self.rates})


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def link(a: Any, b: Any, *, allow_unprotected: bool = False) -> Links:
    """Pairs of records of two sketches in one space that look like the same person's.

    a, b : sketches, or the paths of their folders; test noise in those is refused, unless ``allow_unprotected``.

    Guarantee: post-processing; costs no privacy (``Links.privacy`` says what somebody loses who is with both).
    Error: see ``Links``. Time grows as the product of the numbers of records.
    """
    a, b = (load(one, allow_unprotected=allow_unprotected) if isinstance(one, str | Path) else one for one in (a, b))
    _check_pair(a, b)
    if a.noise.scale > b.noise.scale:  # decoys are of the quieter side
        found, overlap = _linked(b, a)
        pairs = np.column_stack([found.others, found.rows])
    else:
        found, overlap = _linked(a, b)
        pairs = np.column_stack([found.rows, found.others])
    real = ~found.decoys
    both = [a.manifest, b.manifest]
    return Links(
        pairs[real],
        found.probabilities()[real],
        found.false_rates()[real],
        overlap,
        several(both),
        max(one["guarantee"]["group"] for one in both),
    )


def _linked(a: SketchRelease, b: SketchRelease) -> tuple[Competition, float]:
    """Links of a's rows, and the number of records that are believed to be with both."""
    rows, theirs = (np.asarray(release.array(), np.float64) for release in (a, b))
    others = np.concatenate([theirs, decoys.noisier(rows, a.noise, b.noise)])
    law = _law(a, rows, others, (a.noise, b.noise))
    one, two = law.features()
    targets = candidate_pairs.best(one, two[: len(theirs)], _LOOKED_AT)
    candidates = np.concatenate(
        [targets, candidate_pairs.best(one, two[len(theirs) :], _LOOKED_AT, same=True) + len(theirs)], axis=1
    )
    law, ratios = _em(law, candidates, len(others))
    scores = np.log(_posterior(ratios, candidates, len(others)))
    chances, real = np.exp(scores), candidates < len(theirs)
    ratio = len(theirs) / (len(rows) - 1)
    overlap = float(np.sum(chances[real]) - ratio * np.sum(chances[~real]))
    return Competition.of(candidates, scores, len(theirs), len(rows) - 1), max(overlap, 0.0)


def _law(a: SketchRelease, rows: Floats, others: Floats, noises: tuple[NoiseLaw, NoiseLaw]) -> PairScorer:
    levels = Levels.of(a.schema, a.noise) if a.geometry.family == "identity" else None
    return GaussianPairs.of(rows, others, noises) if levels is None else LevelPairs.of(levels, rows, others, noises)


def _em(law: PairScorer, candidates: Integers, others: int) -> tuple[PairScorer, Floats]:
    """Typing errors learned from some rows, blind to what is a decoy; and the log ratios of all candidates then."""
    some = np.arange(0, len(candidates), max(len(candidates) // _LEARNED, 1))
    for _ in range(_ROUNDS):
        ratios = _ratios(law, some, candidates[some])
        chances = _posterior(ratios, candidates[some], others)
        likely = chances > 0.05
        law = law.learned(np.repeat(some, likely.sum(axis=1)), candidates[some][likely], chances[likely])
    return law, _ratios(law, np.arange(len(candidates)), candidates)


def _ratios(law: PairScorer, rows: Integers, candidates: Integers) -> Floats:
    found = law.log_ratios(np.repeat(rows, candidates.shape[1]), candidates.ravel())
    return np.clip(found.reshape(candidates.shape), -_LARGEST, _LARGEST)


def _posterior(ratios: Floats, candidates: Integers, others: int) -> Floats:
    """The probability of each candidate that it is the row's match, one-to-one, with the overlap that fits best.

    A pair competes with all others of its row and of its column, and with neither having a match.
    """
    odds = np.exp(ratios)
    total = odds.sum(axis=1)
    columns = np.bincount(candidates.ravel(), odds.ravel(), minlength=others)[candidates]
    count, matches = len(candidates), 0.2 * len(candidates)
    for _ in range(_FIXED):
        prior = matches / max((count - matches) * (others - matches), 1.0)
        matches = min(float(np.sum(prior * total / (1 + prior * total))), 0.98 * min(count, others))
    rival = total[:, None] + columns - odds
    return np.asarray(np.maximum(prior * odds / (1 + prior * rival), np.finfo(float).tiny))


def _check_pair(a: Any, b: Any) -> None:
    for name, release in (("a", a), ("b", b)):
        if not isinstance(release, SketchRelease):
            kind = release.manifest["kind"] if hasattr(release, "manifest") else type(release).__name__
            raise ParameterError(
                f"{name} must be a sketch, whose rows are records, or the path of its folder, got {kind}"
            )
        if release.rows < _FEWEST:
            raise ReleaseError(
                f"links need {_FEWEST} records of each owner to learn from, and {name} has {release.rows}"
            )
    if a is b or np.array_equal(a.columns, b.columns):
        raise ParameterError("a and b are the same release: every record would be linked to itself")
    if differing := _differences(a, b):
        raise ReleaseError(
            f"a and b are not in the same space: they differ in {differing}. Owners agree on one before they publish"
        )


def _differences(a: SketchRelease, b: SketchRelease) -> str:
    """What differs between the spaces of two sketches, in words."""
    ours, theirs = (space_in(release.manifest) for release in (a, b))
    if ours is not None and theirs is not None:
        held = [release.manifest["space"].get("columns") for release in (a, b)]
        if ours.digest == theirs.digest:
            return "the columns that they hold" * (held[0] != held[1])
        return told(ours.differences(theirs))
    found = ["the schema"] * (a.manifest["schema"] != b.manifest["schema"])
    one, two = a.manifest["projection"], b.manifest["projection"]
    words = {"family": "the family of projections", "dim_in": "encoded columns", "dim_out": "the dimension"}
    words |= {"sparsity": "the sparsity", "seed": "the seed of the projection"}
    if one["family"] == "identity":
        del words["seed"]
    found += [word for key, word in words.items() if one.get(key) != two.get(key)]
    if not found and one["family"] == "principal":
        found = ["the subspace, which each owner found privately"]
    return ", ".join(found)
