"""Where data, guarantee, mechanism, ledger and disk meet."""
