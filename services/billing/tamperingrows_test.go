package billing_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/sqlite/sqlitetest"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/projection"
	"quire.dev/services/billing/internal/webhooks"
)

type (
	rows = []sqlitetest.Row
	// reading is what an audit and all readers read of a table, by place. What is no part of it may be edited without effect.
	reading map[place]content
)

// place is what an audit reads under one id: a document, or a request in blocks.
type place struct {
	account uint64
	id      string
}

type content struct {
	text string
	// An audit names the place by one of these rows, or by a number.
	names       []string
	first, last uint64
	millis      int64 // of a request
	oldest      bool  // of the account's blocks of entries: it may be deleted
}

// tampered is a table of the read model that is tampered with.
type tampered struct {
	table, collection string
	message           func() proto.Message // of a head; nil: its documents are blocks
	number            func(string) (uint64, bool)
	read              func(*readModel, rows) reading
}

// readModel is what is known of the read model that is tampered with.
type readModel struct {
	accounts map[uint64]bool
	end      uint64 // of the journal
	from, to string // months that may be closed
	parts    bool   // an audit folds the accounts in parts, and does not know the ordinals of entries and events
}

func tamperedTables() []tampered {
	return []tampered{
		{table: "ledger", collection: projection.Ledger, message: func() proto.Message { return &event.LedgerEntry{} }, read: (*readModel).ledger, number: ledgerNumber},
		{table: "days", collection: projection.Days, message: func() proto.Message { return &event.UsageDay{} }, read: (*readModel).days},
		{table: "statements", collection: projection.Statements, message: func() proto.Message { return &event.StatementAnswer{} }, read: (*readModel).statements},
		{table: "events", collection: webhooks.AlertsCollection, message: func() proto.Message { return &event.Alert{} }, read: (*readModel).events},
		{table: "adminLog", collection: projection.AdminLog, message: func() proto.Message { return &event.AdminEntry{} }, read: (*readModel).adminLog},
		{table: "agedLedger", collection: projection.Aged, read: (*readModel).aged, number: ledgerNumber},
		{table: "requests", collection: projection.Requests, read: (*readModel).requests},
		{table: "entries", collection: projection.Entries, read: (*readModel).entries, number: func(row string) (uint64, bool) {
			n, err := strconv.ParseUint(row, 10, 64)
			return n, err == nil
		}},
	}
}

// ledgerNumber is the message of a row of the ledger. An audit in parts names it by its message and number among those of that.
func ledgerNumber(row string) (uint64, bool) {
	if owner, rest, found := strings.Cut(row, "."); found && ownerOf(owner) != 0 && len(owner) == 11 {
		row = rest
	}
	for _, id := range []string{row, row + "000000"} {
		if account.ValidLedgerID(id) {
			return account.LedgerSequence(id), true
		}
	}
	message, _, _ := strings.Cut(row, ".")
	n, err := strconv.ParseUint(message, 10, 64)
	return n, err == nil
}

// ranked reads rows of a table whose ids end with ordinals that an audit in parts does not know: by their messages.
func ranked(list rows, show func(views.Doc) bool, head func([]byte) string) reading {
	list = slices.DeleteFunc(slices.Clone(list), func(row sqlitetest.Row) bool { return row.Gone != 0 || !show(row.Doc) })
	slices.SortFunc(list, func(a, b sqlitetest.Row) int {
		return cmp.Or(a.Doc.Keys.Get("position").Compare(b.Doc.Keys.Get("position")), cmp.Compare(a.Doc.ID, b.Doc.ID))
	})
	r := reading{}
	for _, row := range list {
		doc, owner := row.Doc, ownerOf(row.Doc.ID)
		at := place{uint64(owner), fmt.Sprint("message ", doc.Seq)}
		c := r[at]
		position, _ := doc.Keys.Get("position").Any().(string)
		c.text += fmt.Sprintln(account.WithoutLedgerOrdinal(doc.ID), account.WithoutLedgerOrdinal(position), doc.Keys.Get("account"), doc.Keys.Get("expires"), head(doc.Head))
		c.names = append(c.names, doc.ID, doc.ID[min(len(doc.ID), 12):])
		for _, id := range entryIDs(doc) {
			c.names = append(c.names, account.WithoutLedgerOrdinal(id))
		}
		for n := range len(list) { // its number among those of the message
			c.names = append(c.names, fmt.Sprintf("%d.%d", doc.Seq, n), fmt.Sprintf("%s.%d.%d", doc.ID[:min(len(doc.ID), 11)], doc.Seq, n))
		}
		c.first, c.last = doc.Seq, doc.Seq
		r[at] = c
	}
	return r
}

// encoded shows a message after a change, or what can't be decoded.
func encoded[M event.Message](data []byte, m M, change func(M)) string {
	if event.Decode(data, m) != nil {
		return fmt.Sprintf("%x", data)
	}
	change(m)
	again, err := event.Encode(m)
	return fmt.Sprintf("%x %v", again, err)
}

// documents reads rows of a table by id, unless they are deleted or show says that nobody reads them. text is what is read of one.
func documents(list rows, show func(views.Doc) bool, text func(views.Doc) string, names func(views.Doc) []string) reading {
	r := reading{}
	for _, row := range list {
		if row.Gone != 0 || !show(row.Doc) {
			continue
		}
		at := place{uint64(ownerOf(row.Doc.ID)), row.Doc.ID}
		c := r[at]
		c.text += text(row.Doc) + "\n"
		c.names = append(c.names, row.Doc.ID, row.Doc.ID[min(len(row.Doc.ID), 12):])
		if names != nil {
			c.names = append(c.names, names(row.Doc)...)
		}
		r[at] = c
	}
	return r
}

// ownerOf is the account with which an id begins; 0: none.
func ownerOf(id string) event.AccountID {
	owner, _ := event.ParseAccountID(id[:min(len(id), 11)])
	return owner
}

// keyed is the account of a key.
func (m *readModel) keyed(doc views.Doc) (uint64, bool) {
	key, _ := doc.Keys.Get("account").Any().(string)
	id, err := event.ParseAccountID(key)
	return uint64(id), err == nil && m.accounts[uint64(id)]
}

// isListed reports whether a document is listed by account and position.
func (m *readModel) isListed(doc views.Doc) bool {
	_, known := m.keyed(doc)
	return known && has(doc, "position")
}

func has(doc views.Doc, key string) bool {
	_, found := doc.Keys.Find(key)
	return found
}

func wholeText(doc views.Doc) string { return fmt.Sprintf("%d %v %x", doc.Seq, doc.Keys, doc.Head) }

func (m *readModel) ledger(list rows) reading {
	if m.parts {
		return ranked(list, m.isListed, func(head []byte) string {
			return encoded(head, &event.LedgerEntry{}, func(e *event.LedgerEntry) {
				for _, e := range append(e.Later, e) {
					e.Id = account.WithoutLedgerOrdinal(e.Id)
				}
			})
		})
	}
	return documents(list, m.isListed, wholeText, entryIDs)
}

// entryIDs are the ids of a row's entries.
func entryIDs(doc views.Doc) (ids []string) {
	entries, _ := projection.LedgerEntries(doc.Head)
	for _, e := range entries {
		ids = append(ids, e.Id)
	}
	return ids
}

func (m *readModel) days(list rows) reading {
	return documents(list, func(doc views.Doc) bool {
		return doc.Keys.Get("stream") == views.String("BILLING_0") && has(doc, "day")
	}, func(doc views.Doc) string {
		day := &event.UsageDay{}
		if (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(doc.Head, day) != nil {
			return "unreadable"
		}
		return fmt.Sprint(doc.Seq > m.end, doc.Keys, day)
	}, func(doc views.Doc) []string {
		day, _ := strconv.ParseInt(doc.ID[min(len(doc.ID), 12):], 10, 64)
		return []string{time.UnixMilli(day * dayMillis).UTC().Format(time.DateOnly), "1970-01-01"}
	})
}

func (m *readModel) statements(list rows) reading {
	return documents(list, func(doc views.Doc) bool {
		_, period, _ := strings.Cut(doc.ID, ".")
		_, err := time.Parse("2006-01", period)
		return m.accounts[uint64(ownerOf(doc.ID))] && period >= m.from && period <= m.to && err == nil && len(doc.ID) == len("00000000001.2006-01")
	}, wholeText, nil)
}

func (m *readModel) events(list rows) reading {
	if m.parts {
		return ranked(list, m.isListed, func(head []byte) string {
			return encoded(head, &event.Alert{}, func(a *event.Alert) { a.Position = account.WithoutLedgerOrdinal(a.Position) })
		})
	}
	return documents(list, m.isListed, wholeText, nil)
}

func (m *readModel) adminLog(list rows) reading {
	r := documents(list, func(doc views.Doc) bool {
		return doc.Keys.Get("stream") == views.String("BILLING_0") && has(doc, "position")
	}, wholeText, nil)
	all := reading{}
	for at, c := range r {
		at.account = 0
		all[at] = c
	}
	return all
}

// blockRows are the blocks that are read of each account, in the order of reading.
func (m *readModel) blockRows(list rows, position string) map[uint64][]views.Doc {
	byAccount := map[uint64][]views.Doc{}
	for _, row := range list {
		stream, others := row.Doc.Keys.Find("stream")
		others = others && stream != views.String("BILLING_0") || !others && position != "position"
		if id, known := m.keyed(row.Doc); known && has(row.Doc, position) && row.Doc.Keys.Get(position).Int64() >= 0 && row.Gone == 0 && !others {
			byAccount[id] = append(byAccount[id], row.Doc)
		}
	}
	for _, docs := range byAccount {
		slices.SortFunc(docs, func(a, b views.Doc) int {
			return cmp.Or(cmp.Compare(a.Seq, b.Seq), a.Keys.Get(position).Compare(b.Keys.Get(position)), cmp.Compare(a.ID, b.ID))
		})
	}
	return byAccount
}

// unique reports whether rows have different ids.
func unique(list rows) bool {
	ids := map[string]bool{}
	for _, row := range list {
		ids[row.Doc.ID] = true
	}
	return len(ids) == len(list)
}

// unpacked is what a block has, or nothing if it is damaged.
func unpacked(doc views.Doc) []byte {
	d, err := zstd.NewReader(nil)
	if err != nil {
		return nil
	}
	defer d.Close()
	data, err := d.DecodeAll(doc.Body, nil)
	if err != nil {
		return nil
	}
	return data
}

func (m *readModel) aged(list rows) reading {
	r := reading{}
	for id, docs := range m.blockRows(list, "position") {
		for _, doc := range docs {
			position, _ := doc.Keys.Get("position").Any().(string)
			body := unpacked(doc)
			if m.parts && len(body) > 0 {
				body = []byte("read, with ordinals that an audit in parts does not compare")
			}
			c := content{text: fmt.Sprintf("%s %x", position, body), names: []string{event.AccountID(id).String() + ".unreadable"}, last: math.MaxUint64}
			if first := doc.ID[min(len(doc.ID), 12):]; account.ValidLedgerID(first) && account.ValidLedgerID(position) && uint64(ownerOf(doc.ID)) == id {
				c.first, c.last = account.LedgerSequence(first), account.LedgerSequence(position)
			}
			if at := (place{id, position}); r[at].text != c.text { // one that is there twice has no further rows
				c.text = r[at].text + c.text
				r[at] = c.or(r[at])
			}
		}
	}
	return r
}

func (m *readModel) entries(list rows) reading {
	r := reading{}
	for id, docs := range m.blockRows(list, "number") {
		before := int64(-1)
		for _, doc := range docs {
			last := doc.Keys.Get("number").Int64()
			first := last - int64(len(unpacked(doc))/event.EntryBytes) + 1
			follows := before < 0 || before == first-1
			c := content{
				text: fmt.Sprintf("%v %v %x", follows, doc.Seq > m.end, unpacked(doc)), names: []string{doc.ID}, last: math.MaxUint64, oldest: before < 0,
			}
			if uint64(ownerOf(doc.ID)) == id {
				c.first, c.last = uint64(max(0, first-2)), uint64(max(0, last+1))
			}
			at := place{id, strconv.FormatInt(last, 10)}
			c.text += r[at].text
			r[at] = c.or(r[at])
			before = last
		}
	}
	return r
}

func (m *readModel) requests(list rows) reading {
	r := reading{}
	for id, docs := range m.blockRows(list, "time") {
		damaged := func(doc views.Doc, why any) {
			r[place{id, doc.ID}] = content{text: fmt.Sprint(why), names: []string{doc.ID}, millis: math.MaxInt64}
		}
		newest := int64(0)
		list, _ := projection.JoinBlocks(docs, func(_ views.Doc, q *event.RecentRequest) bool {
			newest = max(newest, q.TimeMs)
			return true
		}, func(doc views.Doc, err error) {
			switch at := doc.Keys.Get("time").Int64(); {
			case err != nil:
				damaged(doc, err)
			case doc.Seq > m.end:
				damaged(doc, doc.Seq)
			case at != newest:
				damaged(doc, at)
			}
			newest = 0
		})
		for request, q := range list {
			if projection.Decided(q) {
				q = &event.RecentRequest{
					TimeMs: q.TimeMs, QuotaKey: q.QuotaKey, Key: q.Key, Decision: q.Decision, Held: q.Held, Status: q.Status, Charge: q.Charge,
					CostMicros: q.CostMicros, Remaining: q.Remaining,
				}
				r[place{id, request.String()}] = content{text: q.String(), names: []string{request.String()}, millis: q.TimeMs}
			}
		}
	}
	return r
}

// differs are the places at which two readings differ, and must those of which an audit has to name at least one.
func (r reading) differs(after reading) (all, must reading) {
	all, must = reading{}, reading{}
	moved := false
	first := map[uint64]int64{} // request of an account
	for at, c := range after {
		if now, found := first[at.account]; !found || c.millis < now {
			first[at.account] = c.millis
		}
	}
	for at, was := range r {
		is, found := after[at]
		if found && was.text == is.text {
			continue
		}
		all[at] = was.or(is)
		_, left := first[at.account]
		if found || !was.oldest && (was.millis == 0 || left && was.millis >= first[at.account]) {
			must[at] = all[at]
		}
	}
	for at, is := range after {
		if _, found := r[at]; !found {
			all[at], must[at], moved = is, is, true
		}
	}
	if moved { // elsewhere others are missing then
		for at, c := range all {
			c.first, c.last = 0, math.MaxUint64
			all[at] = c
		}
	}
	return all, must
}

// or is the content with what names the other one too.
func (c content) or(other content) content {
	if other.text != "" {
		c.names, c.first, c.last = slices.Concat(c.names, other.names), min(c.first, other.first), max(c.last, other.last)
	}
	return c
}
