"""What every screen of the studio stands on: the guard, what pages share, pages and forms, work in the background."""
