// Package cluster starts a whole Quire as many processes on this machine: three NATS servers, a server of the MongoDB
// protocol, MinIO, and several instances of each service.
package cluster
