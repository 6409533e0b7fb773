"""A new file of text, written whole or not at all; a name that is taken is refused, and no link is followed."""

import contextlib
import os
import secrets
from pathlib import Path

from sfumato.errors import SfumatoError


def write_new(path: Path, text: str, error: type[SfumatoError]) -> None:
    """Write a text to a new file, whole or not at all; what fails is told by an error of this class."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    try:
        with partial.open("x", encoding="utf-8") as file:  # follows no link
            file.write(text)
        os.link(partial, path)  # refuses a name that is taken
    except FileExistsError:
        raise error(f"{path} already exists: choose another name, or remove it first") from None
    except OSError as failed:
        raise error(f"writing {path} failed ({failed.strerror or type(failed).__name__})") from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
