// Package natsconf writes the accounts and permissions of the NATS servers: the subjects that each service may use.
//
// NATS has no wildcard within a token. So the API subjects of BILLING_0, BILLING_1, … are listed one by one, and the
// file is for one number of partitions.
package natsconf

import (
	"fmt"
	"strings"
)

// Services returns the services that connect to NATS. Each has its own users.
func Services() []string { return []string{"edge", "billing", "paste", "lite", "file", "archive"} }

// Users of a service have equal rights: while a password is rotated, the service moves from one to the other.
func Users(service string) []string { return []string{service, service + "_b"} }

// Operator is the user with which people look at journals, move their leaders, back them up and restore them. No service may
// do that.
const Operator = "operator"

// Provision is the user of the job that makes the streams and the bucket of the members. No service may do that: who may
// change a stream could have it publish what it stores to any subject.
const Provision = "provision"

// Backup is the user of `quire backup`, `quire journal export` and `quire reprice`. It reads journals, and may neither write nor change anything.
const Backup = "backup"

// Retention is the user with which the archive deletes closed generations of the billing journals. It may do nothing else.
const Retention = "retention"

// Others returns the users that are no service's.
func Others() []string { return []string{Provision, Operator, Backup, Retention} }

// InboxPrefix begins the subjects on which a service receives replies and its journal's messages. The connection must be
// made with nats.CustomInboxPrefix of it. Each service has its own, so that none can read another's replies.
func InboxPrefix(service string) string { return "_INBOX_" + service }

// permissions are the subjects that a service may publish and subscribe to. NATS refuses all others.
type permissions struct{ publish, subscribe []string }

func edge() permissions {
	p := permissions{
		publish: []string{"billing.*.usage", "billing.*.account", "billing.*.query", "billing.*.report", "billing.users", "billing.webhooks", "edges.sources"},
		// Answers go to edge.<source>.…. A source is <edge>.<partition>, and an edge has a new name after each start.
		subscribe: []string{InboxPrefix("edge") + ".>", "edge.*.>", "billing.announce", "edges.sources"},
	}
	for _, domain := range []string{"paste", "lite", "file"} {
		p.publish = append(p.publish, domain+".*.request", domain+".*.read", domain+".*.list")
	}
	return p
}

func billing(partitions int) permissions {
	return permissions{
		publish: append([]string{
			"billing.*.usage", "billing.*.account", "billing.*.prices", "billing.announce", "billing.instances.query", "billing.0.query",
			"edge.*.*.verdict", "edge.*.*.command", InboxPrefix("edge") + ".>", InboxPrefix("billing") + ".>",
			"paste.*.erase", "lite.*.erase", "file.*.erase",
		}, append(append(members("billing"), journal("BILLING", partitions)...), ends(partitions)...)...),
		subscribe: []string{InboxPrefix("billing") + ".>", "billing.*.query", "billing.*.report", "billing.users", "billing.webhooks"},
	}
}

// ends are the subjects by which billing asks how far the documents' journals are.
func ends(partitions int) (subjects []string) {
	for _, stream := range []string{"PASTE", "LITE", "FILE"} {
		for p := range partitions {
			subjects = append(subjects, fmt.Sprintf("$JS.API.STREAM.INFO.%s_%d", stream, p))
		}
	}
	return subjects
}

func document(domain string, cfg Config) permissions {
	stream := strings.ToUpper(domain)
	publish := append([]string{
		domain + ".*.request", "billing.*.settle." + domain, "edge.*.*.outcome." + domain, InboxPrefix("edge") + ".>", InboxPrefix("billing") + ".>",
	}, append(members(domain), journal(stream, cfg.Partitions)...)...)
	for p := range cfg.Partitions {
		publish = append(publish, fmt.Sprintf("$JS.API.STREAM.PURGE.%s_%d", stream, p))
	}
	return permissions{
		publish:   publish,
		subscribe: []string{InboxPrefix(domain) + ".>", domain + ".*.read", domain + ".*.list", domain + ".*.erase"},
	}
}

// journal lists the requests with which pkg/journal reads and follows the streams of a domain.
func journal(stream string, partitions int) []string {
	var subjects []string
	for _, name := range names(stream, partitions) {
		subjects = append(subjects,
			"$JS.API.STREAM.INFO."+name, "$JS.API.STREAM.MSG.GET."+name,
			"$JS.API.CONSUMER.CREATE."+name+".>", "$JS.API.CONSUMER.DELETE."+name+".>", "$JS.API.CONSUMER.MSG.NEXT."+name+".*")
	}
	return subjects
}

// names lists the streams of a domain.
func names(stream string, partitions int) (list []string) {
	for p := range partitions {
		if stream == "BILLING" {
			list = append(list, generations(p)...)
		} else {
			list = append(list, fmt.Sprintf("%s_%d", stream, p))
		}
	}
	return list
}

// generations are the names that generations of a billing journal have in turn.
func generations(partition int) []string {
	name := fmt.Sprintf("BILLING_%d", partition)
	return []string{name, name + "_ODD"}
}

// members lists the requests of pkg/members to the bucket that all services share. A service announces itself, and
// follows announcements, only under its own name.
func members(service string) []string {
	const stream, keys = "KV_QUIRE_MEMBERS", "$KV.QUIRE_MEMBERS."
	return []string{
		"$JS.API.STREAM.INFO." + stream,
		"$JS.API.CONSUMER.CREATE." + stream + ".*." + keys + service + ".*", "$JS.API.CONSUMER.DELETE." + stream + ".*",
		keys + service + ".*", "$JS.FC." + stream + ".>",
	}
}

// provision may make and change the streams and the bucket, and end a generation of a billing journal with a last message. It may neither
// read nor write another message, and not delete a stream.
func provision(partitions int) permissions {
	publish := []string{"$JS.API.INFO", "billing.*.closed"} // the first is asked before a bucket is made
	streams := []string{"KV_QUIRE_MEMBERS"}
	for _, stream := range []string{"BILLING", "PASTE", "LITE", "FILE"} {
		streams = append(streams, names(stream, partitions)...)
	}
	for _, name := range streams {
		publish = append(publish, "$JS.API.STREAM.INFO."+name, "$JS.API.STREAM.CREATE."+name, "$JS.API.STREAM.UPDATE."+name)
	}
	for p := range partitions {
		for _, name := range generations(p) {
			publish = append(publish, fmt.Sprintf("$JS.API.CONSUMER.CREATE.%s.*.billing.%d.closed", name, p), "$JS.API.CONSUMER.INFO."+name+".*")
		}
	}
	return permissions{publish: publish, subscribe: []string{InboxPrefix(Provision) + ".>"}}
}

// operator may see, back up and restore every stream and move its leader, but neither write nor delete a message.
func operator() permissions {
	return permissions{
		publish: []string{
			"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST", "$JS.API.STREAM.INFO.*",
			"$JS.API.STREAM.LEADER.STEPDOWN.*", "$JS.API.CONSUMER.NAMES.*", "$JS.API.CONSUMER.LIST.*", "$JS.API.CONSUMER.INFO.*.*",
			"$JS.API.STREAM.SNAPSHOT.*", "$JS.API.STREAM.RESTORE.*", "$JS.SNAPSHOT.ACK.>", "$JS.SNAPSHOT.RESTORE.>",
		},
		subscribe: []string{InboxPrefix(Operator) + ".>"},
	}
}

// archive may read the messages of billing's journals, and nothing else: who signs the log must not be able to write what it records.
func archive(partitions int) permissions {
	return permissions{publish: journal("BILLING", partitions), subscribe: []string{InboxPrefix("archive") + ".>"}}
}

// backup may read the messages of every stream.
func backup(partitions int) permissions {
	var publish []string
	for _, stream := range []string{"BILLING", "PASTE", "LITE", "FILE"} {
		publish = append(publish, journal(stream, partitions)...)
	}
	return permissions{publish: publish, subscribe: []string{InboxPrefix(Backup) + ".>"}}
}

// retention may delete billing's streams.
func retention(partitions int) (p permissions) {
	for _, name := range names("BILLING", partitions) {
		p.publish = append(p.publish, "$JS.API.STREAM.DELETE."+name)
	}
	p.subscribe = []string{InboxPrefix(Retention) + ".>"}
	return p
}

func of(service string, cfg Config) permissions {
	partitions := cfg.Partitions
	switch service {
	case Backup:
		return backup(partitions)
	case Retention:
		return retention(partitions)
	case Operator:
		return operator()
	case Provision:
		return provision(partitions)
	case "edge":
		return edge()
	case "billing":
		return billing(partitions)
	case "archive":
		return archive(partitions)
	}
	return document(service, cfg)
}

// Config says what the permissions are for.
type Config struct {
	Partitions int // of each journal
}

// Write returns users.conf.
func Write(cfg Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Made by `make -C deploy users PARTITIONS=%d`; QUIRE_PARTITIONS must be the same. Do not edit.\n", cfg.Partitions)
	b.WriteString("\n")
	b.WriteString("# Defines <user>_password for every user below, and sys_password.\n")
	b.WriteString("include \"../secrets/passwords.conf\"\n")
	for _, service := range append(Services(), Others()...) {
		p := of(service, cfg)
		fmt.Fprintf(&b, "\n%s_permissions: {\n", service)
		list(&b, "publish", p.publish)
		list(&b, "subscribe", p.subscribe)
		b.WriteString("}\n")
	}
	b.WriteString("\naccounts: {\n  QUIRE: {\n    jetstream: enabled\n    users: [\n")
	for _, service := range Services() {
		for _, user := range Users(service) {
			fmt.Fprintf(&b, "      {user: %s, password: $%s_password, permissions: $%s_permissions}\n", user, user, service)
		}
	}
	for _, user := range Others() {
		fmt.Fprintf(&b, "      {user: %s, password: $%s_password, permissions: $%s_permissions}\n", user, user, user)
	}
	b.WriteString("    ]\n  }\n  SYS: {\n    users: [{user: sys, password: $sys_password}]\n  }\n}\nsystem_account: SYS\n")
	return b.String()
}

func list(b *strings.Builder, name string, subjects []string) {
	fmt.Fprintf(b, "  %s: {\n    allow: [\n", name)
	for _, s := range subjects {
		fmt.Fprintf(b, "      %q\n", s)
	}
	b.WriteString("    ]\n  }\n")
}
