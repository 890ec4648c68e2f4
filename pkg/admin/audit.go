package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
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
	Partition    int    `json:"partition"`
	LastSequence uint64 `json:"lastSequence"`
	Entries      uint64 `json:"entries"`
	LiveHash     string `json:"liveHash"`
	ReplayHash   string `json:"replayHash"`
	Match        bool   `json:"match"`
	Chain        string `json:"chain"` // head of the chain over the messages
	Time         string `json:"time"`  // of the last message
	HeadChain    string `json:"headChain"`
}

// Head is the head of a partition's chain: the chain over the messages up to a sequence. Sequences begin at 1 without a gap, so
// that it is also their number.
type Head struct {
	Partition int    `json:"partition"`
	Sequence  uint64 `json:"sequence"`
	Chain     string `json:"chain"` // in hex
	Time      string `json:"time"`  // of the last message, RFC 3339
}

// askAgain is the delay before polling for a slow result.
const askAgain = time.Second

// Audit replays all billing journals and waits for the result, bounded by ctx only. It calls progress when the audit outlasts
// the server's limit for one call. AuditPartition.HeadChain is the replayed chain at the sequence of the partition's head.
func (c Client) Audit(ctx context.Context, progress func(done, total uint64), heads ...Head) (Audit, error) {
	var audit Audit
	query := headsQuery(heads)
	err := c.Call(ctx, http.MethodPost, "/api/admin/audit"+query, nil, &audit)
	for err == nil && audit.Match == nil {
		progress(audit.Done, audit.Total)
		if !wait.For(ctx, askAgain) {
			return audit, ctx.Err()
		}
		path := "/api/admin/audits/" + url.PathEscape(audit.ID) + query
		audit = Audit{}
		err = c.Call(ctx, http.MethodGet, path, nil, &audit)
	}
	return audit, err
}

func headsQuery(heads []Head) string {
	if len(heads) == 0 {
		return ""
	}
	var list []string
	for _, h := range heads {
		list = append(list, fmt.Sprintf("%d:%d", h.Partition, h.Sequence))
	}
	return "?heads=" + url.QueryEscape(strings.Join(list, ","))
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
