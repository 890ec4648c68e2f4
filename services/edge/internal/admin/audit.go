package admin

import (
	"context"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	api "quire.dev/pkg/admin"
	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

const (
	// auditWait is how long the call that starts an audit waits for its end.
	auditWait = time.Minute
	auditPath = "/api/admin/audits/"

	respondAsync = "respond-async" // RFC 7240
)

type auditView struct {
	endpoint.Success
	ID         string               `json:"id"`
	Done       uint64               `json:"done"`
	Total      uint64               `json:"total"`
	Restarted  bool                 `json:"restarted"`
	Match      *bool                `json:"match,omitempty"` // nil: unfinished
	Partitions []auditPartitionView `json:"partitions"`
}

type auditPartitionView struct {
	Partition        uint32                `json:"partition"`
	FromSequence     uint64                `json:"fromSequence"`
	LastSequence     uint64                `json:"lastSequence"`
	Entries          uint64                `json:"entries"`
	LiveHash         string                `json:"liveHash"`
	ReplayHash       string                `json:"replayHash"`
	Match            bool                  `json:"match"`
	Chain            string                `json:"chain"`
	Time             string                `json:"time"`
	HeadChain        string                `json:"headChain,omitempty"`
	ComparedSequence uint64                `json:"comparedSequence"`
	Tables           []auditTableView      `json:"tables"`
	Differences      []auditDifferenceView `json:"differences"`
	Losses           []auditLossView       `json:"losses"`
}

// auditLossView is a range of messages that a journal of documents has lost.
type auditLossView struct {
	Journal    string `json:"journal"`
	First      uint64 `json:"first"`
	Last       uint64 `json:"last"`
	Projected  bool   `json:"projected"`
	AcceptedBy string `json:"acceptedBy"`
	AcceptedAt string `json:"acceptedAt"`
	Sequence   uint64 `json:"sequence"`
}

type auditTableView struct {
	Table       string `json:"table"`
	Rows        uint64 `json:"rows"`
	Differences uint64 `json:"differences"`
	More        bool   `json:"more"`
	Repaired    uint64 `json:"repaired"`
}

type auditDifferenceView struct {
	Table    string  `json:"table"`
	Account  *string `json:"account"`
	Row      string  `json:"row"`
	Field    string  `json:"field"`
	Expected string  `json:"expected"`
	Found    string  `json:"found"`
}

// auditBegunView is the answer to a call that does not wait.
type auditBegunView struct {
	endpoint.Success
	ID    string `json:"id"`
	Done  uint64 `json:"done"`
	Total uint64 `json:"total"`
}

// audit starts an audit. It waits for the end, at most a minute, unless the caller prefers not to.
func (s *Admin) audit(c *endpoint.Call) error {
	var id event.RequestID
	o, err := s.auditOptions(c, input.Fields{"resume": input.To(&id, auditID)})
	switch {
	case err != nil:
		return err
	case id == event.RequestID{}:
		id = event.NewRequestID()
	case o.New || o.Account != 0 || o.Until != 0:
		return httperr.InvalidField("resume", "can't be combined with new, account or until")
	}
	return s.runAudit(c, id, o)
}

// auditOptions reads the query of an audit, with other fields.
func (s *Admin) auditOptions(c *endpoint.Call, fields input.Fields) (o bus.AuditOptions, err error) {
	maps.Copy(fields, input.Fields{
		"account": input.To(&o.Account, auditAccount), "partition": input.To(&o.Partition, auditPartition),
		"until": input.To(&o.Until, input.CountField(math.MaxInt64)), "deep": input.To(&o.Deep, input.BoolField),
		"new": input.To(&o.New, input.BoolField), "heads": input.To(&o.Heads, s.headsField),
	})
	err = input.QueryFields(c.Ctx, fields.Set)
	if err == nil && o.New && (o.Account != 0 || o.Until != 0) {
		err = httperr.InvalidField("new", "can't be combined with account or until")
	}
	return o, err
}

func auditID(name string, v input.Value) (event.RequestID, error) {
	id, err := event.ParseRequestID(strings.ToLower(string(v.Text)))
	if err != nil || id == (event.RequestID{}) {
		return id, httperr.InvalidField(name, "must be the id of an audit")
	}
	return id, nil
}

// repair starts an audit that writes the differing rows of a table again.
func (s *Admin) repair(c *endpoint.Call) error {
	var o bus.AuditOptions
	err := input.QueryFields(c.Ctx, input.Fields{
		"table": input.To(&o.Repair, repairTable), "account": input.To(&o.Account, auditAccount), "partition": input.To(&o.Partition, auditPartition),
	}.Set)
	if err == nil && o.Repair == "" {
		err = httperr.InvalidField("table", "is required")
	}
	if err != nil {
		return err
	}
	return s.runAudit(c, event.NewRequestID(), o)
}

func repairTable(name string, v input.Value) (string, error) {
	if table := string(v.Text); slices.Contains(api.RepairTables(), table) {
		return table, nil
	}
	return "", httperr.NotAnOption(name, string(v.Text), api.RepairTables()...)
}

func auditAccount(name string, v input.Value) (event.AccountID, error) {
	id, err := event.ParseAccountID(string(v.Text))
	if err != nil {
		return 0, httperr.InvalidField(name, "must be an account id")
	}
	return id, nil
}

// auditPartition returns the number plus 1.
func auditPartition(name string, v input.Value) (int, error) {
	n, err := strconv.ParseUint(string(v.Text), 10, 16)
	if err != nil {
		return 0, httperr.InvalidField(name, "must be a partition number")
	}
	return int(n) + 1, nil
}

func (s *Admin) runAudit(c *endpoint.Call, id event.RequestID, o bus.AuditOptions) error {
	if prefersAsync(c.Ctx) {
		begun, err := s.AuditStarted(c, id, o)
		if err != nil {
			return err
		}
		c.Set("Preference-Applied", respondAsync)
		return s.auditBegun(c, id, begun)
	}
	if err := s.noteAudit(c, o); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, auditWait)
	defer cancel()
	audit, err := s.bus.Audit(ctx, id, o)
	switch {
	case err != nil:
		return err
	case !audit.Ended:
		return s.auditBegun(c, id, audit)
	}
	return s.JSON(c.Ctx, fiber.StatusOK, ViewAudit(id, audit))
}

// headsField reads the sequences at which the caller knows the chain of partitions, such as 0:120,1:98.
func (s *Admin) headsField(name string, v input.Value) (bus.Heads, error) {
	return parseHeads(name, string(v.Text), s.bus.Partitions())
}

func parseHeads(name, text string, partitions int) (bus.Heads, error) {
	heads := bus.Heads{}
	for head := range strings.SplitSeq(text, ",") {
		number, sequence, _ := strings.Cut(head, ":")
		partition, err1 := strconv.ParseUint(number, 10, 32)
		at, err2 := strconv.ParseUint(sequence, 10, 64)
		_, twice := heads[uint32(partition)]
		switch {
		case err1 != nil, err2 != nil, at == 0, twice:
			return nil, httperr.InvalidField(name, "must be a list of partition:sequence, such as 0:120,1:98, with sequences from 1 and no partition twice")
		case partition >= num.Uint64(partitions):
			return nil, httperr.InvalidField(name, "must have partitions from 0 to "+strconv.Itoa(partitions-1))
		}
		heads[uint32(partition)] = at
	}
	return heads, nil
}

// noteAudit records an audit, or a repair with its table.
func (s *Admin) noteAudit(c *endpoint.Call, o bus.AuditOptions) error {
	if o.Repair != "" {
		return s.note(c, uint64(o.Account), noteRepair, o.Repair)
	}
	return s.note(c, uint64(o.Account), noteAudit, "")
}

// AuditStarted starts an audit without waiting for its end.
func (s *Admin) AuditStarted(c *endpoint.Call, id event.RequestID, o bus.AuditOptions) (*bus.Audit, error) {
	if err := s.noteAudit(c, o); err != nil {
		return nil, err
	}
	return s.bus.BeginAudit(s.ctx, id, o)
}

func prefersAsync(c *fiber.Ctx) bool {
	for preference := range strings.SplitSeq(c.Get(endpoint.HeaderPrefer), ",") {
		name, _, _ := strings.Cut(preference, ";")
		if strings.EqualFold(strings.Trim(name, " \t"), respondAsync) {
			return true
		}
	}
	return false
}

func (s *Admin) auditBegun(c *endpoint.Call, id event.RequestID, audit *bus.Audit) error {
	c.Location(auditPath + id.String())
	c.Set(fiber.HeaderRetryAfter, "1")
	return s.JSON(c.Ctx, fiber.StatusAccepted, auditBegunView{Success: endpoint.Succeeded(), ID: id.String(), Done: audit.Done, Total: audit.Total})
}

// showAudit shows an audit, whichever edge started it.
func (s *Admin) showAudit(c *endpoint.Call) error {
	id, err := event.ParseRequestID(strings.ToLower(c.Params("id")))
	if err != nil {
		return endpoint.NotFound()
	}
	o, err := s.auditOptions(c, input.Fields{})
	if err != nil {
		return err
	}
	audit, err := s.bus.ReadAudit(s.ctx, id, o)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, ViewAudit(id, audit))
}

// ViewAudit shows an audit. It matches if every partition does.
func ViewAudit(id event.RequestID, audit *bus.Audit) auditView {
	out := auditView{
		Success: endpoint.Succeeded(), ID: id.String(), Done: audit.Done, Total: audit.Total, Restarted: audit.Again,
		Partitions: make([]auditPartitionView, 0, len(audit.Partitions)),
	}
	match := len(audit.Partitions) > 0
	for _, a := range audit.Partitions {
		match = match && a.Match
		out.Partitions = append(out.Partitions, viewPartition(a))
	}
	if audit.Ended {
		out.Match = &match
	}
	return out
}

func viewPartition(a *event.AuditAnswer) auditPartitionView {
	out := auditPartitionView{
		Partition: a.Partition, FromSequence: a.FromSequence, LastSequence: a.LastSequence, Entries: a.Entries,
		LiveHash: hex.EncodeToString(a.LiveHash), ReplayHash: hex.EncodeToString(a.ReplayHash), Match: a.Match,
		Chain: hex.EncodeToString(a.Chain), Time: endpoint.FormatTime(a.TimeMs), HeadChain: hex.EncodeToString(a.HeadChain),
		ComparedSequence: a.ComparedSequence,
		Tables:           make([]auditTableView, 0, len(a.Tables)), Differences: make([]auditDifferenceView, 0, len(a.Differences)),
		Losses: make([]auditLossView, 0, len(a.Losses)),
	}
	for _, l := range a.Losses {
		out.Losses = append(out.Losses, auditLossView{l.Stream, l.First, l.Last, l.Projected, l.Actor, endpoint.FormatTime(l.TimeMs), l.Sequence})
	}
	for _, t := range a.Tables {
		out.Tables = append(out.Tables, auditTableView{t.Table, t.Rows, t.Differences, t.More, t.Repaired})
	}
	for _, d := range a.Differences {
		v := auditDifferenceView{Table: d.Table, Row: d.Row, Field: d.Field, Expected: d.Expected, Found: d.Found}
		if d.Account != 0 {
			v.Account = new(event.AccountID(d.Account).String())
		}
		out.Differences = append(out.Differences, v)
	}
	return out
}
