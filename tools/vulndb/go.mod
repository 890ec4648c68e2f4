// What `make vuln` looks for: the Go vulnerability database, as the files of its repository. Its own module, since
// nothing of it is built. A newer one: GOWORK=off go get golang.org/x/vulndb@latest
module quire.dev/tools/vulndb

go 1.26.0

require golang.org/x/vulndb v0.0.0-20260813214354-9de686e1fb00
