"""Membership inference: telling whether a record was among those that a synthetic release was made from.

Two attacks. *Shadow models* (Shokri et al. 2017): a classifier learns from the synthetic rows; the attacker makes more
releases, from records at hand, and learns from them how the confidence in a record's true class differs between records
that were in and records that were not. *Likelihood ratio*: the release shows its Gaussians, so the attacker compares
the density of a record under them with that under Gaussians fitted to the records at hand; the threshold comes from
shadow releases as well.

The game: half of a pool, at random, becomes the release; the attacker, who has other records of the same kind and knows
the recipe and its public seed, says of each record of the pool whether it was in. Exchanging a record that was in with
one that was not gives a neighbour under replace that is as likely, so for every attack the rate of true alarms minus
that of false alarms is at most ``attack_bounds.advantage``, and accuracy is at most half of that above a coin.
"""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from sfumato.attacks.curves import Curve, Point
from sfumato.attacks.example_data import Secrets, TargetTable, untouched
from sfumato.errors import ParameterError
from sfumato.estimation.gaussians import Component
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.numerics.types import Bools, Floats, Integers
from sfumato.privacy import attack_bounds
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.releases.synthetic import SyntheticRelease
from sfumato.tables.labels import Labelled

Attack: TypeAlias = Callable[
    ["Game", SyntheticRelease, Integers], Floats
]  # evidence on each record, (records, features)

UNPROTECTED = 1e5  # an epsilon whose noise is as good as none
_FOLDS = 5
_RIDGE = 1e-4  # on variances of rows of length 1


def log_density(rows: Floats, component: Component) -> Floats:
    """Log-density of rows under a Gaussian of the release, evidence of membership.

    The log-density of rows under a Gaussian, a little rounder than it is, up to a constant.
    """
    values, vectors = np.linalg.eigh(component.covariance)
    values = np.maximum(values, 0.0) + _RIDGE
    turned = (rows - component.mean) @ vectors
    return np.asarray(-0.5 * (np.square(turned) / values).sum(axis=1) - 0.5 * np.log(values).sum())


class Dealt(Protocol):
    """What every membership game has: a pool, half of which become a release, and the attacker's own records."""

    @property
    def case(self) -> TargetTable:
        """The table that records are of."""
        ...

    @property
    def pool(self) -> Integers:
        """Records that are members or not."""
        ...

    @property
    def own(self) -> Integers:
        """The attacker's own records."""
        ...

    @property
    def delta(self) -> float:
        """The delta of releases in a membership game."""
        ...

    @property
    def members(self) -> int:
        """How many records are members."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """A pool of records half of which become a release, and the attacker's own, which are none of them."""

    case: TargetTable
    label: str
    recipe: Synthetic
    pool: Integers
    own: Integers
    delta: float

    @classmethod
    def of(
        cls, case: TargetTable, label: str, *, dimension: int = 32, pool: int = 800, delta: float = 1e-6, seed: int = 0
    ) -> "Game":
        """A membership game: records dealt out at random.

        Records dealt out at random; the recipe: classes, Gaussian noise, a projection that is public.
        """
        recipe = Synthetic(dimension=dimension, label=label, kind="classes", noise="gaussian", seed=seed)
        return cls(case, label, recipe, *case.dealt(pool, seed), delta)

    @property
    def members(self) -> int:
        """How many records are members: those that a release is made of."""
        return self.pool.size // 2

    @property
    def classes(self) -> Integers:
        """The class of every record in the membership game; a record with none cannot take part."""
        found = self.case.classes(self.label)
        if (found < 0).any():
            raise ParameterError(f"every record must have a class that the schema lists under {self.label!r}")
        return found

    def made(self, members: Integers, epsilon: float, secret: Secret | None) -> SyntheticRelease:
        """The synthetic release made of some records, its members."""
        promise = Guarantee(epsilon=epsilon, delta=self.delta)
        found = replace(self.case, table=self.case.some(members)).released(self.recipe, promise, secret)
        assert isinstance(found, SyntheticRelease)
        return found

    def features(self) -> Floats:
        """All records of the membership game as they are, without their label."""
        encoded = self.case.schema.clip(self.case.schema.encode(self.case.table))
        return np.asarray(Labelled.of(self.case.schema, self.label, "classes").features(encoded).T)


def likelihood_ratio(game: Game, made: SyntheticRelease, records: Integers) -> Floats:
    """Membership by likelihood ratio: a record's under the release's Gaussian against the attacker's.

    How much likelier each record is under the release's Gaussian of its class than under that of the attacker's.

    The attacker's Gaussian leaves out a fifth of the records at hand, in which the record is if it is one of them: a
    record that shadows learn from must look no more usual than one of the pool.
    """
    classes, fold = game.classes, np.full(game.case.rows, -1)
    fold[game.own] = np.arange(game.own.size) % _FOLDS
    rows, own = made.transform(game.case.some(records)), made.transform(game.case.some(game.own))
    found = np.zeros((records.size, 1))
    for (place, component), left_out in itertools.product(enumerate(made.model().components), range(-1, _FOLDS)):
        usual = own[(classes[game.own] == place) & (fold[game.own] != left_out)]
        asked = (classes[records] == place) & (fold[records] == left_out)
        if len(usual) > 1 and asked.any():
            theirs = Component(1.0, usual.mean(axis=0), np.cov(usual.T, bias=True).reshape(usual.shape[1], -1))
            found[asked, 0] = log_density(rows[asked], component) - log_density(rows[asked], theirs)
    return found


def shadow_confidence(game: Game, made: SyntheticRelease, records: Integers) -> Floats:
    """Membership by shadow models: a classifier's confidence in each record.

    What a classifier that learnt from the synthetic rows says of each record and its true class.
    """
    labels = Labelled.of(game.case.schema, game.label, "classes")
    places = {value: place for place, value in enumerate(labels.classes)}
    known = np.array([places[value] for value in made.labels().tolist()])
    rows = made.transform(game.case.some(records))
    return confidence(made.array(), known, rows, game.classes[records])


def confidence(learnt: Floats, labels: Integers, rows: Floats, classes: Integers) -> Floats:
    """Confidence of a classifier in records, evidence of membership.

    Log-probabilities of the true class and of the likeliest one, and how far apart the two are.

    Without two classes to tell apart there is nothing to learn: all records look alike then.
    """
    if np.unique(labels).size < 2:
        return np.zeros((len(rows), 3))
    model = RandomForestClassifier(40, random_state=0).fit(learnt, labels)
    said = np.full((len(rows), max(int(classes.max()), int(labels.max())) + 1), 1e-9)
    said[:, model.classes_] = np.clip(model.predict_proba(rows), 1e-3, 1 - 1e-3)
    logs = np.log(said) - np.log1p(-said)
    true, most = logs[np.arange(len(rows)), classes], logs.max(axis=1)
    return np.column_stack([true, most, most - true])


ATTACKS: dict[str, Attack] = {"likelihood ratio": likelihood_ratio, "shadow models": shadow_confidence}


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """What the attacker learnt from shadows: a way from evidence to yes or no."""

    model: LogisticRegression
    scaler: StandardScaler
    threshold: float

    @classmethod
    def taught(cls, evidence: Floats, inside: Bools) -> "Judge":
        """A judge of membership taught by shadows: logistic regression, cut where it told their records apart best."""
        scaler = StandardScaler().fit(evidence)
        model = LogisticRegression(C=1.0).fit(scaler.transform(evidence), inside)
        scores = model.decision_function(scaler.transform(evidence))
        cuts = np.quantile(scores, np.linspace(0.02, 0.98, 49))
        gains = [np.mean(scores[inside] > cut) - np.mean(scores[~inside] > cut) for cut in cuts]
        return cls(model, scaler, float(cuts[int(np.argmax(gains))]))

    def says(self, evidence: Floats) -> Bools:
        """Whether each record was a member, as the judge says."""
        return np.asarray(self.model.decision_function(self.scaler.transform(evidence)) > self.threshold)


def accuracies(
    game: Dealt,
    seen: Callable[[Integers, Integers], dict[str, Floats]],
    *,
    shadows: int,
    runs: int,
    rng: np.random.Generator,
) -> dict[str, list[float]]:
    """Accuracy of every membership attack in each run: the share of right answers.

    seen : from the members and the records in question to the evidence of each attack on these records.
    """
    half = min(game.members, game.own.size // 2)
    taught: dict[str, list[Floats]] = {}
    inside = np.tile(np.arange(2 * half) < half, shadows)
    for _ in range(shadows):
        dealt = rng.permutation(game.own)[: 2 * half]
        for attack, evidence in seen(dealt[:half], dealt).items():
            taught.setdefault(attack, []).append(evidence)
    judges = {attack: Judge.taught(np.concatenate(parts), inside) for attack, parts in taught.items()}
    found: dict[str, list[float]] = {attack: [] for attack in judges}
    for _ in range(runs):
        dealt = rng.permutation(game.pool)
        truth = np.arange(dealt.size) < game.members
        for attack, evidence in seen(dealt[: game.members], dealt).items():
            found[attack].append(float(np.mean(judges[attack].says(evidence) == truth)))
    return found


def curves(
    game: Game,
    epsilons: Sequence[float],
    *,
    attacks: Collection[str] = tuple(ATTACKS),
    shadows: int = 4,
    runs: int = 8,
    seed: int = 0,
    secrets: Secrets = untouched,
) -> list[Curve]:
    """Membership attacks' accuracy at every epsilon, and where nothing is protected.

    Unprotected: for the likelihood ratio the same model without noise to speak of, for shadow models a classifier that
    learnt from the records themselves (as in Chanyaswad et al., Figure 2).
    """
    chosen = {name: attack for name, attack in ATTACKS.items() if name in attacks}
    rng, features, classes = np.random.default_rng(seed), game.features(), game.classes

    def against(epsilon: float, chosen: dict[str, Attack]) -> dict[str, list[float]]:
        def seen(members: Integers, records: Integers) -> dict[str, Floats]:
            made = game.made(members, epsilon, secrets())
            return {name: attack(game, made, records) for name, attack in chosen.items()}

        return accuracies(game, seen, shadows=shadows, runs=runs, rng=rng)

    def bare(members: Integers, records: Integers) -> dict[str, Floats]:
        taught = confidence(features[members], classes[members], features[records], classes[records])
        return {"shadow models": taught}

    reached: dict[str, list[float]] = {}
    if "likelihood ratio" in chosen:
        reached |= against(UNPROTECTED, {"likelihood ratio": likelihood_ratio})
    if "shadow models" in chosen:
        reached |= accuracies(game, bare, shadows=shadows, runs=runs, rng=rng)
    unprotected = {name: float(np.mean(reached[name])) for name in chosen}
    found = {epsilon: against(epsilon, chosen) for epsilon in epsilons}
    return as_curves(game, "synthetic rows", found, unprotected)


def as_curves(
    game: Dealt, against: str, found: Mapping[float, Mapping[str, Sequence[float]]], unprotected: Mapping[str, float]
) -> list[Curve]:
    """Membership attacks' accuracies in every run, by epsilon and attack, as curves beside the bound."""

    def point(epsilon: float, attack: str) -> Point:
        most, runs = 0.5 + attack_bounds.advantage(epsilon, game.delta) / 2, found[epsilon][attack]
        return Point.of(epsilon, runs, most, trials=len(runs) * game.pool.size)

    data = f"{game.members} of {game.case.name}, one record protected"
    return [
        Curve(attack, against, data, "accuracy", 0.5, reached, tuple(point(epsilon, attack) for epsilon in found))
        for attack, reached in unprotected.items()
    ]
