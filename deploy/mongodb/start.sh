#!/bin/sh
# Starts one member of the replica set. MEMBER is its name, MONGO_ROOT_PASSWORD the first user's password.
set -eu
# mongod refuses a key file that its group may read, as mounted secrets are.
install -m 0400 /etc/mongodb/keyfile /tmp/keyfile
# The first member makes the first user. The others copy it, and must be empty for that.
if [ "$MEMBER" = mongodb-0 ]; then
  export MONGO_INITDB_ROOT_USERNAME=root MONGO_INITDB_ROOT_PASSWORD="$MONGO_ROOT_PASSWORD"
fi
unset MONGO_ROOT_PASSWORD
exec docker-entrypoint.sh mongod --replSet quire --bind_ip_all --keyFile /tmp/keyfile \
  --wiredTigerCacheSizeGB "${CACHE_GB:-0.25}"
