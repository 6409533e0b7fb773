"""Several releases in one analyst's hands: joined, linked, added. Nothing here draws noise or costs privacy."""
