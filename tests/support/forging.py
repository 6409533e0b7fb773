"""What a forger does to a release: files and footers that lie, and manifests that are sealed again."""

import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.fileformat import reader


def reseal(folder, **changes):
    """Change a manifest, and seal it with the files as they are now, as one who knows how digests are made."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text()) | changes
    for name, facts in manifest["files"].items():
        content = (folder / name).read_bytes()
        facts |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    path.write_text(json.dumps(manifest | {"digest": reader.digest(manifest)}))


def with_footer(content, change):
    """A Parquet file whose footer was changed; Thrift's numbers have any length, and no place in a footer matters."""
    length = int.from_bytes(content[-8:-4], "little")
    footer = change(content[-8 - length : -8])
    return content[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def one_row_for(path, rows, where):
    """Keep one row of a file whose footer says ``rows``: as a whole ("file"), or wherever it counts ("all")."""
    pq.write_table(pq.read_table(path).slice(0, 1), path, compression="none", use_dictionary=False)
    content, said = path.read_bytes(), b"\x16" + varint(2 * rows)

    def lie(place):
        return with_footer(content, lambda footer: footer[:place] + said + footer[place + 2 :])

    if where == "all":
        path.write_bytes(with_footer(content, lambda footer: footer.replace(b"\x16\x02", said)))
        return
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8]
    lies = (lie(i) for i in range(length) if footer[i : i + 2] == b"\x16\x02")
    path.write_bytes(next(made for made in lies if _claimed(made) == rows))


def _claimed(content):
    try:
        return pq.ParquetFile(pa.BufferReader(content)).metadata.num_rows
    except (pa.ArrowException, OSError):
        return None


def varint(number):
    """A whole number as Thrift writes it."""
    found = []
    while number >= 128:
        found.append(number % 128 + 128)
        number //= 128
    return bytes([*found, number])
