"""Questions about one record, and the finite domains that they need."""
