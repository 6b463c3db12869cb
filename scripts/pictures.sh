#!/usr/bin/env bash
# Pictures of reports for the documentation: the pages of three recordings of truth/, as a browser shows their first screen.
# The same recordings give the same pictures. Needs npm and Chromium (scripts/packages.sh web).
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/packages.sh web
${CARGO:-cargo} build -p plimsoll
program=$PWD/target/debug/plimsoll
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd web && { [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --no-audit --no-fund --silent; })
picture() {
    xz -dc "truth/$1/recording.xz" >"$folder/$1.plimsoll"
    # From within its folder: the page names the recording as it was named.
    (cd "$folder" && "$program" report "$1.plimsoll" --html "$1.html")
    (cd web && node picture.mjs "$folder/$1.html" "../docs/pictures/$2.png")
}
picture http-global-lock report
picture http-nagle report-delayed-acks
picture http-crash report-crash
ls -s docs/pictures/report*.png
