"""Peak memory of reading NOTEEVENTS of several sizes: python tests/benchmarks/mimic.py [--gb .25,.5,1] [--kb 8]

Each size is read in a process of its own. Every note has --kb kB. One note in --one_in is a discharge summary, by
default one in 30, as in MIMIC-III. "extra" is the growth of resident memory at the peak, "by a note" the part of it for
each note in use. The last line divides the largest extra memory by the smallest, beside the same ratio of the sizes.
Memory holds an index of about 90 bytes for a note in use, but no text. The tables go to a temporary folder on --disk.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from corpora import memory


def write_notes(folder: Path, *, gb: float, kb: float, one_in: int) -> None:
    """Writes NOTEEVENTS.csv with at least the given size."""
    from tests.data.clinical.look_alike import NOTES, header, line

    text = ('Pt. "stable", see list:\n- gout\n' * int(kb * 1000 / 31 + 1))[: int(kb * 1000)]
    written = number = 0
    with (folder / "NOTEEVENTS.csv").open("w", encoding="utf-8", newline="") as file:
        file.write(header(NOTES))
        while written < gb * 1e9:
            category = "Nursing" if number % one_in else "Discharge summary"
            number += 1
            ids = (number, number // one_in + 1, 100_000 + number // one_in)
            written += file.write(line(NOTES, (*ids, "2150-01-01", "", "", category, "Report", "", "", text)))


def read(folder: Path) -> dict[str, float]:
    """Returns what reading the table takes in this process: peak memory in MB, seconds, and numbers of notes."""
    from lightning_xai.data.clinical.note_store import read_notes

    before, began = memory()["peak"], time.process_time()
    store, rows = read_notes(folder, lambda row_id, admission, category: category == "Discharge summary", folder)
    found = {"extra": memory()["peak"] - before, "seconds": time.process_time() - began, "used": len(store)}
    store.close()
    return found | rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=lambda text: [float(part) for part in text.split(",")], default=[0.25, 0.5, 1.0])
    parser.add_argument("--kb", type=float, default=8, help="size of a note")
    parser.add_argument("--one_in", type=int, default=30, help="number of notes for one discharge summary")
    parser.add_argument("--disk", type=Path, help="folder for the tables; default the system's temporary folder")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)  # what a process reads
    options = parser.parse_args()
    if options.read is not None:
        print(json.dumps(read(options.read)))
        return
    extra = []
    for gb in options.gb:
        with tempfile.TemporaryDirectory(dir=options.disk) as folder:
            write_notes(Path(folder), gb=gb, kb=options.kb, one_in=options.one_in)
            printed = subprocess.run(
                [sys.executable, __file__, "--read", folder], capture_output=True, text=True, check=True
            )
        found = json.loads(printed.stdout.splitlines()[-1])
        extra.append(found["extra"])
        print(
            f"{gb:5.2f} GB, {found['notes']:9,} notes, {found['used']:7,} in use: {found['extra']:6.1f} MB extra, "
            f"{1e6 * found['extra'] / found['used']:7,.0f} bytes by a note, {found['seconds']:5.0f} s",
            flush=True,
        )
    print(
        f"extra memory {max(extra) / max(min(extra), 0.1):.2f} : 1, sizes {max(options.gb) / min(options.gb):.2f} : 1"
    )


if __name__ == "__main__":
    main()
