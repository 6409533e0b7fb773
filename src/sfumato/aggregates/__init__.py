"""Questions with aggregates: what is measured for them, how they share a budget, and their error bars."""
