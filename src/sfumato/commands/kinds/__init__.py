"""From options to a recipe, kind by kind: what ``sfumato release`` and ``sfumato ledger price`` share."""
