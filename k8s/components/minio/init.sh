#!/bin/sh
# Makes the bucket and a user for each service, which may use its own part of the bucket and nothing else. May be run
# again: it gives the users the passwords and rights of now, and leaves other users alone.
#
# It sets no lifecycle rule for unfinished uploads: MinIO refuses such rules and removes those uploads by itself
# (MINIO_API_STALE_UPLOADS_EXPIRY). On S3 the rule is needed: lifecycle.json.
set -eu
scripts=$(dirname "$0")
HOME=$(mktemp -d)
trap 'rm -rf "$HOME"' EXIT
export HOME MC_HOST_store="http://$MINIO_ROOT_USER:$MINIO_ROOT_PASSWORD@${MINIO_ADDRESS:-minio:9000}"

# user NAME PASSWORD
user() {
  if [ -z "$2" ]; then
    echo "$1: no password is set, so it gets no user" >&2
    return
  fi
  sed "s/BUCKET/$BUCKET/g" "$scripts/$1.json" >"$HOME/policy.json"
  mc admin policy create store "quire-$1" "$HOME/policy.json"
  # mc reads these lines from standard input, so that no process list shows the password.
  printf '%s\n%s\n' "$1" "$2" | mc admin user add store
  mc admin policy attach store "quire-$1" --user "$1" ||
    mc admin policy entities store --user "$1" | grep -q "quire-$1"
}

mc --version >/dev/null # or the loop would hide that there is no mc
until mc ready store >/dev/null 2>&1; do sleep 1; done
mc mb --ignore-existing "store/$BUCKET"
user billing "${S3_BILLING_PASSWORD:-}"
user edge "${S3_EDGE_PASSWORD:-}"
user paste "${S3_PASTE_PASSWORD:-}"
user lite "${S3_LITE_PASSWORD:-}"
user file "${S3_FILE_PASSWORD:-}"
user archive "${S3_ARCHIVE_PASSWORD:-}"
