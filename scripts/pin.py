"""Writes down the hashes of pinned packages: pin.py FILE...

After each line `NAME==VERSION` come the sha256 of all files that pip may take: wheels for Linux on x86_64 and aarch64
and for the Pythons that setup.sh takes, and the sources where one of the machines has no wheel.
"""

import os
import re
import sys
import urllib.request
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version
from pip._internal.models.index import PyPI

MACHINES = ("x86_64", "aarch64")
PYTHONS = (11, 12, 13)
INDEX = os.environ.get("PIP_INDEX_URL", PyPI.simple_url).rstrip("/")  # pip's own default


class Links(HTMLParser):
    """File names and hashes on a page of the index."""

    def __init__(self):
        super().__init__()
        self.files: dict[str, str] = {}

    def handle_starttag(self, tag: str, attributes: list) -> None:
        url = urlsplit(dict(attributes).get("href") or "")
        if tag == "a" and url.fragment.startswith("sha256="):
            self.files[unquote(url.path.rpartition("/")[2])] = url.fragment.removeprefix("sha256=")


def files_of(name: str) -> dict[str, str]:
    request = urllib.request.Request(f"{INDEX}/{canonicalize_name(name)}/", headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=60) as response:
        links = Links()
        links.feed(response.read().decode())
    return links.files


def fits(tag) -> bool:
    """Whether a wheel's tag is one of ours."""
    platform = tag.platform == "any" or (
        "linux" in tag.platform and "musl" not in tag.platform and tag.platform.endswith(MACHINES)
    )
    if match := re.fullmatch(r"cp3(\d+)", tag.interpreter):
        minor = int(match[1])
        if tag.abi == "abi3":
            return platform and minor <= PYTHONS[-1]
        return platform and minor in PYTHONS and tag.abi in (tag.interpreter, "none")
    return platform and tag.interpreter == "py3" and tag.abi == "none"


def hashes_of(name: str, version: Version) -> list[str]:
    wheels, sources, machines = [], [], set()
    for file, digest in files_of(name).items():
        try:
            if file.endswith(".whl"):
                _, found, _, tags = parse_wheel_filename(file)
                platforms = [tag.platform for tag in tags if fits(tag)]
                if found == version and platforms:
                    wheels.append(digest)
                    machines |= {m for m in MACHINES for p in platforms if p == "any" or p.endswith(m)}
            elif parse_sdist_filename(file)[1] == version:
                sources.append(digest)
        except ValueError:
            continue  # a name of olden times
    return sorted(wheels if machines == set(MACHINES) else wheels + sources)


def pin(path: Path) -> None:
    lines = []
    for line in path.read_text().replace(" \\\n    --hash=sha256:", " --hash=").splitlines():
        line = line.partition(" --hash=")[0]
        if match := re.match(r"([\w.-]+)==([\w.]+)", line):
            hashes = hashes_of(match[1], Version(match[2]))
            if not hashes:
                raise SystemExit(f"pin: there is no file of {match[0]} for {' or '.join(MACHINES)}")
            line = " \\\n".join([line, *(f"    --hash=sha256:{digest}" for digest in hashes)])
        lines.append(line)
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        pin(Path(argument))
