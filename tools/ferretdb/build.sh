#!/bin/sh
# Builds FerretDB with three changes. Without them a cluster can't be tried on it:
#   - An index is made on the expression that queries use. FerretDB's own index on _id is on another one, so that SQLite
#     reads the whole collection for each query.
#   - A filter uses the indexes: for an _id beside other fields, for several _ids ($in), and for fields that are compared.
#     FerretDB would read the whole collection, and a cluster would be the slower the longer it runs.
#   - One update command runs at a time. FerretDB finds and replaces in two steps, so that two writers could both win.
#     It also holds a connection for each update of a command, so that several large commands could block each other.
# Usage: build.sh <program>
set -eu
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$(dirname "$0")"
export GOWORK=off
go mod download github.com/FerretDB/FerretDB
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$(go list -m -f '{{.Dir}}' github.com/FerretDB/FerretDB)" "$work/source"
chmod -R u+w "$work/source"
change() { # file, from, to: each must be there
  grep -q "$2" "$work/source/$1" || { echo "build.sh: $1 does not have: $2" >&2; exit 1; }
  sed -i "s/$2/$3/" "$work/source/$1"
}
change internal/backends/sqlite/metadata/registry.go 'fields\[j\] = fmt.Sprintf("%q", f)' "fields[j] = \"'\$.\" + f + \"'\""
change internal/backends/sqlite/collection.go 'params.Filter.Len() == 1 {' 'whereClause, args = where(params.Filter); false {'
for message in find explain; do
  change "internal/handler/msg_$message.go" '!h.EnableNestedPushdown && params.Filter != nil' 'false'
done
cp where.go.in "$work/source/internal/backends/sqlite/where.go"
change internal/handler/msg_update.go '^func (h \*Handler) MsgUpdate(.*{$' '&\n\toneUpdate.Lock()\n\tdefer oneUpdate.Unlock()\n'
cat >"$work/source/internal/handler/one_update.go" <<'GO'
package handler

import "sync"

var oneUpdate sync.Mutex
GO
cp go.mod go.sum "$work"
go mod edit -replace "github.com/FerretDB/FerretDB=$work/source" "$work/go.mod"
go build -trimpath -modfile "$work/go.mod" -o "$program" .
