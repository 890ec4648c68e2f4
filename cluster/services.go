package cluster

import (
	"context"
	"fmt"
	"maps"
	"net"
	"strconv"
	"syscall"
)

// addInstance makes the process of an instance, not started yet.
func (c *Cluster) addInstance(ctx context.Context, service string, n int) error {
	name := fmt.Sprintf("%s-%d", service, n)
	if service == "edge" && n < len(c.opts.Listen) {
		_, port, err := net.SplitHostPort(c.opts.Listen[n])
		if err != nil {
			return err
		}
		if c.state.Ports[name+"/api"], err = strconv.Atoi(port); err != nil {
			return err
		}
	}
	uses := []string{"ops"}
	if service == "edge" {
		uses = append(uses, "api")
	}
	h, err := c.net.add(ctx, name, uses...)
	if err != nil {
		return err
	}
	p := &Process{
		name: name, service: service, program: c.program("quire-" + service), host: h, log: c.log(name),
		ops: "http://" + h.address("ops"), ready: answers("http://" + h.address("ops") + "/readyz"), quit: syscall.SIGTERM,
	}
	if service == "edge" {
		p.url = "http://" + h.address("api")
	}
	p.environ = func() []string {
		environ := outside()
		for name, value := range c.settingsOf(service, h) {
			environ = append(environ, name+"="+value)
		}
		return environ
	}
	c.add(p)
	return nil
}

func (c *Cluster) settingsOf(service string, h *host) map[string]string {
	settings := map[string]string{
		"QUIRE_NATS_URL":   c.NATSURL(service),
		"QUIRE_S3_URL":     c.S3URL() + "/quire",
		"QUIRE_PARTITIONS": strconv.Itoa(c.opts.Partitions),
		"QUIRE_OPS_LISTEN": h.address("ops"),
	}
	if service == "edge" {
		settings["QUIRE_LISTEN"] = h.address("api")
		settings["QUIRE_SECRET"] = c.state.Secrets["secret"]
		settings["QUIRE_ADMIN_TOKEN"] = c.AdminToken()
	} else {
		settings["QUIRE_REPLICAS"] = strconv.Itoa(c.opts.Replicas)
		settings["QUIRE_MONGO_URL"] = c.MongoURL()
		// A server that others use too keeps the databases of each cluster apart.
		settings["QUIRE_MONGO_DATABASE"] = "quire_" + service + "_" + c.state.Secrets["databases"][:8]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(settings, c.settings)
	return settings
}

// MongoURL is where the server of the MongoDB protocol is reached.
func (c *Cluster) MongoURL() string {
	if c.opts.MongoURL != "" {
		return c.opts.MongoURL
	}
	return c.Process("mongo").URL()
}
