package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"quire.dev/pkg/wait"
)

// Audit is the result of replaying all billing journals.
type Audit struct {
	ID         string           `json:"id"`
	Done       uint64           `json:"done"` // messages
	Total      uint64           `json:"total"`
	Restarted  bool             `json:"restarted"`
	Match      *bool            `json:"match"` // nil: still running
	Partitions []AuditPartition `json:"partitions"`
}

// AuditPartition is the replay of one partition.
type AuditPartition struct {
	Partition        int               `json:"partition"`
	FromSequence     uint64            `json:"fromSequence"` // only what is new since this message was audited; 0: everything
	LastSequence     uint64            `json:"lastSequence"`
	Entries          uint64            `json:"entries"`
	LiveHash         string            `json:"liveHash"` // empty: the live state was not hashed
	ReplayHash       string            `json:"replayHash"`
	Match            bool              `json:"match"`
	Chain            string            `json:"chain"` // head of the chain over the messages
	Time             string            `json:"time"`  // of the last message
	HeadChain        string            `json:"headChain"`
	ComparedSequence uint64            `json:"comparedSequence"` // of the read model; 0: it was not compared
	Tables           []AuditTable      `json:"tables"`
	Differences      []AuditDifference `json:"differences"` // the first ones
	Losses           []AuditLoss       `json:"losses"`      // oldest first
}

// AuditLoss is a range of messages that a journal of documents has lost, accepted by an operator.
type AuditLoss struct {
	Journal    string `json:"journal"`
	First      uint64 `json:"first"` // sequences
	Last       uint64 `json:"last"`
	Projected  bool   `json:"projected"` // the read model has what they changed
	AcceptedBy string `json:"acceptedBy"`
	AcceptedAt string `json:"acceptedAt"` // by the journal's clock
	Sequence   uint64 `json:"sequence"`   // of the message of this partition's billing journal that records it
}

// AuditTable counts what was compared in a table.
type AuditTable struct {
	Table       string `json:"table"`
	Rows        uint64 `json:"rows"`
	Differences uint64 `json:"differences"`
	More        bool   `json:"more"` // at least as many differences
	Repaired    uint64 `json:"repaired"`
}

// AuditDifference is a field of a row that is not what the journal says.
type AuditDifference struct {
	Table    string `json:"table"`
	Account  string `json:"account"`
	Row      string `json:"row"`
	Field    string `json:"field"` // empty: the row as a whole
	Expected string `json:"expected"`
	Found    string `json:"found"`
}

// AuditOptions choose what an audit compares. Empty fields leave it to the server.
type AuditOptions struct {
	Account   string
	Partition string
	Until     uint64
	Deep      bool
	New       bool            // only what is new since the last complete audit that matched
	Resume    string          // id of an interrupted audit with the same other options; empty: start another one
	Begun     func(id string) // called if the audit takes longer than a second; nil: nobody needs the id
	Heads     []Head          // for AuditPartition.HeadChain, the replayed chain at the sequence of the partition's head
}

// Head is the head of a partition's chain: the chain over the messages up to a sequence. Sequences begin at 1 without a gap, so
// that it is also their number.
type Head struct {
	Partition int    `json:"partition"`
	Sequence  uint64 `json:"sequence"`
	Chain     string `json:"chain"` // in hex
	Time      string `json:"time"`  // of the last message, RFC 3339
}

// askAgain is the longest delay before polling for a slow result.
const askAgain = time.Second

// Audit replays the billing journals and waits for the result, bounded by ctx and by five minutes without a response. It calls progress
// between polls. If all instances of billing restart, it resumes the audit, five times at most. With an error the result has the id of
// the audit, if it began.
func (c Client) Audit(ctx context.Context, o AuditOptions, progress func(done, total uint64)) (Audit, error) {
	query := url.Values{}
	o.set(query)
	if o.Until != 0 {
		query.Set("until", strconv.FormatUint(o.Until, 10))
	}
	for name, set := range map[string]bool{"deep": o.Deep, "new": o.New} {
		if set {
			query.Set(name, "true")
		}
	}
	if len(o.Heads) > 0 {
		var list []string
		for _, h := range o.Heads {
			list = append(list, fmt.Sprintf("%d:%d", h.Partition, h.Sequence))
		}
		query.Set("heads", strings.Join(list, ","))
	}
	return c.audit(ctx, query, o, progress)
}

// RepairTables are the tables that Repair takes.
func RepairTables() []string {
	return []string{"ledger", "days", "statements", "events", "adminLog", "snapshots"}
}

// Repair is an audit of one table that writes the differing rows again. Of the options it uses the account and the partition.
func (c Client) Repair(ctx context.Context, table string, o AuditOptions, progress func(done, total uint64)) (Audit, error) {
	scope := url.Values{}
	o.set(scope)
	query := maps.Clone(scope)
	query.Set("table", table)
	var audit Audit
	err := c.Call(ctx, http.MethodPost, withQuery("/api/admin/repair", query), nil, &audit)
	for err == nil && audit.Match == nil {
		progress(audit.Done, audit.Total)
		if !wait.For(ctx, askAgain) {
			return audit, ctx.Err()
		}
		audit, err = c.poll(ctx, scope, audit.ID)
	}
	return audit, err
}

func (o AuditOptions) set(query url.Values) {
	for name, value := range map[string]string{"account": o.Account, "partition": o.Partition} {
		if value != "" {
			query.Set(name, value)
		}
	}
}

const (
	auditPath = "/api/admin/audit"
	// silence is how long polls may fail in a row, such as while billing restarts.
	silence = 5 * time.Minute
	// retry is the longest delay after a poll that has failed.
	retry = 5 * time.Second
	// blip is how long polls may fail with a status of 500 or above before the audit itself may have failed, and is resumed.
	blip = 15 * time.Second
	// maxResumes is how often an audit is resumed: it may be what stops billing.
	maxResumes = 5
)

// Resumable reports whether an audit with these options saves its progress, and can be resumed.
func (o AuditOptions) Resumable() bool { return o.Account == "" && o.Until == 0 && !o.New }

// audit starts an audit, and polls it until it ends.
func (c Client) audit(ctx context.Context, query url.Values, o AuditOptions, progress func(done, total uint64)) (Audit, error) {
	audit, err := c.begin(ctx, query, o.Resume)
	if err != nil {
		return Audit{ID: o.Resume}, err
	}
	left := 0 // resumes
	if o.Resumable() {
		left = maxResumes
	}
	answered, resuming := time.Now(), false
	for pause := askAgain / 32; audit.Match == nil; {
		progress(audit.Done, audit.Total)
		if o.Begun != nil && pause >= askAgain {
			o.Begun(audit.ID)
			o.Begun = nil
		}
		if !wait.For(ctx, pause) {
			return audit, ctx.Err()
		}
		ask := c.poll
		if resuming {
			ask = c.begin
		}
		limited, cancel := context.WithDeadline(ctx, answered.Add(silence))
		next, err := ask(limited, query, audit.ID)
		cancel()
		switch status := statusOf(err); {
		case err == nil:
			if resuming {
				left--
			}
			audit, answered, resuming, pause = next, time.Now(), false, min(2*pause, askAgain)
		case status == http.StatusNotFound && !resuming && left > 0: // all instances of billing have restarted
			resuming = true
		case status != 0 && status < http.StatusInternalServerError, time.Since(answered) >= silence:
			return audit, err
		default: // without a response, or with a failure
			resuming, pause = status != 0 && !resuming && left > 0 && time.Since(answered) > blip, min(2*pause, retry)
		}
	}
	return audit, nil
}

// statusOf is the status of a response that is an error; 0: there was no response.
func statusOf(err error) int {
	if refused := (*Failure)(nil); errors.As(err, &refused) {
		return refused.Status
	}
	return 0
}

func (c Client) poll(ctx context.Context, query url.Values, id string) (audit Audit, err error) {
	err = c.Call(ctx, http.MethodGet, withQuery("/api/admin/audits/"+url.PathEscape(id), query), nil, &audit)
	return audit, err
}

// begin starts an audit, or resumes the one with an id, without waiting for its end.
func (c Client) begin(ctx context.Context, query url.Values, id string) (audit Audit, err error) {
	if id != "" {
		query = maps.Clone(query)
		query.Set("resume", id)
	}
	err = c.call(ctx, http.MethodPost, withQuery(auditPath, query), http.Header{"Prefer": {"respond-async"}}, nil, &audit)
	return audit, err
}

func withQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// Explain returns the API's explanation of a request, bounded by ctx only. progress is as in Audit.
func (c Client) Explain(ctx context.Context, request string, progress func(done, total uint64)) (json.RawMessage, error) {
	for {
		var answer json.RawMessage
		if err := c.Call(ctx, http.MethodGet, "/api/admin/requests/"+url.PathEscape(request), nil, &answer); err != nil {
			return nil, err
		}
		var pending struct {
			Request     json.RawMessage
			Done, Total uint64
		}
		if err := json.Unmarshal(answer, &pending); err != nil || pending.Request != nil {
			return answer, err
		}
		progress(pending.Done, pending.Total)
		if !wait.For(ctx, askAgain) {
			return nil, ctx.Err()
		}
	}
}
