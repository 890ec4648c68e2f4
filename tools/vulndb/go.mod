// The Go vulnerability database that `make vuln` uses, as the files of its repository. It has its own module, since
// nothing of it is built. To update it: GOWORK=off go get golang.org/x/vulndb@latest
module quire.dev/tools/vulndb

go 1.26.0

require golang.org/x/vulndb v0.0.0-20260813214354-9de686e1fb00
