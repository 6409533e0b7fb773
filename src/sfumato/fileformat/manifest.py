"""The manifest of a release as types: what every release says of itself, and what each mechanism says of its numbers.

``manifest.schema.json`` is the same for readers of other languages, and is checked before a manifest gets these types.
"""

from typing import Any, Generic, Literal, NotRequired, TypeAlias, TypedDict, TypeVar

from sfumato.privacy.guarantee import GuaranteeFields

FORMAT, VERSION = "sfumato-release", 2
READABLE = (1, 2)  # in version 1, which 0.1.0 wrote, units are raw: no schema states a scale
MANIFEST, DATA, PROJECTION = "manifest.json", "data.parquet", "projection.parquet"
MODEL, COUNTS = "model.parquet", "counts.parquet"  # beside the rows of a synthetic table
ID = "id"  # the column of public ids in a file of published numbers
MOST_NUMBERS = 1 << 20  # of one record
LARGEST = 1 << 26  # bytes of a manifest; in memory it may take some ten times as many
MOST_CORRELATED = 1 << 12  # variables of a copula: a matrix of 128 MiB
STREAMED = ("covariance", "histogram", "synthetic")  # kinds that a stream can publish
RANDOMNESS = "ChaCha20 keyed by the operating system; the guarantee is computational"

Facts: TypeAlias = dict[str, Any]  # what a mechanism says of a run: part of a manifest, not checked yet
NoiseName = Literal["laplace", "gaussian"]


def part_name(number: int) -> str:
    """The name in a manifest of one of several files of published numbers."""
    return f"part-{number:06d}.parquet"


# ---- what mechanisms say, kind by kind ------------------------------------------------------------------------------


class NoiseFacts(TypedDict):
    """Noise of one law on numbers that one unit moves by at most ``sensitivity``."""

    name: str
    noise: NoiseName
    sensitivity: float
    scale: float
    standard_deviation: float


class StageFacts(TypedDict):
    """The noise of one of several stages."""

    sensitivity: float
    scale: float
    standard_deviation: float


class ChoiceFacts(TypedDict):
    """A dimension that was chosen privately."""

    epsilon: float
    candidates: list[int]


class SketchFacts(TypedDict):
    """Noise on projected records; ``radius`` in place of ``sensitivity`` where the projection is fresh."""

    name: str
    noise: NoiseName
    scale: float
    standard_deviation: float
    sensitivity: NotRequired[float]
    radius: NotRequired[float]
    choice: NotRequired[ChoiceFacts]
    split: NotRequired[float]  # of components: the share of the budget that finding them cost
    moments: NotRequired[StageFacts]  # of components: the second moment that they were found in


class ResponsesFacts(TypedDict):
    """Randomized answers: the probability of the truth, column by column."""

    name: str
    epsilon_per_value: float
    keep: list[float]
    levels: NotRequired[int]  # that numbers were cut into


class SummedNoiseFacts(TypedDict):
    """One of several independent noises on a sum over owners: its law and scale, and how many owners have it."""

    noise: NoiseName
    scale: float
    owners: int


class CovarianceFacts(TypedDict):
    """Noisy sums of squares and products, or a Gaussian sketch of them with a ridge."""

    name: str
    noise: Literal["laplace", "gaussian", "sketch", "sum"]
    centred: bool
    columns: int
    longest: float
    anchor: NotRequired[float]
    sensitivity: NotRequired[float]
    scale: NotRequired[float]
    standard_deviation: NotRequired[float]
    sketch_rows: NotRequired[int]
    ridge: NotRequired[float]
    count_scale: NotRequired[float]
    noises: NotRequired[list[SummedNoiseFacts]]  # of a sum over owners, not all of which have Gaussian noise


class CellTableFacts(TypedDict):
    """Noisy counts of the cells of one table, in C order.

    columns : in the schema's order.
    cells   : how many there are.
    cuts    : of numbers, ordinals and dates, between their bounds, in encoded units. A value that has a cell to itself
              is there twice, the low bound once.
    scale   : of the noise on each count.
    noises  : in place of ``scale``, of a sum over owners whose noises are not all Gaussian.
    """

    columns: list[str]
    cells: int
    cuts: dict[str, list[float]]
    scale: NotRequired[float]
    noises: NotRequired[list[SummedNoiseFacts]]


class HistogramFacts(TypedDict):
    """Noisy counts of public cells, table after table.

    sensitivity        : how far one unit moves all counts over their relative deviations: a table's scale over
                         ``scale``.
    standard_deviation : of the noise on counts of the table with the least.
    """

    name: str
    noise: Literal["laplace", "gaussian", "sum"]
    tables: list[CellTableFacts]
    sensitivity: float
    scale: NotRequired[float]
    standard_deviation: float


class ComponentFacts(TypedDict):
    """One Gaussian of a model."""

    weight: float
    mean: list[float]
    covariance: list[list[float]]


class SyntheticFacts(TypedDict):
    """A private Gaussian model, and how it was found.

    ``satisfies_claim`` is False in releases of version 0.1.0 that were made with ``published`` constants, which are too
    small for the guarantee that they state.
    """

    name: str
    noise: NoiseName
    split: list[float]
    mean: NotRequired[StageFacts]
    moments: StageFacts
    centring: Literal["private", "public"]
    normalise: Literal["twice", "once", "never"]
    constants: Literal["proved", "published"]
    satisfies_claim: bool
    centre: NotRequired[list[float]]
    model: list[ComponentFacts]
    label: NotRequired[str]
    kind: NotRequired[Literal["values", "classes"]]
    label_weight: NotRequired[float]
    counts: NotRequired[Literal["private", "public"]]


class CountedFacts(TypedDict):
    """A table of noisy counts: over which variables, fine cells or bins of them, how much noise, at which stage."""

    columns: list[int]
    cells: Literal["fine", "bins"]
    scale: float
    stage: str


class MomentFacts(TypedDict):
    """A noisy second moment of scores: its noise, and how far one unit moves it.

    longest : how long a row of scores is at most, in steps.
    steps   : how many a score of 1 has.
    Gaussian noise has this scale on the diagonal, and over sqrt(2) off it; the move is then in svec form.
    """

    scale: float
    sensitivity: float
    longest: int
    steps: int


class TableFacts(TypedDict):
    """A private model of a table, and the noisy counts that it was fitted to; numbers are in files of their own.

    reason      : why this method, in one sentence.
    records     : how many records the model is for: their public number, or a noisy estimate.
    cuts        : public cuts of columns beside those that follow from the schema.
    bins        : of each variable, the bin of every fine cell.
    cliques     : of the model, each a list of variables in order. Of a copula, each variable by itself.
    tables      : the noisy counts, in the order of their file.
    moment      : of a copula, the second moment that its correlations follow from.
    shares      : of the budget, by stage.
    sensitivity : how far one unit moves each table, in the norm of the noise.
    """

    name: str
    noise: NoiseName
    method: Literal["pairs", "tree", "copula"]
    reason: NotRequired[str]
    label: NotRequired[str]
    records: float
    cuts: NotRequired[dict[str, list[float]]]
    forbid: NotRequired[list[str]]
    bins: list[list[int]]
    cliques: list[list[int]]
    tables: list[CountedFacts]
    moment: NotRequired[MomentFacts]
    shares: dict[str, float]
    sensitivity: float


class GraphSketchFacts(TypedDict):
    """Gaussian rows whose covariance is a Laplacian with a ridge."""

    name: str
    rows: int
    ridge: float
    ratio: float
    grid: float


class GraphResponsesFacts(TypedDict):
    """A randomized answer about every pair of vertices; ``weighted`` if weights were rounded at random first."""

    name: str
    epsilon_per_value: float
    keep: float
    weighted: NotRequired[bool]


# ---- what every release says ----------------------------------------------------------------------------------------


class ProjectionFacts(TypedDict):
    """The projection: its family and its shape."""

    family: Literal["identity", "gaussian", "rademacher", "achlioptas", "sparse", "orthonormal", "principal"]
    dim_in: int
    dim_out: int
    published: bool
    sparsity: NotRequired[int]
    seed: NotRequired[int]


class SpaceFacts(TypedDict):
    """The shared space of a release; of one that holds only some columns, these and the joint schema."""

    digest: str
    family: Literal["identity", "gaussian", "rademacher", "achlioptas", "sparse", "orthonormal"]
    dimension: int
    seed: int
    sparsity: NotRequired[int]
    columns: NotRequired[list[str]]
    schema: NotRequired[dict[str, Any]]


class LatticeFacts(TypedDict):
    """The grid that numbers are multiples of, and the type that they are stored in."""

    input_bits: int
    projection_bits: NotRequired[int]
    shift: int
    unit: float
    numbers: NotRequired[Literal["float32", "float64"]]


class LedgerFacts(TypedDict):
    """The entry of a ledger that a release was charged to."""

    dataset: str
    entry: int
    hash: str


class PeriodFacts(TypedDict):
    """The period of a stream that a release is the running sum of, and the noise of the whole stream.

    id, digest         : of the stream; the digest is what its ledger committed.
    period, label      : the last period that is in the sums.
    horizon, made_for  : how many periods the guarantee is for, and how many it was for at first.
    sensitivity, scale : of all measurements together: Gaussian noise of this scale, in steps of its own.
    """

    id: str
    digest: str
    period: int
    label: str
    horizon: int
    made_for: int
    method: Literal["square-root", "tree"]
    sensitivity: float
    scale: float


class LossFacts(TypedDict):
    """A composed loss."""

    epsilon: float
    delta: float


class SeveralFacts(LossFacts):
    """The composed loss of somebody who is with all owners, for a unit; beside one value, for a whole ``record``."""

    unit: Literal["record", "attribute", "each"]
    record: NotRequired[LossFacts]


class OwnerFacts(TypedDict):
    """What a joined or added release says of each release in it; ``stream`` is the id of one that it is a period of."""

    digest: str
    guarantee: GuaranteeFields
    rows: NotRequired[int]
    stream: NotRequired[str]


class FileFacts(TypedDict):
    """Digest and size of a file."""

    sha256: str
    bytes: int


_Mechanism = TypeVar("_Mechanism")


class ManifestOf(TypedDict, Generic[_Mechanism]):
    """A manifest whose mechanism says such facts; ``rows`` is missing where the number of records is protected."""

    format: str
    version: int
    software: dict[str, str]
    kind: str
    guarantee: GuaranteeFields
    mechanism: _Mechanism
    projection: NotRequired[ProjectionFacts]
    lattice: NotRequired[LatticeFacts]
    space: NotRequired[SpaceFacts]
    owners: NotRequired[list[OwnerFacts]]
    several: NotRequired[SeveralFacts]
    schema: NotRequired[dict[str, Any]]
    rows: NotRequired[int]
    protected: bool
    accounted: bool
    ledger: NotRequired[LedgerFacts]
    stream: NotRequired[PeriodFacts]
    numerics: Literal["exact", "idealized"]
    randomness: str
    warnings: list[str]
    files: dict[str, FileFacts]
    digest: str


Manifest: TypeAlias = ManifestOf[Any]  # of any kind
SketchManifest: TypeAlias = ManifestOf[SketchFacts]
ResponsesManifest: TypeAlias = ManifestOf[ResponsesFacts]
NoiseManifest: TypeAlias = ManifestOf[NoiseFacts]  # of distances, and of edge weights
CovarianceManifest: TypeAlias = ManifestOf[CovarianceFacts]
HistogramManifest: TypeAlias = ManifestOf[HistogramFacts]
SyntheticManifest: TypeAlias = ManifestOf[SyntheticFacts]
TableManifest: TypeAlias = ManifestOf[TableFacts]
GraphSketchManifest: TypeAlias = ManifestOf[GraphSketchFacts]
GraphResponsesManifest: TypeAlias = ManifestOf[GraphResponsesFacts]
