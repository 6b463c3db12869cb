#!/bin/sh
# Loads the echo module of kernel/, and removes it when told to stop: the command of a target that is no process.
#   experiments/kernel/serve.sh model=callback flags=unbound      parameters of the module, see kernel/README.md
# Needs root, and the module built for the running kernel: make -C kernel. PLIMSOLL_ECHO_MODULE names another file.
insmod "${PLIMSOLL_ECHO_MODULE:-kernel/plimsoll_echo.ko}" port=7000 "$@" || exit 1
trap 'rmmod plimsoll_echo; exit' TERM INT
while :; do
    sleep 1 &
    wait $!
done
