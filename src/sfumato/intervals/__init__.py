"""Laws of estimates, and confidence intervals."""
