module quire.dev/services/lite

go 1.26
