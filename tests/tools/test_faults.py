"""Releases that are killed, stopped, starved and robbed; and broken pipelines, which the same judge finds out.

`make faults` does this for minutes, with faults at random; here are a few of each at chosen steps.
"""

import pytest

from faults import jobs, tables
from faults.campaign import KINDS, Campaign, fits, headline, moment
from faults.jobs import JOBS
from faults.steps import DREW, ENDED, PHASES, RESERVED, Plan
from faults.strike import Ground, strike


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    made = tmp_path_factory.mktemp("data")
    jobs.prepare(made)
    return made


@pytest.fixture
def ground(tmp_path, data):
    return Ground(tmp_path, data)


@pytest.fixture(scope="module")
def profiles(tmp_path_factory, data):
    """The steps of jobs that nobody disturbs, by name."""
    found = {}

    def profile(job):
        if job not in found:
            struck = strike(Ground(tmp_path_factory.mktemp("profile"), data), job, "sqlite", None)
            assert struck.verdict.clean
            found[job] = struck.steps
        return found[job]

    return profile


def wrong(struck):
    return {kind for kind, found in struck.verdict.wrong.items() if found}


def test_an_undisturbed_release_passes_every_step_and_is_committed(profiles):
    names = [step.name for step in profiles("sketch")]
    order = ["begun", RESERVED, "entry draw", DREW, "finished", "renamed", "entry commit", ENDED]
    assert [name for name in names if name in order] == order


KILLED = {  # at a step, in this phase, with this to note
    ("begun", 0): (0, {}),
    ("sealing", 0): (0, {}),
    (RESERVED, 0): (1, {"given back by hand": 1}),
    ("drawing", 0): (1, {"given back by hand": 1, "left behind": 1}),
    (DREW, 0): (2, {"spent for nothing": 1, "left behind": 1}),
    ("finishing", 0): (2, {"spent for nothing": 1, "left behind": 1}),
    ("renaming", 0): (2, {"spent for nothing": 1, "left behind": 1}),
    ("committing", 0): (3, {"confirmed": 1}),
    ("sealing", 2): (3, {"confirmed": 1}),
    ("committed", 0): (4, {}),
}


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_release_killed_at_any_step_leaves_a_true_ledger(request, ground, profiles, data, database):
    if database == "postgresql":
        ground = Ground(ground.folder, data, server=request.getfixturevalue("server"))
    for (name, nth), (phase, notes) in KILLED.items():
        struck = strike(ground, "sketch", database, Plan("kill", moment(profiles("sketch"), name, nth)))
        assert struck.verdict.clean, (name, struck.verdict.wrong)
        assert (struck.phase, dict(+struck.verdict.notes)) == (phase, notes), name


def test_releases_killed_at_random_moments_leave_a_true_ledger(ground):
    campaign = Campaign(ground, ["sqlite"], 3, jobs=["sketch"], kinds=["kill"])
    assert list(campaign.run(600, most=5)) == []
    assert headline(campaign) == "5 faults: 0 lost, 0 twice, 0 partial, 0 uncharged"


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_two_hundred_releases_killed_at_random_moments_leave_a_true_ledger(request, ground, data, database):
    if database == "postgresql":
        ground = Ground(ground.folder, data, server=request.getfixturevalue("server"))
    campaign = Campaign(ground, [database], 3, jobs=["sketch"], kinds=["kill"])
    assert list(campaign.run(1200, most=200)) == []
    assert campaign.total.faults == 200
    assert all(campaign.total.phases[phase] >= 10 for phase in PHASES)  # or nothing was tried


FAULTS = [  # the job, the fault, the step at which it begins, how much of it, the phase that it hits
    ("sketch", "interrupt", DREW, 0.0, 2),
    ("release command", "terminate", "renaming", 0.0, 2),
    ("sketch", "pause and void", RESERVED, 0.0, 1),
    ("sketch", "file limit", DREW, 0.0, 2),
    ("sketch", "file limit", "committing", 0.0, 3),
    ("sketch", "sync fails", "finished", 0.9, 2),
    ("sketch", "rename fails", "begun", 0.0, 2),
    ("sketch", "entry fails", "drawing", 0.0, 1),
    ("sketch", "entry doubtful", "writing reserve", 0.0, 0),
    ("ask", "entry doubtful", "writing draw", 0.0, 1),
    ("session", "entry doubtful", "committing", 0.0, 2),
    ("sketch", "rolled back", "drawing", 0.0, 1),
    ("sketch", "rolled back and spent", RESERVED, 0.0, 1),
    ("sketch", "rolled back", "committed", 0.0, 4),
    ("processes", "helper killed", "writing rows", 0.0, 2),
    ("ask", "cut", RESERVED, 0.5, 1),
    ("writers", "pause", "writing reserve", 0.0, 0),
]


@pytest.mark.parametrize(("job", "fault", "step", "amount", "phase"), FAULTS)
def test_faults_of_other_kinds_lose_and_leak_nothing(ground, profiles, job, fault, step, amount, phase):
    struck = strike(ground, job, "sqlite", Plan(fault, moment(profiles(job), step), amount=amount))
    assert not wrong(struck), struck.verdict.wrong
    assert struck.phase == phase


TWINS = [  # the twin, the fault that shows it, its step, and what is found
    ("draws-unrecorded", "sketch", "kill", DREW, "uncharged"),
    ("commits-first", "sketch", "kill", "renaming", "lost"),
    ("writes-in-place", "sketch", "kill", "finishing", "partial"),
    ("reserves-again", "sketch", "entry doubtful", "writing reserve", "twice"),
    ("goes-by-number", "sketch", "rolled back and spent", "drawing", "uncharged"),
    ("looks-once", "writers", "pause", "writing reserve", "twice"),
]


@pytest.mark.parametrize(("twin", "job", "fault", "step", "found"), TWINS)
def test_a_broken_pipeline_is_found_out(ground, twin, job, fault, step, found):
    steps = strike(ground, job, "sqlite", None, twin=twin).steps  # it may have others than the true one
    struck = strike(ground, job, "sqlite", Plan(fault, moment(steps, step)), twin=twin)
    assert found in wrong(struck)


def test_a_fault_that_is_not_felt_is_counted_as_such(ground):
    campaign = Campaign(ground, ["sqlite"], 1, jobs=["sketch"], kinds=["rename fails"])
    struck = strike(ground, "sketch", "sqlite", Plan("rename fails", 1000))
    assert (struck.phase, struck.verdict.clean) == (None, True)
    campaign.by_kind["rename fails"].add(struck)
    assert "1               0                0               0                 0      0         1" in tables.text(
        campaign
    )
    assert "| rename fails | 1 | 0 | 0 | 0 | 0 | 0 | 1 | 0 | 0 | 0 | 0 | 0 |" in tables.page(campaign)


def test_every_kind_of_fault_fits_some_job(ground, data):
    whole = Ground(ground.folder, data, disk=ground.folder, server=object())
    for kind in KINDS:
        assert any(fits(job, kind, database, whole) for job in JOBS for database in ("sqlite", "postgresql")), kind
    assert not any(fits(job, "full disk", "sqlite", ground) for job in JOBS)
