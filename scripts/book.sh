#!/bin/bash
# book.sh: builds the book of README.md, docs/ and the other pages into target/book/html, and checks its links and search.
#   NARROWS_MDBOOK=PATH  an mdbook other than the one that setup.sh installs
set -euo pipefail
cd "$(dirname "$0")/.."

mdbook=${NARROWS_MDBOOK:-target/tools/bin/mdbook}
source=target/book/source

# The pages are copied with their folders, so that their links lead to the same places as in the repository.
rm -rf target/book
mkdir -p $source
cp --parents -r README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE bench/README.md docs examples $source/
# The table of contents is in docs/, where its links work as well.
sed -E 's,\]\(,](docs/,; s,\]\(docs/\.\./,](,' docs/SUMMARY.md > $source/SUMMARY.md
rm $source/docs/SUMMARY.md
sed -i 's,docs/SUMMARY\.md,toc.html,' $source/README.md
# A folder's README.md becomes its index.
find $source -name '*.md' ! -name SUMMARY.md -exec sed -i -E 's,(\]\([^)]*)README\.md,\1index.md,g' {} +

"$mdbook" build
node scripts/book-check.js target/book/html
