package event

import (
	"fmt"
	"strings"
)

// Domain names a journal: billing, or one of the document services.
type Domain string

// Domains.
const (
	Billing Domain = "billing"
	Paste   Domain = "paste"
	Lite    Domain = "lite"
	File    Domain = "file"
)

// Documents lists the document services.
func Documents() []Domain { return []Domain{Paste, Lite, File} }

// Domains lists all services with a journal: billing, and the document services.
func Domains() []Domain { return append([]Domain{Billing}, Documents()...) }

// Stream is the name of one partition's JetStream stream: BILLING_0.
func (d Domain) Stream(partition int) string {
	return fmt.Sprintf("%s_%d", strings.ToUpper(string(d)), partition)
}

// Subjects of the billing journal.

// UsageSubject takes UsageBatch events of edges, and ticks.
func UsageSubject(partition int) string { return fmt.Sprintf("billing.%d.usage", partition) }

// AccountSubject takes CommandBatch events.
func AccountSubject(partition int) string { return fmt.Sprintf("billing.%d.account", partition) }

// PricesSubject takes PriceBook events.
func PricesSubject(partition int) string { return fmt.Sprintf("billing.%d.prices", partition) }

// SettleSubject takes UsageBatch events with the domain's settlements.
func (d Domain) SettleSubject(partition int) string {
	return fmt.Sprintf("billing.%d.settle.%s", partition, d)
}

// RequestSubject takes a document domain's RequestBatch events.
func (d Domain) RequestSubject(partition int) string {
	return fmt.Sprintf("%s.%d.request", d, partition)
}

// Subjects lists the subjects of one partition's stream.
func (d Domain) Subjects(partition int) []string {
	if d == Billing {
		subjects := []string{UsageSubject(partition), AccountSubject(partition), PricesSubject(partition)}
		for _, domain := range Documents() {
			subjects = append(subjects, domain.SettleSubject(partition))
		}
		return subjects
	}
	return []string{d.RequestSubject(partition)}
}

// Subjects outside the journals, over core NATS.

// ReadSubject takes ReadBatch requests.
func (d Domain) ReadSubject(partition int) string { return fmt.Sprintf("%s.%d.read", d, partition) }

// ListSubject takes ListRequest requests.
func (d Domain) ListSubject(partition int) string { return fmt.Sprintf("%s.%d.list", d, partition) }

// EraseSubject takes EraseRequest requests, which only billing may send.
func (d Domain) EraseSubject(partition int) string { return fmt.Sprintf("%s.%d.erase", d, partition) }

// QuerySubject takes Query requests to billing.
func QuerySubject(partition int) string { return fmt.Sprintf("billing.%d.query", partition) }

// ReportSubject takes RequestReport messages of edges. One replica of the partition gets each.
func ReportSubject(partition int) string { return fmt.Sprintf("billing.%d.report", partition) }

// UserSubject takes UserRequest requests; any billing instance answers.
const UserSubject = "billing.users"

// WebhookSubject takes WebhookRequest requests; any billing instance answers.
const WebhookSubject = "billing.webhooks"

// AnnounceSubject carries Announcement messages from billing to every edge.
const AnnounceSubject = "billing.announce"

// SourcesSubject carries SourceCounts messages between the edges.
const SourcesSubject = "edges.sources"

// Answers to an edge's batches go to its own subjects, in the order of decision.

// VerdictSubject carries VerdictBatch messages to the source.
func VerdictSubject(source string) string { return "edge." + source + ".verdict" }

// CommandOutcomeSubject carries CommandOutcomeBatch messages to the source.
func CommandOutcomeSubject(source string) string { return "edge." + source + ".command" }

// OutcomeSubject carries a domain's OutcomeBatch messages to the source.
func (d Domain) OutcomeSubject(source string) string {
	return "edge." + source + ".outcome." + string(d)
}

// AnswerSubjects matches every subject with answers to the source.
func AnswerSubjects(source string) string { return "edge." + source + ".>" }
