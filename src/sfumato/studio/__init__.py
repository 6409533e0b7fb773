"""The studio: a local page in which a data owner describes, plans, releases and keeps watch on the budget."""
