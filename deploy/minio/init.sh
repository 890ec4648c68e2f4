#!/bin/sh
# Makes the bucket and the services' user, which may use nothing else. May be run again.
#
# It sets no lifecycle rule for unfinished uploads: MinIO refuses such rules and removes those uploads by itself
# (MINIO_API_STALE_UPLOADS_EXPIRY). On S3 the rule is needed: lifecycle.json.
set -eu
export HOME=/tmp MC_HOST_store="http://$MINIO_ROOT_USER:$MINIO_ROOT_PASSWORD@minio:9000"
until mc ready store >/dev/null 2>&1; do sleep 1; done
mc mb --ignore-existing "store/$BUCKET"
sed "s/BUCKET/$BUCKET/g" /scripts/policy.json >/tmp/policy.json
mc admin policy create store quire-bucket /tmp/policy.json
# mc reads these lines from standard input, so that no process list shows the password.
printf '%s\n%s\n' "$BUCKET_USER" "$BUCKET_PASSWORD" | mc admin user add store
mc admin policy attach store quire-bucket --user "$BUCKET_USER" ||
  mc admin policy entities store --user "$BUCKET_USER" | grep -q quire-bucket
