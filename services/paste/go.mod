module quire.dev/services/paste

go 1.26
