module quire.dev/client

go 1.24
