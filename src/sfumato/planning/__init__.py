"""Which mechanism to use, before any data are read: predicted errors and a verdict."""
