module quire.dev/services/billing

go 1.26
