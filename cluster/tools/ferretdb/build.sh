#!/bin/sh
# Builds FerretDB with two changes, without which a cluster of a few thousand documents can't be tried on it:
#   - a filter that names an _id beside other fields uses the index, where it would read the whole collection;
#   - a database has 1000 connections to SQLite, not 100: a command holds one for each of its updates until it ends, so
#     that four commands of 32 updates wait for each other for ever.
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
change internal/backends/sqlite/collection.go 'params.Filter.Len() == 1' 'params.Filter.Has("_id")'
change internal/backends/sqlite/metadata/pool/opendb.go 'OpenConns(100)' 'OpenConns(1000)'
cp go.mod go.sum "$work"
go mod edit -replace "github.com/FerretDB/FerretDB=$work/source" "$work/go.mod"
go build -trimpath -modfile "$work/go.mod" -o "$program" .
