module quire.dev/cluster

go 1.26.0

require quire.dev/pkg v0.0.0

replace quire.dev/pkg => ../pkg
