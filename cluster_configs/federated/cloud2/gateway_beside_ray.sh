#!/bin/bash
# Cloud 2's service in one container with a Ray node.
#
# The service starts a Ray driver beside itself when a job needs workers, and a driver needs a Ray
# node on its own machine (here: in its own container). The node offers no resources, so no worker
# is ever placed beside the gateway. A node that ends is started again after a pause, for as long as
# it takes; owners reach the service all the while. When the service ends, the container does.
#
# Usage: gateway_beside_ray.sh HEAD:PORT COMMAND...
#   gateway_beside_ray.sh ppodc-cloud2-head-svc:6379 ppodc cloud2 serve --config cloud2.toml
# Ray's token comes from the environment: RAY_AUTH_MODE=token and RAY_AUTH_TOKEN(_PATH).
# NODE_PAUSE: seconds until a node that has ended is started again; 5 unless set.
set -u

head=$1
shift
current= # what is waited for
over=    # yes: the node must not go on

# SIGTERM ends what runs now, the node or the pause, and no other follows.
keep_node() {
    trap 'over=yes; kill -TERM "$current" 2>/dev/null' TERM
    while test -z "$over"; do
        ray start --address="$head" --num-cpus=0 --disable-usage-stats --block &
        await $!
        test -n "$over" && break
        echo "The Ray node of this container has ended; it is started again." >&2
        sleep "${NODE_PAUSE:-5}" &
        await $!
    done
}

# A signal interrupts `wait`: wait again until the process is gone. Its exit status is in `code`.
await() {
    current=$1
    test -n "$over" && kill -TERM "$1" 2>/dev/null # the signal came just before
    while :; do
        wait "$1"
        code=$?
        kill -0 "$1" 2>/dev/null || break
    done
}

keep_node &
keeper=$!
"$@" &
service=$!

# SIGTERM is for the service: it frees its workers and closes its store before it ends. Once only:
# a second signal would cut that short.
reported=
tell() {
    if test -z "$reported"; then
        reported=yes
        kill -TERM "$service" 2>/dev/null
    fi
}
trap tell TERM INT

await "$service"
served=$code
kill -TERM "$keeper" 2>/dev/null
await "$keeper"
exit "$served"
