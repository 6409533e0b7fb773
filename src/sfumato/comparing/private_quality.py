"""``compare_privately``: a summary of a comparison under differential privacy, which may travel; charged beforehand."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.comparing import private_distances
from sfumato.comparing.private_distances import NoisyDistanceCounts, PrivateDistances
from sfumato.comparing.quality import partition_of, synthetic_batches, table_release
from sfumato.comparing.quality_page import POLICY, STYLE
from sfumato.comparing.tally import ComparedParts, fine_counts
from sfumato.engines.local import Local
from sfumato.errors import ParameterError
from sfumato.fileformat.manifest import RANDOMNESS, Facts
from sfumato.fileformat.reader import digest
from sfumato.files.open_table import open_table
from sfumato.ledger.account import Account
from sfumato.ledger.ledger import schema_text
from sfumato.ledger.reservation import Reservation
from sfumato.ledger.state import Request
from sfumato.marginals.parts import MOST_PARTS, MOST_PARTS_OF_PAIRS, title
from sfumato.pipeline.charging import charged
from sfumato.pipeline.release import FROM_BOUNDS, Budget, account_of, key_of, source_of, table_of
from sfumato.privacy.calibration import Calibrated, calibrate
from sfumato.privacy.guarantee import Guarantee, Neighbours
from sfumato.randomness.secret import Secret, protects
from sfumato.releases.release import AnyRelease
from sfumato.releases.table import TableRelease
from sfumato.report import svg
from sfumato.report.html import Markup, document, packaged, tag
from sfumato.report.numbers import number
from sfumato.tables.blocks import Blocks, CodeReader, ignore
from sfumato.version import __version__

_DEVIATIONS = {"gaussian": 1.959964, "laplace": 2.118318}  # of the noise, in a 95% interval
_HOPELESS = 0.25  # a standard error of a total variation, which lies between 0 and 1, that tells nothing


@dataclass(frozen=True, slots=True)
class NoisyDistance:
    """A total variation under differential privacy: unbiased, with the standard error of its noise.

    half : half the length of a 95% interval.
    """

    name: str
    value: float
    error: float
    half: float

    @property
    def interval(self) -> tuple[float, float]:
        """A 95% interval, within 0 and 1."""
        low, high = (min(max(end, 0.0), 1.0) for end in (self.value - self.half, self.value + self.half))
        return low, high


@dataclass(frozen=True, slots=True)
class PrivateQuality:
    """A private summary of how far a synthetic table is from the real one. It may travel.

    columns : the total variation of each, over at most 32 equal parts of a number's bounds, or all levels.
    two_way : the mean over ``pairs`` pairs, over at most 8 parts; None for a single column.
    facts   : guarantee, ledger entry and digest, as the ledger has them.
    """

    guarantee: Guarantee
    columns: tuple[NoisyDistance, ...]
    two_way: NoisyDistance | None
    pairs: int
    records: int
    facts: Facts

    @property
    def one_way(self) -> NoisyDistance:
        """The mean total variation of single columns; the noise of the columns is independent."""
        facts = ([getattr(c, fact) for c in self.columns] for fact in ("value", "error", "half"))
        values, errors, halves = map(np.array, facts)
        spread = [float(np.linalg.norm(each)) / len(values) for each in (errors, halves)]
        return NoisyDistance("mean of single columns", float(values.mean()), *spread)

    def describe(self) -> str:
        """The summary in a few lines."""
        far = max(self.columns, key=lambda column: column.value)
        lines = [f"One column: total variation {_told(self.one_way)} on average, {_told(far)} at most ({far.name})."]
        if self.two_way is not None:
            lines.append(f"Two columns: total variation {_told(self.two_way)} on average over {self.pairs:,} pairs.")
        return "\n".join([*lines, self.guarantee.describe(projected=False)])

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain values."""
        two = self.two_way
        return {
            "one_way": _plain(self.one_way),
            "two_way": None if two is None else _plain(two),
            "columns": {column.name: _plain(column) for column in self.columns},
            "pairs": self.pairs,
            "records": self.records,
        } | self.facts

    def write(self, path: str | Path, *, force: bool = False) -> None:
        """Write the summary as one HTML page."""
        place = Path(path)
        if place.is_symlink() or (place.exists() and not force):
            raise ParameterError(f"{place} already exists: choose another name or use force; nothing was written")
        place.write_text(page(self), encoding="utf-8", newline="\n")


def _plain(distance: NoisyDistance) -> dict[str, Any]:
    return {"value": distance.value, "standard_error": distance.error, "interval": list(distance.interval)}


def _told(distance: NoisyDistance) -> str:
    return f"{max(distance.value, 0.0):.4f} \u00b1 {distance.half:.4f}"


# ---- making it ------------------------------------------------------------------------------------------------------


def compare_privately(  # noqa: PLR0913 - everything meets here
    data: Any,
    release: AnyRelease | str | Path,
    *,
    epsilon: float,
    delta: float = 0.0,
    ledger: Budget = None,
    neighbours: Neighbours | None = None,
    group: int | None = None,
    secret: Secret | None = None,
) -> PrivateQuality:
    """Compare the owner's real table with a synthetic one under differential privacy: a summary that may travel.

    Formal guarantee: the summary satisfies (epsilon, delta) for unit record, as ``private_distances`` proves; it is
    charged to ``ledger`` in full before a row is read, in addition to what the release itself cost.

    neighbours, group : as in a ``Guarantee``; left out, those of the release.
    secret            : for tests, as in ``release``; such a summary protects nobody, and cannot be charged.
    """
    made, key, account = table_release(release), key_of(secret), account_of(ledger)
    if protects(key) and not made.manifest["protected"]:
        raise ParameterError("the release was made with test noise and protects nobody: no private summary of it")
    promise = Guarantee(
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours or made.guarantee.neighbours,
        group=group or made.guarantee.group,
    )
    return _PlannedComparison.of(data, made, promise, account).run(key)


@dataclass(frozen=True, slots=True, eq=False)
class _PlannedComparison:
    """A private comparison before it is made: the calibrated mechanism beside the table. Nothing was read off rows."""

    data: Any
    release: TableRelease
    calibrated: Calibrated[PrivateDistances]
    account: Account | None

    @classmethod
    def of(cls, data: Any, release: TableRelease, promise: Guarantee, account: Account | None) -> "_PlannedComparison":
        partition = partition_of(release)
        compared = ComparedParts.of(partition, fine_counts(partition, synthetic_batches(release)))
        synthetic = private_distances.counts(compared, np.zeros((len(partition.variables), 0), np.int32))
        for batch in synthetic_batches(release):
            synthetic = synthetic + private_distances.counts(compared, partition.read(batch))
        records = max(1, round(release.manifest["mechanism"]["records"]))
        mechanism = PrivateDistances.of(compared, synthetic, records, promise)
        calibrated = calibrate(mechanism, promise)
        if mechanism.deviation(calibrated.level) > _HOPELESS * 2 * records:
            raise ParameterError(
                f"at epsilon {promise.epsilon:g} the noise of every distance would hide it: choose a larger epsilon; "
                "nothing was spent"
            )
        return cls(data, release, calibrated, account)

    @property
    def mechanism(self) -> PrivateDistances:
        return self.calibrated.mechanism

    def request(self) -> Request:
        """What the ledger is told, to charge a private comparison."""
        schema, level = self.release.schema, self.calibrated.level
        return Request(
            type(self.mechanism).__name__,
            self.calibrated.guarantee,
            self.mechanism.loss(level),
            lambda times: self.mechanism.loss(level * times),
            schema.encoding.values,
            schema_text(schema.to_dict()),
            source_of(self.data),
            (FROM_BOUNDS,) if schema.bounds_from_data else (),
        )

    def run(self, secret: Secret) -> PrivateQuality:
        """Charge the comparison, read the table once, and summarise."""
        schema, width = self.release.schema, len(self.mechanism.compared.ones)
        source = open_table(self.data, schema)
        if self.account is not None:
            source = table_of(self.account, source, schema)
        reader = CodeReader(self.mechanism.compared.partition.read, width)
        rows = Local().rows(Blocks.read_by(reader, source, schema, width=width), ignore)
        with ExitStack() as stack:
            charge = None
            if self.account is not None:
                if not protects(secret):
                    raise ParameterError("test noise protects nobody, so it cannot be charged to a ledger")
                charge = stack.enter_context(charged(self.account, self.request()))
                secret = secret.announced(charge.draw)
            found = self.mechanism.run(rows, self.calibrated.level, secret)
            made = self._summary(found, charge, protected=protects(secret))
            if charge is not None:
                charge.commit(made.facts)
        return made

    def _summary(self, found: NoisyDistanceCounts, charge: Reservation | None, *, protected: bool) -> PrivateQuality:
        compared, records = self.mechanism.compared, max(1, round(self.release.manifest["mechanism"]["records"]))
        error = found.deviation / (2 * records)
        names = [*(title(variable) for variable in compared.partition.variables), "mean of pairs"]
        every = [
            NoisyDistance(name, float(value) / (2 * records), error, _DEVIATIONS[self.mechanism.noise] * error)
            for name, value in zip(names, found.values, strict=False)
        ]
        columns, two = every[: len(compared.ones)], every[len(compared.ones) :]
        facts = self._sealed(found, charge, protected=protected)
        return PrivateQuality(
            self.calibrated.guarantee, tuple(columns), two[0] if two else None, len(compared.pairs), records, facts
        )

    def _sealed(self, found: NoisyDistanceCounts, charge: Reservation | None, *, protected: bool) -> Facts:
        """Record of a private comparison that the ledger commits to."""
        where = {"dataset": charge.name, "entry": charge.number, "hash": charge.hash} if charge is not None else None
        body: Facts = {
            "format": "sfumato-comparison",
            "version": 1,
            "software": {"sfumato": __version__},
            "release": self.release.manifest["digest"],
            "guarantee": self.calibrated.guarantee.to_dict(),
            "distances": [int(value) for value in found.values],
            "standard_deviation": found.deviation,
            "ledger": where,
            "protected": protected,
            "numerics": "exact",
            "randomness": RANDOMNESS,
        }
        return body | {"digest": digest(body)}


# ---- its page -------------------------------------------------------------------------------------------------------


def page(quality: PrivateQuality) -> str:
    """The page of a private comparison."""
    body = tag("main", *_sections(quality))
    style = svg.style() + packaged("report.css") + STYLE
    return document("Quality of a synthetic table \u00b7 sfumato", style, POLICY, body)


def _sections(quality: PrivateQuality) -> list[Markup]:
    guarantee, facts = quality.guarantee, quality.facts
    promise = f"\u03b5 = {number(guarantee.epsilon, 6)}, \u03b4 = {number(guarantee.delta, 6)}"
    sealed = tag("p", f"PRIVATE: every number here has noise, and the page may travel. {promise}.", class_="open-seal")
    if not facts["protected"]:
        sealed = tag("p", "THIS PAGE PROTECTS NOBODY. It was made with test noise: never publish it.", class_="seal")
    where = facts["ledger"]
    paid = (
        "It was charged to no ledger: nobody keeps count of what else was published of these data."
        if where is None
        else f"It was charged to the budget of {where['dataset']!r}, entry {where['entry']} of its ledger."
    )
    lead = (
        "How far a synthetic table is from the real one, under differential privacy. Total variation is the largest "
        "difference between the shares of rows that any set of cells has in the two tables: 0 where they agree, 1 "
        "where they share no cell."
    )
    head = [
        tag("p", "sfumato", class_="maker"),
        tag("h1", "Quality of a synthetic table"),
        tag("p", lead, class_="lead"),
    ]
    cells = (
        f"Numbers and dates are cut into {MOST_PARTS} equal parts of their declared bounds, for pairs into "
        f"{MOST_PARTS_OF_PAIRS}. Estimates are unbiased, so small ones can be below 0; intervals cover the noise."
    )
    told = (guarantee.describe(projected=False), paid, f"Of the release with digest {facts['release']}.")
    return [
        sealed,
        tag("header", *head),
        tag("section", tag("h2", "Distances"), _table(quality), tag("p", cells, class_="quiet")),
        tag("section", tag("h2", "What is promised"), *(tag("p", line) for line in told), class_="text"),
    ]


def _table(quality: PrivateQuality) -> Markup:
    names = ("column", "total variation", "standard error", "95% interval")
    head = tag("tr", *(tag("th", name, scope="col") for name in names))
    means = [quality.one_way]
    if quality.two_way is not None:
        means.append(replace(quality.two_way, name=f"mean of {quality.pairs:,} pairs"))
    rows = [_row(distance, strong=True) for distance in means] + [_row(column) for column in quality.columns]
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows), class_="errors"), class_="wide")


def _row(distance: NoisyDistance, *, strong: bool = False) -> Markup:
    low, high = distance.interval
    cells = (f"{distance.value:.4f}", f"{distance.error:.4f}", f"{low:.4f} to {high:.4f}")
    shown = tag("b", distance.name) if strong else distance.name
    return tag("tr", tag("th", shown, scope="row"), *(tag("td", cell.replace("-", "\u2212")) for cell in cells))
