#!/usr/bin/env bash
# The pages that the tests left in target/pages, those of a run that goes on and of a folder,
# opened in headless Chromium (web/tests). Without npm it skips, and says so.
#   PLIMSOLL_TEST_NO_SKIP=1   what cannot run here fails
#   SHOTS=1                   leaves pictures of the pages in web/shots
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v npm >/dev/null; then
    echo "skipped: the HTML report in a browser: expected npm (Node 20 or newer), found none" >&2
    [ -z "${PLIMSOLL_TEST_NO_SKIP:-}" ]
    exit
fi
scripts/packages.sh web
[ -e target/pages/healthy.html ] || ${CARGO:-cargo} test -p plimsoll-report --test pages
# Whose pages are opened: of a run that goes on, of a folder. What the tests left will do: built alone it has other features
# of what it depends on, so that half of it would be compiled again.
program=target/debug/plimsoll
if [ ! -e $program ] || [ -n "$(find crates Cargo.toml Cargo.lock -newer $program -print -quit)" ]; then
    ${CARGO:-cargo} build --quiet -p plimsoll
fi
cd web
[ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --no-audit --no-fund --silent
npx --no-install tsc -p tests/tsconfig.json
node --test --test-concurrency=2 --test-reporter=spec tests/built/tests/*.test.js
