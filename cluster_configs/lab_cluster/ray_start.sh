#!/bin/bash
# The same lab cluster without `ray up`: run this on each machine, the head first.
#
#   ray_start.sh head              on 10.20.0.1: both services, the master; no workers
#   ray_start.sh cloud1            on each of the eight machines of cloud 1
#   ray_start.sh cloud2            on each of the eight machines of cloud 2
#   ray stop                       ends Ray on a machine
#
# Everyone who can use this Ray cluster can read both shares: no secret data here.
set -eu

HEAD=${HEAD:-10.20.0.1}

# Ray lets in only who has the token: ~/.ray/auth_token, the same file on all machines (mode 0600).
# `ray get-auth-token --generate` makes it on the head; copy it to the others before this.
export RAY_AUTH_MODE=token
if ! test -s "${RAY_AUTH_TOKEN_PATH:-$HOME/.ray/auth_token}"; then
    echo "There is no token yet: make it on the head with: ray get-auth-token --generate" >&2
    exit 1
fi

# Each worker keeps sockets and files open.
ulimit -n 65536 2>/dev/null || echo "The limit of open files stays at $(ulimit -n)." >&2

# What does not fit into memory Ray writes to files, shares among them, in folders that it opens to
# everyone: so they lie inside one that only this user may enter.
umask 077
mkdir -p "$HOME/ray"
files=$HOME/ray/files

case "${1:-}" in
head)
    # The dashboard takes jobs; it listens on the head's loopback only.
    ray start --head --node-ip-address="$HEAD" --port=6379 --num-cpus=0 \
        --dashboard-host=127.0.0.1 --temp-dir="$files" --disable-usage-stats
    ;;
cloud1 | cloud2)
    # One worker for each machine; {"cloud1": 4} would allow four.
    ray start --address="$HEAD:6379" --resources="{\"$1\": 1}" --temp-dir="$files" \
        --disable-usage-stats
    ;;
*)
    echo "Usage: ray_start.sh head|cloud1|cloud2" >&2
    exit 2
    ;;
esac
