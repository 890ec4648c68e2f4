#!/bin/sh
# Makes event.pb.go and event_vtproto.pb.go from event.proto. Wants protoc (Debian: protobuf-compiler)
# and the two plugins of tools/go.mod in tools/bin; `make generate` sees to both.
set -eu
cd "$(dirname "$0")"
bin=../../tools/bin
protoc --plugin=protoc-gen-go=$bin/protoc-gen-go --plugin=protoc-gen-go-vtproto=$bin/protoc-gen-go-vtproto \
  --go_out=. --go_opt=paths=source_relative \
  --go-vtproto_out=. --go-vtproto_opt=paths=source_relative,features=marshal+unmarshal+size event.proto
