"""Privacy budgets, and what was spent of them."""
