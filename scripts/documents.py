#!/usr/bin/env python3
"""documents.py FOLDER: copies what users of a package read into FOLDER, with the folders of this repository, so that links work.
A link to what is not copied becomes its text."""

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WHOLE = ["README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE", "docs", "examples", "packaging/helm"]
# About the sources.
NOT_COPIED = ["docs/design", "docs/how-to-add.md", "docs/releasing.md", "docs/book.css", "docs/benchmarks/history.csv"]
LINK = re.compile(r"!?\[([^\]]*)\]\(([^()\s]+)\)")


def main():
    target = Path(sys.argv[1]).resolve()
    for path in files():
        copy = target / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, copy)
        copy.chmod(0o644)
    for page in target.rglob("*.md"):
        text = page.read_text()
        if page == target / "docs/SUMMARY.md":
            text = without_lost_lines(text, page.parent)
        page.write_text(LINK.sub(lambda link: link[0] if leads(link[2], page.parent) else link[1], text))


def files():
    for name in WHOLE:
        path = ROOT / name
        for found in [path] if path.is_file() else sorted(path.rglob("*")):
            relative = found.relative_to(ROOT)
            is_left_out = any(relative.is_relative_to(other) for other in NOT_COPIED)
            if found.is_file() and not is_left_out:
                yield relative


def leads(link, folder):
    """Whether a link leads to a file that was copied, or out of the documents."""
    return "://" in link or link.startswith(("#", "mailto:")) or (folder / link.split("#")[0]).is_file()


def without_lost_lines(text, folder):
    """The table of contents without the pages that were not copied."""
    lines = text.splitlines(keepends=True)
    is_lost = lambda line: (link := LINK.search(line)) and not leads(link[2], folder)
    return "".join(line for line in lines if not is_lost(line))


main()
