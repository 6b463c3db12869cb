#!/bin/bash
# How often `plimsoll ab` calls a server different from itself:
#   bench/same.sh [COMPARISONS [SLICE]]
#
# So many comparisons (100) of one `serve http` with itself, of ten repeats of three slices each (1s); all that is declared by default,
# at 98 %. Prints each verdict that says different, and at the end how many comparisons had one: no more than 2 of 100 are
# expected, and 5 are tolerated. An hour at 1 s a slice. For a quiet machine. PLIMSOLL=PROGRAM takes that instead of a release build.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${PLIMSOLL:-}" ]; then
    cargo build --quiet --release -p plimsoll
    PLIMSOLL=$PWD/target/release/plimsoll
fi
PLIMSOLL=$PLIMSOLL COMPARISONS=${1:-100} SLICE=${2:-1s} exec python3 - <<'PYTHON'
import json, os, shutil, subprocess, tempfile

program, count, slice_ = os.environ["PLIMSOLL"], int(os.environ["COMPARISONS"]), os.environ["SLICE"]
state = tempfile.mkdtemp()
environment = dict(os.environ, XDG_STATE_HOME=state)
server = subprocess.Popen([program, "serve", "http", "--listen", "127.0.0.1:0"], env=environment, text=True, stdout=subprocess.PIPE)
wrong, of_figure = 0, {}
try:
    url = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
    for number in range(1, count + 1):
        arguments = ["ab", "--a", url, "--b", url, "-c", "8", "--slice", slice_, "--seed", str(number), "-q", "--json",
                     "--record", os.path.join(state, f"ab-{number}")]
        done = subprocess.run([program, *arguments], env=environment, text=True, capture_output=True)
        if not done.stdout:
            raise SystemExit(f"plimsoll {' '.join(arguments)}: {done.stderr.strip()}")
        found = [one for one in json.loads(done.stdout)["judgements"] if one["state"] == "different"]
        wrong += bool(found)
        for one in found:
            name = one["quantity"]
            of_figure[name] = of_figure.get(name, 0) + 1
            print(f"{number}: {name} by {100 * one['change']['value']:+.1f} %", flush=True)
        shutil.rmtree(os.path.join(state, f"ab-{number}"), ignore_errors=True)
finally:
    server.terminate()
    server.wait()
    shutil.rmtree(state, ignore_errors=True)
print(f"{wrong} of {count} comparisons of a server with itself were called different; by figure: {of_figure}")
PYTHON
