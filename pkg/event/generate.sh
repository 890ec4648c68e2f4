#!/bin/sh
# Makes event.pb.go and event_vtproto.pb.go from event.proto. Wants protoc (Debian: protobuf-compiler)
# and the two plugins of tools/go.mod in tools/bin; `make generate` sees to both.
#
# The messages named in pooled get ResetVT: what is decoded into them afterwards uses their memory again.
set -eu
cd "$(dirname "$0")"
bin=../../tools/bin
pooled=
for message in UsageBatch Admission Settlement Served RecentAnswer RecentRequest; do
  pooled=$pooled,pool=quire.dev/pkg/event.$message
done
protoc --plugin=protoc-gen-go=$bin/protoc-gen-go --plugin=protoc-gen-go-vtproto=$bin/protoc-gen-go-vtproto \
  --go_out=. --go_opt=paths=source_relative \
  --go-vtproto_out=. "--go-vtproto_opt=paths=source_relative,features=marshal+unmarshal+size+pool$pooled" event.proto
