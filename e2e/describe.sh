#!/bin/sh
# Checks the descriptions of the API and of the pages: make test-docs. Two linters must find nothing at all, and a TypeScript
# and a Go client made from the API's must compile. The Go client is then tried: tools/openapi.
set -eu
cd "$(dirname "$0")/.."
bin=e2e/node_modules/.bin
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true

$bin/spectral lint --quiet --ruleset e2e/spectral.yaml --fail-severity hint docs/openapi.yaml docs/openapi-pages.yaml
for api in api pages; do # of redocly.yaml
  # It ends well with warnings too, so its list of problems is looked at.
  found=$($bin/redocly lint --format=json --config e2e/redocly.yaml $api 2>/dev/null || true)
  case $found in
    *'"problems": []'*) ;;
    *) printf 'redocly finds in %s\n%s\n' $api "$found" >&2; exit 1 ;;
  esac
done

mkdir -p bin
$bin/openapi-typescript docs/openapi.yaml -o bin/openapi.ts >/dev/null
$bin/tsc --strict --noEmit bin/openapi.ts

cd tools/openapi
export GOWORK=off
mkdir -p client
go tool oapi-codegen -generate types,client -package client -o client/client.go ../../docs/openapi.yaml
go vet ./...
go test -count=1 ./...
