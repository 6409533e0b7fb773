"""How values show themselves in a notebook: cards of HTML, and drawings of releases."""
