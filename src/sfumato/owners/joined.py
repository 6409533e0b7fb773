"""Sketches of several owners in one shared space, joined: one release in which rows know their owner.

Rows of two owners have noises of different laws, and every estimate and interval knows both (``pairs``). Nothing here
costs privacy. Somebody who is with several owners loses what their releases cost together (``JoinedSketches.several``).
"""

import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sfumato import check, untrusted
from sfumato.errors import ParameterError, ReleaseError
from sfumato.estimation import quantities, sketches
from sfumato.estimation.neighbours import Clusters
from sfumato.fileformat.owners import composed_words
from sfumato.fileformat.spaces import space_in
from sfumato.in_notebooks import InNotebooks
from sfumato.intervals.estimate import Estimate, Quantity
from sfumato.intervals.moments import SketchLaw
from sfumato.numerics.types import Floats, Integers
from sfumato.owners import clustering, nearest_rows, pairs
from sfumato.owners.clustering import OwnedRows
from sfumato.owners.nearest_rows import Usual
from sfumato.owners.owner_rows import OwnerRows
from sfumato.owners.pairs import OwnersLaw
from sfumato.privacy.guarantee import Guarantee
from sfumato.projection.space import Space, told
from sfumato.releases.release import Index, Nearest, positions
from sfumato.tables.schema import Schema

if TYPE_CHECKING:
    from sfumato.fileformat.manifest import SeveralFacts

_SHOWN = 12  # owners that are named in a text
_USUAL = 500  # rows, about, that usual distances are learned from


def join(releases: Sequence[Any] | Mapping[str, Any], *, allow_unprotected: bool = False) -> "JoinedSketches":
    """Join sketches of several owners in one shared space, so that rows can be compared across owners.

    releases : sketches, or the paths of their folders, which are read when they are needed, some rows at a time. Owners
               are called by the keys of a mapping, else by the stems of paths, else a, b, c and so on.

    Guarantee: post-processing of releases; costs no privacy. Each owner's release keeps its own guarantee; what
               somebody loses who is with several of them is in ``several``.
    """
    if isinstance(releases, (str, Path)) or not isinstance(releases, (Sequence, Mapping)):
        raise ParameterError("releases must be a list of sketches or of paths, or a mapping from names to them")
    given = list(releases.values() if isinstance(releases, Mapping) else releases)
    if len(given) < 2:
        raise ParameterError(f"join needs at least two releases, got {len(given)}")
    held = tuple(OwnerRows.of(one, allow_unprotected=allow_unprotected) for one in given)
    names = _names(list(releases) if isinstance(releases, Mapping) else None, given)
    _check_same_space(names, held)
    _check_distinct(names, held)
    return JoinedSketches(names, held)


def _names(stated: list[Any] | None, given: list[Any]) -> tuple[str, ...]:
    """The names of owners: stated ones, stems of paths, or letters."""
    letters = ("".join(word) for size in count(1) for word in product(string.ascii_lowercase, repeat=size))
    taken = [Path(one).stem for one in given if isinstance(one, (str, Path))]
    free = (letter for letter in letters if letter not in taken)
    names = stated or [Path(one).stem if isinstance(one, (str, Path)) else next(free) for one in given]
    if not all(isinstance(name, str) and name for name in names):
        raise ParameterError("owners must be called by texts")
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise ParameterError(f"two owners would be called {twice!r}: pass a mapping from names to releases")
    return tuple(names)


def _check_same_space(names: Sequence[str], held: Sequence[OwnerRows]) -> None:
    """Refuse spaces that do not match, saying what differs."""
    first = held[0].manifest["space"]
    for name, one in zip(names[1:], held[1:], strict=True):
        facts = one.manifest["space"]
        if facts["digest"] != first["digest"]:
            ours, theirs = (cast("Space", space_in(other.manifest)) for other in (held[0], one))
            what = told(ours.differences(theirs))
            raise ReleaseError(f"{names[0]} and {name} are not in the same space: they differ in {what}")
        if facts.get("columns") != first.get("columns"):
            raise ReleaseError(
                f"{names[0]} and {name} hold different columns of their space, so their rows cannot be compared: parts "
                "of the same records add up (sf.add)"
            )


def _check_distinct(names: Sequence[str], held: Sequence[OwnerRows]) -> None:
    """Refuse two copies of one release, which would look like two owners with equal noise."""
    found: dict[str, str] = {}
    for name, one in zip(names, held, strict=True):
        other = found.setdefault(one.identity, name)
        if other != name:
            raise ReleaseError(f"{other} and {name} are copies of one release: join every release once")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class JoinedSketches(InNotebooks):
    """Sketches of several owners, joined: positions run through all owners, in the order of ``owners``.

    Every estimate knows the noise of each of its rows; within one owner it is that of the owner's own release.
    """

    owners: tuple[str, ...]
    held: tuple[OwnerRows, ...]
    _kept: dict[str, Any] = field(default_factory=dict, init=False)

    def __repr__(self) -> str:
        names = ", ".join(islice(self.owners, _SHOWN)) + (", ..." if len(self.owners) > _SHOWN else "")
        return f"<joined sketches of {len(self.owners)} owners ({names}), {self.rows} records>"

    # ---- owners -----------------------------------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """How many records all owners have."""
        return int(self._starts[-1])

    @property
    def _starts(self) -> Integers:
        """The position of each owner's first row, and the number of all rows."""
        if "starts" not in self._kept:
            self._kept["starts"] = np.concatenate([[0], np.cumsum([one.count for one in self.held])]).astype(np.int64)
        return cast("Integers", self._kept["starts"])

    def at(self, owner: str, record: Index) -> Any:
        """The position of an owner's record, or of several."""
        place = self._place_of(owner)
        found = positions(record, self.held[place].count, f"records of {owner}") + self._starts[place]
        return found if np.ndim(record) else int(found[0])

    def owner_of(self, records: Index) -> Any:
        """The owner of a record by its position; of many, a list."""
        names = [self.owners[place] for place in self._owners(positions(records, self.rows))]
        return names if np.ndim(records) else names[0]

    def record_of(self, records: Index) -> Any:
        """The number of a record within its owner's release, by its position; of many, an array."""
        index = positions(records, self.rows)
        found = index - self._starts[self._owners(index)]
        return found if np.ndim(records) else int(found[0])

    def _owners(self, index: Integers) -> Integers:
        return np.asarray(np.searchsorted(self._starts, index, side="right") - 1)

    def _place_of(self, owner: str) -> int:
        if owner not in self.owners:
            known = ", ".join(self.owners[:_SHOWN])
            raise ParameterError(f"there is no owner {owner!r}: owners are {known}")
        return self.owners.index(owner)

    # ---- what it is -------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> Schema:
        """What the columns were, with their public bounds: the same for all owners."""
        return self.held[0].release.schema

    @property
    def dimension(self) -> int:
        """How many numbers each record became."""
        return self.held[0].release.dimension

    @property
    def guarantees(self) -> dict[str, Guarantee]:
        """What each owner promised of its own release."""
        return {name: one.release.guarantee for name, one in zip(self.owners, self.held, strict=True)}

    @property
    def several(self) -> "SeveralFacts":
        """The composed loss of somebody who is with all owners (``owners.several``)."""
        return cast("SeveralFacts", self.manifest["several"])

    @property
    def manifest(self) -> dict[str, Any]:
        """What was joined: the space, each owner's digest, promise and rows, and the composed loss of all owners."""
        if "manifest" not in self._kept:
            from sfumato.owners import several  # noqa: PLC0415 - much to load where nobody asks what somebody loses

            said = [one.manifest for one in self.held]
            both = {"owners": several.owners(said), "several": several.several(said)}
            about = {"kind": "joined", "rows": self.rows, "space": said[0]["space"], "schema": said[0]["schema"]}
            self._kept["manifest"] = about | both
        return cast("dict[str, Any]", self._kept["manifest"])

    def describe(self) -> str:
        """What was joined, in plain words: each owner with its promise, and what somebody loses who is with all."""
        lines = [f"Sketches of {len(self.owners)} owners in one shared space, {self.rows:,} records."]
        for name, one in islice(zip(self.owners, self.held, strict=True), _SHOWN):
            promise = one.release.guarantee
            lines.append(
                f"  {untrusted.line(name, 40)}: {one.count:,} records, epsilon {promise.epsilon:g}, "
                f"delta {promise.delta:g}, unit {promise.unit}"
            )
        more = len(self.owners) - _SHOWN
        lines += [f"  and {more:,} more owners"] if more > 0 else []
        return "\n".join([*lines, f"Somebody who is with all of them: {composed_words(self.manifest, 4)}."])

    @property
    def law(self) -> OwnersLaw:
        """What is random about the rows: the noise of each owner, and the projection they share."""
        if "law" not in self._kept:
            self._kept["law"] = OwnersLaw.of([one.release.law for one in self.held])
        return cast("OwnersLaw", self._kept["law"])

    def array(self) -> Floats:
        """The released numbers of all owners, one row per record: read when they are asked for, and not kept."""
        return np.concatenate([np.asarray(block, np.float64) for _, _, block in self.blocks()])

    def blocks(self) -> Iterator[tuple[int, int, Floats]]:
        """All rows some at a time: which owner they are of, the position of the first, and the released numbers."""
        for place, one in enumerate(self.held):
            for start, block in one.blocks():
                yield place, int(self._starts[place]) + start, block

    def _rows(self, index: Integers) -> Floats:
        """Released rows by their positions, in double precision."""
        found, owners = np.empty((index.size, self.dimension)), self._owners(index)
        for place in np.unique(owners):
            here = owners == place
            found[here] = self.held[place].at(index[here] - self._starts[place])
        return found

    # ---- questions about pairs --------------------------------------------------------------------------------------

    def distance(self, i: int, j: int) -> Estimate:
        """Squared distance between two records, by their positions."""
        return pairs.single(self.distances([i], [j]))

    def distances(self, first: Index, second: Index) -> Estimate:
        """Squared distances between records, pairwise in step."""
        return self._pairs(first, second, partial(sketches.squared_distance, quantity=self._apart))

    def inner_product(self, first: Index, second: Index) -> Estimate:
        """Inner products of records, pairwise in step; a record with itself has bias, so use ``norm`` there."""
        return self._pairs(first, second, sketches.inner_product).of(quantities.inner_product(self.schema))

    def cosine(self, first: Index, second: Index) -> Estimate:
        """Cosine similarities of records, pairwise in step."""
        return self._pairs(first, second, sketches.cosine).of(quantities.COSINE)

    def hamming(self, first: Index, second: Index) -> Estimate:
        """Numbers of flags in which records differ; for schemas of flags of weight 1."""
        self._check_flags()
        ask = partial(sketches.squared_distance, quantity=quantities.differing_flags(self.schema))
        return self._pairs(first, second, ask)

    def jaccard(self, first: Index, second: Index) -> Estimate:
        """Jaccard similarities of the sets of flags that are true; for schemas of flags of weight 1."""
        self._check_flags()
        return self._pairs(first, second, sketches.jaccard).of(quantities.JACCARD)

    def _pairs(self, first: Index, second: Index, ask: Any) -> Estimate:
        """Estimates of pairs of records, each by the noises of its two owners."""
        one, two = positions(first, self.rows), positions(second, self.rows)
        if one.shape != two.shape:
            raise ParameterError(f"first and second must have the same length, got {one.size} and {two.size}")
        a, b = self._rows(one), self._rows(two)

        def asked(where: Integers, exchanged: bool, law: SketchLaw) -> Estimate:
            pair = (b[where], a[where]) if exchanged else (a[where], b[where])
            return cast("Estimate", ask(*pair, law))

        return self.law.of_pairs(self._owners(one), self._owners(two), asked)

    # ---- questions about rows ---------------------------------------------------------------------------------------

    def norm(self, records: Index) -> Estimate:
        """Squared lengths of records."""
        index, quantity = positions(records, self.rows), quantities.squared_norm(self.schema)
        rows = self._rows(index)
        return self.law.of_rows(
            self._owners(index), lambda where, law: sketches.squared_norm(rows[where], law, quantity)
        )

    def distances_to(self, records: Index, public_rows: Any) -> Estimate:
        """Squared distances of records to public rows, in step; one public row serves for all."""
        index = positions(records, self.rows)
        mine, theirs = self._rows(index), self.held[0].with_projection().transform(public_rows)
        if 1 in (len(mine), len(theirs)):
            mine, theirs = np.broadcast_arrays(mine, theirs)
            index = np.broadcast_to(index, len(mine))
        if len(mine) != len(theirs):
            raise ParameterError(
                f"records and public_rows must have the same length, got {len(mine)} and {len(theirs)}"
            )

        def asked(where: Integers, law: SketchLaw) -> Estimate:
            return sketches.squared_distance_to_public(mine[where], theirs[where], law, self._apart)

        return self.law.of_rows(self._owners(index), asked)

    def nearest(self, record: Index, k: int = 10, among: str | None = None) -> Nearest:
        """The k records that look nearest to one, with estimates of their squared distances; a row for each of many.

        among : the owner whose records to choose from (default: all).

        Ranked by estimates that are freed of each owner's noise and shrunk by it towards what is usual
        (``nearest_rows``), since rows of quiet owners would look nearer otherwise, or by luck those of noisy ones. What
        is shown of each is its own unbiased estimate, so those need not rise. Intervals hold for all records to choose
        from at once. ``note`` says whose noise hides who is nearer.
        """
        check.whole(1, k=k)
        index = positions(record, self.rows)
        places = list(range(len(self.held)) if among is None else [self._place_of(among)])
        owned = np.isin(self._owners(index), places)
        every = sum(self.held[place].count for place in places)
        if k > every - bool(owned.any()):
            raise check.fail("k", k, f"at most {every - bool(owned.any())}, the records there are to choose from")
        bias, points = self.dimension * self.law.variances, self._rows(index)
        passes = (
            (int(self._starts[place]) + start, block, float(bias[place]), place)
            for place in places
            for start, block in self.held[place].blocks()
        )
        usual = self._usual(index, points, places)
        found = nearest_rows.nearest(points, index, passes, k, usual)
        estimate = self.distances(np.repeat(index, k), found.ravel())
        if np.ndim(record):
            estimate = pairs.shaped(estimate, found.shape)
        chosen = Nearest.among(every - bool(owned.all()), found if np.ndim(record) else found[0], estimate)
        return replace(chosen, note="" if usual is None else self._undecided(usual.undecided(places), places))

    def _usual(self, index: Integers, points: Floats, places: Sequence[int]) -> Usual | None:
        """What distances to rows of these owners are usual, from the quieter ones; None if all have one noise."""
        laws, variances = [self.law.noises[which] for which in self.law.which], self.law.variances
        if not nearest_rows.noise_differs([laws[place] for place in places]):
            return None
        taken: list[Integers] = []
        for place in sorted(places, key=lambda place: variances[place]):
            count = self.held[place].count
            step = max(1, count // _USUAL)
            taken.append(self._starts[place] + np.arange(0, count, step))
            if sum(map(len, taken)) >= _USUAL:
                break
        some = np.concatenate(taken)
        asking = variances[self._owners(index)]
        return Usual.of(points, index, asking, (some, self._rows(some), self._owners(some)), laws)

    def _undecided(self, found: Sequence[int], places: Sequence[int]) -> str:
        """A sentence on the owners whose noise hides who is nearer."""
        if not found:
            return ""
        names = ", ".join(self.owners[place] for place in islice(found, _SHOWN)) + ", ..." * (len(found) > _SHOWN)
        whose = "any owner" if len(found) == len(places) else names
        return f"Noise hides which records of {whose} are nearer: their ranks say next to nothing."

    def cluster(self, clusters: int, *, seed: int = 0) -> Clusters:
        """K-means over the rows of all owners, in passes over them; noisier owners count less (``clustering``)."""
        check.whole(1, clusters=clusters)
        if clusters > self.rows:
            raise check.fail("clusters", clusters, f"at most {self.rows}, the number of rows")
        counts = np.diff(self._starts)
        return clustering.cluster(
            OwnedRows(counts, self.law.variances, self.blocks), clusters, np.random.default_rng(seed)
        )

    @property
    def _apart(self) -> Quantity:
        """Squared distances between records, as the schema bounds them."""
        if "apart" not in self._kept:
            self._kept["apart"] = quantities.squared_distance(self.schema)
        return cast("Quantity", self._kept["apart"])

    def _check_flags(self) -> None:
        if not self.schema.encoding.only_bits:
            raise ReleaseError(
                "Hamming and Jaccard need a schema with flags only, all of weight 1: use distances instead"
            )
