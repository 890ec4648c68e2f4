package proofs

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/proof"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

const (
	// maxBills is how many proofs of bills are made or sent at a time: each may have maxEntries, and is in memory until it is sent.
	maxBills   = 4
	maxEntries = 250_000
	entryPage  = 1000
	// retrySeal is about how long a seal takes to come into the log.
	retrySeal = 60
)

// billView is the extra data in the proof of a bill. docs/proof.md specifies it.
type billView struct {
	Account     string           `json:"account"`
	Period      string           `json:"period"`
	Seal        messageView      `json:"seal"`
	Receipt     *receiptView     `json:"receipt,omitempty"`
	Absent      *leafView        `json:"absent,omitempty"`
	Statement   *statementView   `json:"statement,omitempty"`
	Entries     *entriesView     `json:"entries,omitempty"`
	Books       []bookView       `json:"books"`
	Consistency *consistencyView `json:"consistency,omitempty"`
}

type messageView struct {
	Partition int    `json:"partition"`
	Sequence  string `json:"sequence"`
	Time      string `json:"time"` // Unix nanoseconds
	Subject   string `json:"subject"`
	Data      []byte `json:"data"`
}

type stepView struct {
	Bit  uint32   `json:"bit"`
	Hash string   `json:"hash"`
	Sums []string `json:"sums"`
}

type receiptView struct {
	Number string     `json:"number"`
	Hash   string     `json:"hash"`
	Path   []stepView `json:"path"`
}

type leafView struct {
	Key     string     `json:"key"`
	Sums    []string   `json:"sums"`
	Content string     `json:"content"`
	Path    []stepView `json:"path"`
}

type statementView struct {
	Text string     `json:"text"`
	Path []stepView `json:"path"`
}

type entriesView struct {
	First  string `json:"first"`
	Before string `json:"before"`
	Data   []byte `json:"data"`
}

type bookView struct {
	Index  string   `json:"index"`
	Hashes []string `json:"hashes"`
	messageView
}

type consistencyView struct {
	Size   string   `json:"size"`
	Root   string   `json:"root"`
	Hashes []string `json:"hashes"`
}

// bill answers with the proof of a month.
func (s *Proofs) bill(c *endpoint.Call) error {
	period := c.Param("period")
	start, err := accounts.ParsePeriod(period)
	if err != nil {
		return err
	}
	since := uint64(0)
	if err := input.QueryFields(c.Ctx, input.Fields{"since": input.To(&since, input.CountField(math.MaxInt64))}.Set); err != nil {
		return err
	}
	if err := s.CheckHolder(c); err != nil {
		return err
	}
	id := c.Who.Account
	release, err := s.begin(id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, billTimeout)
	defer cancel()
	sends := false
	defer func() {
		if !sends {
			release()
		}
	}()
	data, err := s.proveBill(ctx, id, period, start, since)
	if err != nil {
		return asFault(err)
	}
	sends = true
	c.Set(fiber.HeaderContentType, fiber.MIMETextPlainCharsetUTF8)
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderContentDisposition, `attachment; filename="`+accounts.StatementNumber(id, period)+`.tlog-proof"`)
	s.send(c, data, release)
	return nil
}

// asFault tells a client that no seal is in the log yet, and that a store failed.
func asFault(err error) error {
	var known *fault.Error
	var input *httperr.Error
	switch {
	case errors.As(err, &known), errors.As(err, &input):
		return err
	case errors.Is(err, proof.ErrNoLog), errors.Is(err, proof.ErrNotLogged):
		later := fault.New(fault.Unavailable, "The log does not have a seal with this month yet. Try again in a minute.")
		later.RetryAfter = retrySeal
		return later
	}
	return endpoint.Unavailable(err)
}

// proveBill returns the proof of an account's month, which begins at start. since is the size of a log that it continues; 0: none.
func (s *Proofs) proveBill(ctx context.Context, id event.AccountID, period string, start time.Time, since uint64) ([]byte, error) {
	l, err := proof.OpenLog(ctx, s.blobs)
	if err != nil {
		return nil, err
	}
	if since > num.Uint64(l.Tree.N) {
		return nil, httperr.OverLimit("since", l.Tree.N, fmt.Sprintf("must be a size that the log had: it has %d entries", l.Tree.N))
	}
	partition := event.AccountPartition(id, s.partitions)
	logged, err := l.LastOf(ctx, partition)
	if err != nil {
		return nil, err
	}
	answer, err := s.Query(id, &event.Query{Query: &event.Query_Proof{Proof: &event.ProofQuery{Period: period, Logged: logged}}})
	if err != nil {
		return nil, err
	}
	a := answer.GetProof()
	if a.GetSeal() == nil {
		return nil, proof.ErrNotLogged
	}
	view := billView{Account: id.String(), Period: period, Seal: viewMessage(partition, a.Seal), Books: []bookView{}}
	if a.Statement != nil {
		view.Statement = &statementView{Text: string(a.StatementText), Path: viewPath(a.Statement)}
	}
	if err := s.addReceipt(ctx, id, start, a.Receipt, &view); err != nil {
		return nil, err
	}
	for _, book := range a.Books {
		index, hashes, err := l.Include(ctx, entryOf(partition, book))
		if err != nil {
			return nil, err
		}
		view.Books = append(view.Books, bookView{strconv.FormatInt(index, 10), hexes(hashes), viewMessage(partition, book)})
	}
	if since > 0 {
		root, hashes, err := l.Continue(ctx, num.Int64(since))
		if err != nil {
			return nil, err
		}
		view.Consistency = &consistencyView{strconv.FormatUint(since, 10), hex.EncodeToString(root[:]), hexes(hashes)}
	}
	return s.write(ctx, l, entryOf(partition, a.Seal), &view)
}

// write writes a proof in the format of c2sp.org/tlog-proof.
func (s *Proofs) write(ctx context.Context, l *proof.Published, seal proof.Message, view *billView) ([]byte, error) {
	index, hashes, err := l.Include(ctx, seal)
	if err != nil {
		return nil, err
	}
	extra, err := json.Marshal(view)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "c2sp.org/tlog-proof@v1\nextra %s\nindex %d\n", base64.StdEncoding.EncodeToString(extra), index)
	for _, hash := range hashes {
		fmt.Fprintln(&out, hash)
	}
	out.WriteByte('\n')
	out.Write(l.Checkpoint)
	return out.Bytes(), nil
}

// addReceipt adds the account's leaf of the accounts tree, and the entries up to it. If the account has no leaf, it adds the leaf that the
// account's key leads to, which proves the absence.
func (s *Proofs) addReceipt(ctx context.Context, id event.AccountID, start time.Time, leaf *event.TreeLeaf, view *billView) error {
	key := proof.KeyOf(uint64(id))
	switch {
	case leaf == nil:
		return nil
	case !bytes.Equal(leaf.Key, key[:]):
		view.Absent = &leafView{hex.EncodeToString(leaf.Key), decimals(leaf.Sums), hex.EncodeToString(leaf.Content), viewPath(leaf)}
		return nil
	}
	number := leaf.Sums[0]
	view.Receipt = &receiptView{strconv.FormatUint(number, 10), hex.EncodeToString(leaf.Content), viewPath(leaf)}
	first, err := s.firstEntry(id, start, number)
	if err != nil || first == 0 || number-first >= maxEntries {
		return err
	}
	entries := &entriesView{First: strconv.FormatUint(first, 10)}
	for after := first - 1; after < number; {
		page, err := s.entriesAfter(id, after, min(entryPage, number-after))
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if after == first-1 {
			entries.Before = hex.EncodeToString(page.AfterHash)
		}
		entries.Data = append(entries.Data, page.Entries...)
		after += uint64(len(page.Entries) / event.EntryBytes)
	}
	view.Entries = entries
	return nil
}

// firstEntry returns the number of the last kept entry from before a month, up to a number, or else of the first kept one; 0: none is kept.
func (s *Proofs) firstEntry(id event.AccountID, start time.Time, number uint64) (uint64, error) {
	page, err := s.entries(id, &event.EntriesQuery{Limit: 1})
	if err != nil || page.Kept == 0 || page.Kept > number {
		return 0, err
	}
	month := num.Uint32(start.Year()*100 + int(start.Month()))
	low, high := page.Kept, number // the first is from before the month, or the first one
	for low < high {
		middle := low + (high-low+1)/2
		page, err := s.entriesAfter(id, middle-1, 1)
		if err != nil {
			return 0, err
		}
		e := event.DecodeEntry((*[event.EntryBytes]byte)(page.Entries))
		if e.TimeMs < start.UnixMilli() && e.Month < month {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low, nil
}

// entriesAfter returns at least one entry of a list whose beginning was read before.
func (s *Proofs) entriesAfter(id event.AccountID, after, limit uint64) (*event.EntriesAnswer, error) {
	page, err := s.entries(id, &event.EntriesQuery{After: &after, Limit: num.Uint32(limit), Continued: true})
	if err == nil && (len(page.Entries) < event.EntryBytes || len(page.Entries)%event.EntryBytes != 0) {
		err = endpoint.Unavailable(endpoint.ErrQueryAnswer)
	}
	return page, err
}

func (s *Proofs) entries(id event.AccountID, q *event.EntriesQuery) (*event.EntriesAnswer, error) {
	a, err := s.Query(id, &event.Query{Query: &event.Query_Entries{Entries: q}})
	if err != nil {
		return nil, err
	}
	if a.GetEntries() == nil {
		return nil, endpoint.Unavailable(endpoint.ErrQueryAnswer)
	}
	return a.GetEntries(), nil
}

func entryOf(partition int, m *event.LoggedMessage) proof.Message {
	return proof.Digest(partition, m.Sequence, time.Unix(0, m.TimeNs).UTC(), m.Subject, m.Data)
}

func viewMessage(partition int, m *event.LoggedMessage) messageView {
	return messageView{partition, strconv.FormatUint(m.Sequence, 10), strconv.FormatInt(m.TimeNs, 10), m.Subject, m.Data}
}

func viewPath(leaf *event.TreeLeaf) []stepView {
	path := make([]stepView, len(leaf.Path))
	for i, step := range leaf.Path {
		path[i] = stepView{step.Bit, hex.EncodeToString(step.Hash), decimals(step.Sums)}
	}
	return path
}

func decimals(sums []uint64) []string {
	list := make([]string, len(sums))
	for i, n := range sums {
		list[i] = strconv.FormatUint(n, 10)
	}
	return list
}

func hexes[H ~[32]byte](hashes []H) []string {
	list := make([]string, len(hashes))
	for i, h := range hashes {
		list[i] = hex.EncodeToString(h[:])
	}
	return list
}
