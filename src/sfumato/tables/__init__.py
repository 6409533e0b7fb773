"""Tables and edge lists in: what is declared about them, and blocks of their rows."""
