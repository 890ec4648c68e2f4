module quire.dev/services/standalone

go 1.26
