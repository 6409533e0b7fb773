"""The same examples of Hypothesis, public seeds and keys on every run, so that a verdict never changes by itself.

And a small ledger, and a PostgreSQL server for larger ones.
"""

import os
import random
import secrets
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

from faults.server import Server, programs
from sfumato.ledger.ledger import Ledger
from support import quick, sources
from support.spending import pure


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="leave out the tests that tests/quick.toml lists as slower")


def pytest_configure(config):
    if config.getoption("quick"):
        config.pluginmanager.register(quick.Quick())
    if quick.FOLDER in os.environ:
        config.pluginmanager.register(quick.Costs(os.environ[quick.FOLDER]))
    if quick.NOTES in os.environ:
        config.pluginmanager.register(quick.Entered(sources.SOURCE, os.environ[quick.NOTES]))


settings.register_profile(
    "fixed", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)  # nor does a slow machine change it
settings.load_profile("fixed")


@pytest.fixture(autouse=True)
def public_seeds(monkeypatch):
    """Seeds of projections that a recipe leaves open; noise under a testing secret depends on them."""
    monkeypatch.setattr(secrets, "randbits", random.Random(0).getrandbits)  # noqa: S311 - public seeds only


@pytest.fixture(autouse=True)
def repeated_keys(monkeypatch):
    """Keys of releases without a testing secret: another one for each release, and the same ones in every run."""
    keys = random.Random(0).randbytes  # noqa: S311 - nobody is protected here
    monkeypatch.setattr("sfumato.randomness.secret.os", SimpleNamespace(urandom=keys))


@pytest.fixture
def ledger(tmp_path):
    made = Ledger.create(tmp_path / "budget.db")
    made.add_dataset("people", pure(3.0))
    return made


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A PostgreSQL server of Debian's package, for this session alone."""
    if programs() is None:
        if os.environ.get("SFUMATO_NEEDS_POSTGRESQL"):
            pytest.fail("PostgreSQL is not installed, and SFUMATO_NEEDS_POSTGRESQL is set: apt-get install postgresql")
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with Server.start(tmp_path_factory.getbasetemp() / "postgres.log") as started:
        yield started


@pytest.fixture
def postgres(server):
    """Its address, without a ledger."""
    return server.emptied()
