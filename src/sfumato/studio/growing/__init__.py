"""Screens of data that grow: streams of the folder, and what is ordered of them."""
