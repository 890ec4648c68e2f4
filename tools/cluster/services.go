package cluster

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"syscall"
)

// addInstance adds the process of an instance, which is not started yet.
func (c *Cluster) addInstance(ctx context.Context, service string, n int) (*Process, error) {
	name := fmt.Sprintf("%s-%d", service, n)
	h, err := c.net.add(ctx, name)
	if err != nil {
		return nil, err
	}
	listen := ""
	p := &Process{
		name: name, service: service, program: filepath.Join(c.opts.Bin, "quire-"+service), host: h,
		ops: "http://" + h.address(opsPort), ready: answers("http://" + h.address(opsPort) + "/readyz"), quit: syscall.SIGTERM,
	}
	if service == "edge" {
		listen = h.address(apiPort)
		if n < len(c.opts.Listen) && c.opts.Listen[n] != "" {
			listen = c.opts.Listen[n]
		}
		p.url = "http://" + listen
	}
	p.environ = func() []string {
		environ := Environment(goSettings()...)
		for name, value := range c.settingsOf(service, h, listen) {
			environ = append(environ, name+"="+value)
		}
		return environ
	}
	return c.add(p), nil
}

func (c *Cluster) settingsOf(service string, h *host, listen string) map[string]string {
	settings := map[string]string{
		"QUIRE_NATS_URL":   c.NATSURL(service),
		"QUIRE_S3_URL":     c.S3URL(service),
		"QUIRE_PARTITIONS": strconv.Itoa(c.opts.Partitions),
		"QUIRE_OPS_LISTEN": h.address(opsPort),
	}
	switch service {
	case "edge":
		settings["QUIRE_LISTEN"] = listen
		settings["QUIRE_ADMIN_TOKEN"] = c.AdminToken()
		settings["QUIRE_UNMETERED_RATE"] = "100000" // the clients of all runs are on this machine
	case "archive":
		settings["QUIRE_CHECKPOINT_KEY"] = c.state.Secrets["checkpoint"]
		settings["QUIRE_RETENTION_NATS_URL"] = c.NATSURL("retention")
	default:
		settings["QUIRE_REGISTER_LIMIT"] = "10000" // likewise
		// Several clusters may share a server, so each has its own databases.
		name := "quire_" + service + "_" + c.state.Secrets["databases"][:8]
		switch {
		case c.opts.Store == MongoDB:
			settings["QUIRE_MONGO_URL"], settings["QUIRE_MONGO_DATABASE"] = c.MongoURL(), name
		case c.opts.PostgresURL != "":
			settings["QUIRE_POSTGRES_URL"], settings["QUIRE_POSTGRES_SCHEMA"] = c.opts.PostgresURL, name
		default:
			settings["QUIRE_POSTGRES_URL"] = c.PostgresURL(service)
		}
	}
	if service == "archive" || service == "billing" {
		settings["QUIRE_CHECKPOINT_INTERVAL"] = "1s"
	}
	if service == "edge" || service == "billing" {
		settings["QUIRE_SECRET"] = c.state.Secrets["secret"]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(settings, c.settings)
	return settings
}
