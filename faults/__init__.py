"""Faults on purpose: releases that are killed, stopped, starved and robbed of their ledger, and a judge of the rest.

``python -m faults`` (``make faults``) runs for as long as it is told. docs/faults.md says what is done and counted.
"""
