module quire.dev/services/file

go 1.26
