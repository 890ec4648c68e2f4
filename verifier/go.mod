module quire.dev/verifier

go 1.26.0
