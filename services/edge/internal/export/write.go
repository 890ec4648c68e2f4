package export

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/developer"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/kind"
)

// exporter writes the archive of one account. Its reads are free. A document deleted meanwhile may be missing.
type exporter struct {
	s           *Exports
	account     event.AccountID
	sum         hash.Hash // of the archive
	done, total atomic.Uint64
}

func (x *exporter) write(ctx context.Context, w io.Writer) error {
	out := zip.NewWriter(w)
	for _, step := range []func(context.Context, *zip.Writer) error{x.count, x.writeAccount, x.writeUsage, x.writeLedger, x.writeTexts, x.writeFiles} {
		if err := step(ctx, out); err != nil {
			return err
		}
	}
	return out.Close()
}

// each calls visit with the account's documents of a domain, oldest first.
func (x *exporter) each(ctx context.Context, domain event.Domain, visit func(*event.Document) error) error {
	q := &event.ListRequest{Account: uint64(x.account), Limit: exportPage, Ascending: true}
	for {
		page, err := x.s.bus.List(ctx, domain, q)
		if err != nil {
			return err
		}
		for _, doc := range page.Documents {
			if err := visit(doc); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
		q.AfterPosition, q.AfterId = page.ScannedPosition, page.ScannedId
	}
}

// count counts the documents, for the progress.
func (x *exporter) count(ctx context.Context, _ *zip.Writer) error {
	n := uint64(0)
	for _, domain := range event.Documents() {
		if err := x.each(ctx, domain, func(*event.Document) error { n++; return nil }); err != nil {
			return err
		}
	}
	x.total.Store(n)
	return nil
}

// writeAccount writes the account with its usage, and the statement of each month.
func (x *exporter) writeAccount(ctx context.Context, out *zip.Writer) error {
	a, err := x.query(ctx, &event.Query{Query: &event.Query_Usage{Usage: &event.UsageQuery{Keys: true, Addresses: true}}})
	if err != nil {
		return err
	}
	u := a.GetUsage()
	email, err := x.s.accounts.EmailOf(x.account)
	if err == nil {
		err = x.writeJSON(out, "account.json", accounts.ViewUsage(u, email))
	}
	if err == nil {
		err = x.writeJSON(out, "keys.json", accounts.ViewKeys(u, x.s.Now()))
	}
	if err != nil {
		return err
	}
	month := time.UnixMilli(u.GetCreatedMs()).UTC()
	for month = time.Date(month.Year(), month.Month(), 1, 0, 0, 0, 0, time.UTC); !month.After(x.s.Now()); month = month.AddDate(0, 1, 0) {
		period := month.Format("2006-01")
		a, err := x.query(ctx, &event.Query{Query: &event.Query_Statement{Statement: &event.StatementQuery{Period: period}}})
		if fault.KindOf(err) == fault.NotFound {
			continue
		}
		if err == nil {
			err = x.writeJSON(out, "statements/"+period+".json", accounts.ViewStatement(x.account, a.GetStatement(), month))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeUsage writes the usage of all days on record, by quota key and API key.
func (x *exporter) writeUsage(ctx context.Context, out *zip.Writer) error {
	today := accounts.DayNumber(x.s.Now())
	a, err := x.query(ctx, &event.Query{Query: &event.Query_UsageDays{UsageDays: &event.UsageDaysQuery{
		FromDay: num.Uint32(today - accounts.MostDays + 1), ToDay: num.Uint32(today),
	}}})
	if err != nil {
		return err
	}
	return x.writeJSON(out, "usage.json", accounts.ViewDays(a.GetUsageDays(), accounts.DaysBy{QuotaKey: true, Key: true}))
}

// query asks billing about the account.
func (x *exporter) query(ctx context.Context, q *event.Query) (*event.QueryAnswer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return x.s.Look(x.account, q)
}

// writeLedger writes the entries as a JSON array, newest first.
func (x *exporter) writeLedger(ctx context.Context, out *zip.Writer) error {
	w, err := x.create(out, "ledger.json", x.s.Now())
	if err != nil {
		return err
	}
	before := "["
	for q := (&event.LedgerQuery{Limit: exportPage}); ; {
		a, err := x.query(ctx, &event.Query{Query: &event.Query_Ledger{Ledger: q}})
		if err != nil {
			return err
		}
		page, err := accounts.LedgerOf(a)
		if err != nil {
			return err
		}
		for _, entry := range accounts.ViewLedger(page).Entries {
			data, err := json.Marshal(entry)
			if err == nil {
				_, err = fmt.Fprintf(w, "%s\n%s", before, data)
			}
			if err != nil {
				return err
			}
			before = ","
		}
		if len(page.GetNextCursor()) == 0 {
			break
		}
		q.Cursor = page.NextCursor
	}
	_, err = io.WriteString(w, strings.TrimPrefix(before, ",")+"\n]\n")
	return err
}

// writeTexts writes pastes and quick pastes: their metadata, and every version with its content.
func (x *exporter) writeTexts(ctx context.Context, out *zip.Writer) error {
	for _, texts := range []struct {
		folder string
		kind   *kind.Kind
	}{{"pastes", kind.Pastes()}, {"quick-pastes", kind.QuickPastes()}} {
		k := texts.kind
		err := x.each(ctx, k.Domain, func(doc *event.Document) error {
			x.done.Add(1)
			at := texts.folder + "/" + doc.Id
			if err := x.writeRaw(out, at+"/paste.json", doc, x.s.developer.ListedText(nil, k, doc)); err != nil {
				return err
			}
			return x.writeVersions(ctx, out, k, at, doc.Id)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) writeVersions(ctx context.Context, out *zip.Writer, k *kind.Kind, at, id string) error {
	for read := (&event.Read{Item: id, Requester: uint64(x.account), ListVersions: exportPage}); ; {
		found, err := x.s.bus.StartRead(k.Domain, read, nil).Wait(ctx)
		if err != nil {
			return err
		}
		for _, v := range found.Versions {
			version := &event.Read{Item: id, Requester: uint64(x.account), Version: v.Version}
			name := func(*event.Document) string { return fmt.Sprintf("%s/versions/%d.txt", at, v.Version) }
			if err := x.writeRaw(out, fmt.Sprintf("%s/versions/%d.json", at, v.Version), v, developer.ListedVersion(nil, v)); err != nil {
				return err
			}
			if err := x.writeContent(ctx, out, x.s.bus.StartRead(k.Domain, version, nil), name); err != nil {
				return err
			}
			read = &event.Read{Item: id, Requester: read.Requester, ListVersions: exportPage, BelowVersion: v.Version}
		}
		if !found.More || len(found.Versions) == 0 {
			return nil
		}
	}
}

// writeFiles writes files: their metadata, and their bytes under their names.
func (x *exporter) writeFiles(ctx context.Context, out *zip.Writer) error {
	return x.each(ctx, event.File, func(doc *event.Document) error {
		x.done.Add(1)
		at := "files/" + doc.Id
		if err := x.writeRaw(out, at+"/file.json", doc, x.s.developer.FileList().Item(nil, doc)); err != nil {
			return err
		}
		read := &event.Read{Item: doc.Id, Requester: uint64(x.account)}
		name := func(doc *event.Document) string { return at + "/content/" + entryName(doc.Title) }
		return x.writeContent(ctx, out, x.s.bus.StartRead(event.File, read, nil), name)
	})
}

// entryName makes a file name a single path segment.
func entryName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == ':' || r < ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, name)
	if clean := path.Clean(name); clean == "." || clean == ".." {
		return "_"
	}
	return name
}

// writeContent writes the content of a document. A deleted one is omitted.
func (x *exporter) writeContent(ctx context.Context, out *zip.Writer, pending *bus.PendingRead, name func(*event.Document) string) error {
	found, err := pending.Wait(ctx)
	if err != nil || found.Document == nil {
		return err
	}
	content, err := x.s.contents.Open(ctx, found.Document.GetContent(), 0, -1)
	if errors.Is(err, blob.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer content.Close()
	w, err := x.create(out, name(found.Document), time.UnixMilli(found.Document.UpdatedMs))
	if err == nil {
		_, err = io.Copy(w, content)
	}
	return err
}

func (x *exporter) writeJSON(out *zip.Writer, name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	w, err := x.create(out, name, x.s.Now())
	if err == nil {
		_, err = w.Write(append(data, '\n'))
	}
	return err
}

func (x *exporter) writeRaw(out *zip.Writer, name string, doc *event.Document, data []byte) error {
	w, err := x.create(out, name, time.UnixMilli(doc.UpdatedMs))
	if err == nil {
		_, err = w.Write(append(data, '\n'))
	}
	return err
}

func (x *exporter) create(out *zip.Writer, name string, modified time.Time) (io.Writer, error) {
	return out.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: modified.UTC()})
}
