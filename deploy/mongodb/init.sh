#!/bin/sh
# Makes the replica set and a user for each service, or gives existing users the passwords that are set now.
set -eu
until mongosh --quiet --host mongodb-0.mongodb --eval 'db.hello().ok' >/dev/null 2>&1; do sleep 1; done
exec mongosh --quiet --nodb /scripts/init.js
