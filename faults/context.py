"""How processes that may die are started: from a server that has no threads and has loaded what they need."""

import multiprocessing

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "sfumato.pipeline.release",
        "sfumato.mechanisms.sketch",
        "sfumato.pipeline.session",
        "sfumato.releases.release",
        "sfumato.commands.release",
        "sfumato.commands.ask",
        "dp_accounting.pld.privacy_loss_distribution",
        "sqlalchemy.dialects.sqlite.pysqlite",
        "sqlalchemy.dialects.postgresql.psycopg",
        "psycopg",
        "scipy.stats",
        "faults.child",
    ]
)
