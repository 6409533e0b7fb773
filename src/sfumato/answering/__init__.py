"""Mechanisms that answer questions about a finite domain."""
