#!/bin/sh
# The ubus object "fairmesh": rpcd calls this for each method.
case "$1" in
list) exec /usr/bin/fairmesh-gateway ubus list ;;
call) exec /usr/bin/fairmesh-gateway ubus call "--config=/var/run/fairmesh/gateway.toml" -- "$2" ;;
esac
