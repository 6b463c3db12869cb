# A module that fails on purpose, under load.
load model=callback
plimsoll load echo://127.0.0.1:7000 -c 4 --rate 150/s -d 16s --timeout 500ms --size 16..32 --no-record --json -q >/tmp/results/load.json
exit 0
