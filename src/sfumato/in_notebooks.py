"""What values share that show themselves in a notebook; the HTML is made elsewhere, and loaded when it is asked for."""

from importlib import import_module


class InNotebooks:
    """A value that a notebook shows as a card (``notebook.cards``). It shows what its text shows, and no data."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(import_module("sfumato.notebook.cards").card(self))
