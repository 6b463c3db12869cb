#!/usr/bin/env bash
# Builds web/ into crates/report/assets, which the program embeds: who builds the program needs no Node.
#   scripts/web.sh          types checked, then script, style and the hashes that a test holds them to
#   scripts/web.sh --hash   only what the sources' hash is now
# The hash is of each source's path, a zero byte, its bytes and a zero byte, in the order of the paths' bytes.
set -euo pipefail
cd "$(dirname "$0")/../web"
export LC_ALL=C

sources() { find package.json package-lock.json tsconfig.json vite.config.ts src -type f | sort; }
hash_of_sources() {
    sources | while read -r path; do
        printf '%s\0' "$path"
        cat "$path"
        printf '\0'
    done | sha256sum | cut -d' ' -f1
}
if [ "${1:-}" = --hash ]; then
    hash_of_sources
    exit
fi
if ! command -v npm >/dev/null; then
    echo "expected npm (Node 20 or newer) to build web/, found none; building the program needs neither" >&2
    exit 1
fi
[ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --no-audit --no-fund --silent
npx --no-install tsc --noEmit
npx --no-install vite build --logLevel warn
assets=../crates/report/assets
mkdir -p $assets
cp dist/report.js dist/report.css $assets
{
    echo "sources $(hash_of_sources)"
    echo "script $(sha256sum <$assets/report.js | cut -d' ' -f1)"
    echo "style $(sha256sum <$assets/report.css | cut -d' ' -f1)"
} >$assets/report.sha256
wc -c $assets/report.js $assets/report.css | head -2 >&2
