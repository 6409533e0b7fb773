"""The only place that draws: keys, noise and random choices."""
