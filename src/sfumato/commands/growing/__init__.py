"""Commands for data that grow."""
