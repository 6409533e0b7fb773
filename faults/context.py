"""How processes that may die are started: from a server that has no threads and has loaded what they need."""

import multiprocessing

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "sfumato.pipeline",
        "sfumato.mechanisms.sketch",
        "sfumato.session",
        "sfumato.releases.loading",
        "sfumato.commands.releasing",
        "sfumato.commands.answering",
        "dp_accounting.pld.privacy_loss_distribution",
        "sqlalchemy.dialects.sqlite.pysqlite",
        "sqlalchemy.dialects.postgresql.psycopg",
        "psycopg",
        "scipy.stats",
        "faults.child",
    ]
)
