#!/bin/bash
# Cloud 2's service in one container with a Ray node.
#
# The service is a Ray driver, and a driver needs a Ray node on its own machine (here: in its own
# container). The node offers no resources, so no worker is ever placed beside the gateway.
# If either of the two ends, the other is ended too and the container is started anew.
#
# Usage: gateway_beside_ray.sh HEAD:PORT COMMAND...
#   gateway_beside_ray.sh ppodc-cloud2-head-svc:6379 ppodc cloud2 serve --config cloud2.toml
# Ray's token comes from the environment: RAY_AUTH_MODE=token and RAY_AUTH_TOKEN(_PATH).
set -u

head=$1
shift

ray start --address="$head" --num-cpus=0 --disable-usage-stats --block &
node=$!
"$@" &
service=$!

# SIGTERM is for the service: it frees its workers and closes its store before it ends. Once only:
# a second signal would cut that short.
told=
tell() {
    if test -z "$told"; then
        told=yes
        kill -TERM "$service" 2>/dev/null
    fi
}
trap tell TERM INT

wait -n "$node" "$service"
tell
while :; do # a signal interrupts `wait`: wait again until the service is gone
    wait "$service"
    code=$?
    kill -0 "$service" 2>/dev/null || break
done
kill -TERM "$node" 2>/dev/null
wait "$node"
exit "$code"
