package client

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
)

// chainServer serves the entries of a chain, of which the first kept one has a number. forge changes a page.
type chainServer struct {
	entries [][]byte
	kept    int
	code    string // of an entry that is not kept
	most    int    // entries of a page
	forge   func(*Receipts)
}

func (s *chainServer) at(n int) receipt {
	r := receipt{hash: sha256.Sum256([]byte("a chain"))}
	for _, e := range s.entries[:n] {
		r = receipt{r.number + 1, sha256.Sum256(append(r.hash[:], e...))}
	}
	return r
}

func (s *chainServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	after, err := strconv.Atoi(r.URL.Query().Get("after"))
	w.Header().Set("Content-Type", "application/json")
	if err != nil || after > len(s.entries) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"success":false,"code":"invalid_field","reason":"after is too large","field":"after"}`))
		return
	}
	if after+1 < s.kept {
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprintf(w, `{"success":false,"code":%q,"reason":"no longer kept"}`, s.code)
		return
	}
	page := &Receipts{After: s.at(after).String(), Newest: s.at(len(s.entries)).String()}
	for n := after + 1; n <= min(after+s.most, len(s.entries)); n++ {
		page.Entries = append(page.Entries, &ChainEntry{Number: int64(n), Receipt: s.at(n).String(), Entry: hex.EncodeToString(s.entries[n-1])})
	}
	if s.forge != nil {
		s.forge(page)
	}
	entries := make([]map[string]any, 0, len(page.Entries))
	for _, e := range page.Entries {
		entries = append(entries, map[string]any{"number": e.Number, "receipt": e.Receipt, "entry": e.Entry, "kind": "begins", "amount": "5.000000"})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"success": true, "after": page.After, "newest": page.Newest, "entries": entries})
}

// admittedEntry is an entry as docs/journal.md describes it.
func admittedEntry(n int) []byte {
	e := binary.BigEndian.AppendUint64([]byte{2}, uint64(1_764_300_000_000+n))
	e = append(binary.BigEndian.AppendUint32(e, 202611), 8, 2)
	e = binary.BigEndian.AppendUint64(e, uint64(500+n))
	e = binary.BigEndian.AppendUint32(e, 3)
	return append(e, 0x01, 0xa1, 0xff, 0xf9, 0x83, 0xd3, 0x74, 0x3f, 0x9a, 0x6d, 0x52, 0x90, 0xa1, 0xbe, 0xb6, byte(n))
}

func servedChain(t *testing.T, n int) (*chainServer, *Account) {
	t.Helper()
	s := &chainServer{kept: 1, code: "not_found", most: 1 + rand.IntN(7)}
	t.Log("entries of a page:", s.most)
	for i := range n {
		s.entries = append(s.entries, admittedEntry(i+1))
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	c, err := New("key", WithBaseURL(server.URL), WithRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	return s, c.Account
}

// TestEntriesAreVerifiedFromAKeptReceiptOn, page by page, and decoded from their bytes: the words of the service are not used.
func TestEntriesAreVerifiedFromAKeptReceiptOn(t *testing.T) {
	s, account := servedChain(t, 20)
	for _, from := range []int{1, 5, 19, 20} {
		v, err := account.VerifyReceipts(t.Context(), s.at(from).String(), s.at(20).String(), s.at(from).String(), s.at(max(from, 12)).String())
		if err != nil || len(v.Entries) != 20-from || v.Newest != s.at(20).String() {
			t.Fatalf("from %d: %+v, %v", from, v, err)
		}
		for i, e := range v.Entries {
			n := from + 1 + i
			want := ChainEntry{
				Number: int64(n), Receipt: s.at(n).String(), Entry: hex.EncodeToString(admittedEntry(n)), Kind: "admitted", Time: e.Time, Month: "2026-11",
				QuotaKey: "pasteLite.create", Charge: "credits", Amount: Credits(500 + n), Key: "k3", RequestID: fmt.Sprintf("01a1fff9-83d3-743f-9a6d-5290a1beb6%02x", n),
			}
			if *e != want || e.Time.UnixMilli() != int64(1_764_300_000_000+n) {
				t.Errorf("%+v, want %+v", *e, want)
			}
		}
	}
}

// TestWhatDoesNotFitIsNamed: the service shows another chain, or not all of it. Where its own receipts fit what it shows, only one that was
// kept tells.
func TestWhatDoesNotFitIsNamed(t *testing.T) {
	flip := func(e []byte) []byte {
		e = slices.Clone(e)
		e[15+rand.IntN(8)] ^= 1
		return e
	}
	entry := func(p *Receipts, n int64) *ChainEntry {
		if i := slices.IndexFunc(p.Entries, func(e *ChainEntry) bool { return e.Number == n }); i >= 0 {
			return p.Entries[i]
		}
		return &ChainEntry{}
	}
	for _, c := range []struct {
		name          string
		chain         func(entries [][]byte) [][]byte
		page          func(*Receipts)
		after, number int64
	}{
		{"edited", func(e [][]byte) [][]byte { e[6] = flip(e[6]); return e }, nil, 5, 10},
		{"edited after the first newer receipt", func(e [][]byte) [][]byte { e[10] = flip(e[10]); return e }, nil, 10, 15},
		{"edited before the kept one", func(e [][]byte) [][]byte { e[2] = flip(e[2]); return e }, nil, 5, 5},
		{"left out", func(e [][]byte) [][]byte { return slices.Delete(e, 7, 8) }, nil, 5, 10},
		{"doubled", func(e [][]byte) [][]byte { return slices.Insert(e, 8, e[7]) }, nil, 5, 10},
		{"made up", func(e [][]byte) [][]byte { return slices.Insert(e, 8, admittedEntry(99)) }, nil, 5, 10},
		{"swapped", func(e [][]byte) [][]byte { e[6], e[7] = e[7], e[6]; return e }, nil, 5, 10},
		{"ends before the newest receipt", func(e [][]byte) [][]byte { return e[:12] }, nil, 10, 13},
		{"ends before the kept receipt", func(e [][]byte) [][]byte { return e[:4] }, nil, 5, 5},
		{"edited on a page", nil, func(p *Receipts) { e := entry(p, 7); e.Entry = hex.EncodeToString(admittedEntry(8)) }, 5, 7},
		{"too short", nil, func(p *Receipts) { entry(p, 7).Entry = "02" }, 5, 7},
		{"no hexadecimal digits", nil, func(p *Receipts) { entry(p, 7).Entry = "zz" }, 5, 7},
		{"another receipt", nil, func(p *Receipts) { entry(p, 7).Receipt = "7.00" }, 5, 7},
		{"left out on a page", nil, func(p *Receipts) {
			p.Entries = slices.DeleteFunc(p.Entries, func(e *ChainEntry) bool { return e.Number == 7 })
		}, 5, 7},
		{"another receipt before the page", nil, func(p *Receipts) { p.After = "5.00" }, 5, 5},
		{"another newest receipt", nil, func(p *Receipts) { p.Newest = "20." + hex.EncodeToString(make([]byte, 32)) }, 15, 20},
		{"an older newest receipt", nil, func(p *Receipts) { p.Newest = "3." + hex.EncodeToString(make([]byte, 32)) }, 15, 3},
		{"no newest receipt", nil, func(p *Receipts) { p.Newest = "" }, 5, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, account := servedChain(t, 20)
			kept, newer := s.at(5).String(), []string{s.at(15).String(), s.at(10).String()}
			if c.chain != nil {
				s.entries = c.chain(s.entries)
			}
			s.forge = c.page
			v, err := account.VerifyReceipts(t.Context(), kept, newer...)
			var fault *ReceiptError
			if v != nil || !errors.As(err, &fault) {
				t.Fatalf("%+v, %v", v, err)
			}
			if c.number != 0 && (fault.After > c.after || fault.Number != c.number) {
				t.Errorf("%v: after %d, number %d", err, fault.After, fault.Number)
			}
		})
	}
}

// TestEntriesThatAreGoneAreNotVerified, and neither is what is not a receipt. The first that is kept is verified.
func TestEntriesThatAreGoneAreNotVerified(t *testing.T) {
	s, account := servedChain(t, 9)
	s.kept = 5
	if v, err := account.VerifyReceipts(t.Context(), s.at(4).String()); err != nil || len(v.Entries) != 5 {
		t.Errorf("%+v, %v", v, err)
	}
	var gone *EntriesNotKeptError
	if _, err := account.VerifyReceipts(t.Context(), s.at(3).String()); !errors.As(err, &gone) || gone.Number != 4 {
		t.Errorf("%v", err)
	}
	s.code = ""
	var missing *NotFoundError
	if _, err := account.VerifyReceipts(t.Context(), s.at(3).String()); !errors.As(err, &missing) || errors.As(err, new(*EntriesNotKeptError)) {
		t.Errorf("a proxy knows no such page: %v", err)
	}
	good := s.at(6).String()
	if n, err := ReceiptNumber(good); err != nil || n != 6 {
		t.Errorf("%q has the number %d: %v", good, n, err)
	}
	for _, bad := range []string{"", "6", "6.", "6.00", "0" + good, "-" + good, good + "0", good[:len(good)-1] + "G", "0." + good[2:], "99999999999999999999." + good[2:]} {
		if _, err := account.VerifyReceipts(t.Context(), bad); err == nil {
			t.Errorf("%q is taken for a receipt", bad)
		}
		if _, err := account.VerifyReceipts(t.Context(), s.at(4).String(), bad); err == nil {
			t.Errorf("%q is taken for a newer receipt", bad)
		}
		if n, err := ReceiptNumber(bad); err == nil || n != 0 {
			t.Errorf("%q has the number %d", bad, n)
		}
	}
	if _, err := account.VerifyReceipts(t.Context(), good, s.at(5).String()); err == nil {
		t.Error("an older receipt is taken for a newer one")
	}
	var fault *ReceiptError
	other := "6." + hex.EncodeToString(make([]byte, 32))
	if _, err := account.VerifyReceipts(t.Context(), good, other); !errors.As(err, &fault) || fault.Number != 6 {
		t.Errorf("two receipts with one number: %v", err)
	}
}

// TestAClientHasItsNewestReceipt: the greatest number of all answers, failures included.
func TestAClientHasItsNewestReceipt(t *testing.T) {
	receipts, status := make(chan string, 1), http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if r := <-receipts; r != "" {
			w.Header().Set("X-Receipt", r)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"success":true,"code":"not_found"}`))
	}))
	defer server.Close()
	c, err := New("key", WithBaseURL(server.URL), WithRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	hash := hex.EncodeToString(make([]byte, 32))
	for _, step := range []struct {
		sent   string
		status int
		want   string
	}{
		{"", 200, ""},
		{"9." + hash, 200, "9." + hash},
		{"8." + hash, 200, "9." + hash},
		{"", 200, "9." + hash},
		{"10." + hash, 404, "10." + hash},
		{"11.x", 200, "10." + hash},
	} {
		receipts <- step.sent
		status = step.status
		_, _ = c.Account.Usage(t.Context())
		if got := c.NewestReceipt(); got != step.want {
			t.Errorf("after %q: %q", step.sent, got)
		}
	}
}
