module quire.dev/bench

go 1.26
