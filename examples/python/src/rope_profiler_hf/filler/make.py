"""Makes the filler texts from Debian's packages bible-kjv, bible-kjv-text and miscfiles, unpacked into a folder:

    apt-get download bible-kjv bible-kjv-text miscfiles
    for package in *.deb; do dpkg-deb -x "$package" unpacked; done
    python make.py unpacked .

One sentence or verse a line; lines with digits or brackets are left out, so that the only numbers in a prompt are the task's.
"""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from pathlib import Path

BOOKS = {
    "acts": "Acts1:1-Acts28:31",
    "esther": "Est1:1-Est10:3",
    "jonah": "Jonah1:1-Jonah4:11",
    "ruth": "Ruth1:1-Ruth4:22",
}
STATE = {"declaration": "us-declaration.gz", "constitution": "us-constitution.gz"}


def verses(unpacked: Path, passage: str) -> list[str]:
    program = [unpacked / "usr/bin/bible", "-p", unpacked / "usr/lib", "-f", passage]
    found = subprocess.run(program, input="", capture_output=True, text=True, check=True).stdout
    return [line.split(" ", 1)[1] for line in found.splitlines() if re.match(r"\w+\d+:\d+ ", line)]


def sentences(text: str) -> list[str]:
    """Sentences of the paragraphs of prose: headings, signatures and dates have no full stop or few words."""
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)]
    found = [s for part in paragraphs for s in re.split(r"(?<=[.;]) +(?=[A-Za-z])", part)]
    return [s for s in found if len(s.split()) >= 5 and s[-1] in ".;:"]


def main() -> None:
    unpacked, out = Path(sys.argv[1]), Path(sys.argv[2])
    texts = {name: verses(unpacked, passage) for name, passage in BOOKS.items()}
    for name, file in STATE.items():
        raw = gzip.decompress((unpacked / "usr/share/state" / file).read_bytes()).decode("ascii")
        texts[name] = sentences(raw)
    for name, lines in texts.items():
        kept = [" ".join(line.split()) for line in lines if not re.search(r"[\d\[\]<>{}]", line)]
        (out / f"{name}.txt").write_text("\n".join(kept) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
