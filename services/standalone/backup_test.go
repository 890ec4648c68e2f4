package standalone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"quire.dev/client"
	"quire.dev/pkg/admin"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/host"
	"quire.dev/pkg/wait"
	"quire.dev/services/standalone/internal/backup"
)

// shelf is what one client does with documents of one kind of an account, and the answers it got. Documents that are edited are never
// deleted, so that the books can be compared: each charge has a document, a version or a deletion.
type shelf struct {
	kind, key string
	api       *client.Client
	random    *rand.Rand

	mu      sync.Mutex
	acked   answers
	victims []string // created, to be deleted
}

type answers struct {
	versions map[string]int64 // by id, of documents that are not deleted
	deleted  map[string]bool
}

func (a answers) clone() answers { return answers{maps.Clone(a.versions), maps.Clone(a.deleted)} }

func newShelf(t *testing.T, kind, base, key string, random *rand.Rand) *shelf {
	s := &shelf{kind: kind, key: key, random: random, acked: answers{map[string]int64{}, map[string]bool{}}}
	s.move(t, base)
	return s
}

func (s *shelf) move(t *testing.T, base string) {
	t.Helper()
	api, err := client.New(s.key, client.WithBaseURL(base), client.WithRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	s.api = api
}

// content is small, or too large for a journal.
func (s *shelf) content() string {
	line := fmt.Sprintf("%016x %s\n", s.random.Uint64(), s.kind)
	if s.random.IntN(5) == 0 {
		return strings.Repeat(line, 4000)
	}
	return line
}

func (s *shelf) create(ctx context.Context) (string, error) {
	if s.kind == "files" {
		made, err := s.api.Files.Upload(ctx, client.NewFile{Name: "a.txt", Content: strings.NewReader(s.content())})
		if err != nil {
			return "", err
		}
		return made.ID, nil
	}
	made, err := s.pastes().Create(ctx, client.NewPaste{Content: s.content()})
	if err != nil {
		return "", err
	}
	return made.ID, nil
}

func (s *shelf) pastes() *client.Pastes {
	if s.kind == "pastes" {
		return s.api.Pastes
	}
	return s.api.QuickPastes
}

func (s *shelf) remove(ctx context.Context, id string) error {
	var err error
	if s.kind == "files" {
		_, err = s.api.Files.Delete(ctx, id)
	} else {
		_, err = s.pastes().Delete(ctx, id)
	}
	return err
}

// step does one write, and remembers what is acknowledged.
func (s *shelf) step(ctx context.Context) {
	s.mu.Lock()
	var edited string
	for id := range s.acked.versions {
		edited = id
		break
	}
	s.mu.Unlock()
	switch n := s.random.IntN(6); {
	case n == 0 && len(s.victims) > 0:
		id := s.victims[0]
		s.victims = s.victims[1:]
		if s.remove(ctx, id) == nil {
			s.mu.Lock()
			s.acked.deleted[id] = true
			s.mu.Unlock()
		}
	case n == 1:
		if id, err := s.create(ctx); err == nil {
			s.victims = append(s.victims, id)
		}
	case n == 2 && s.kind != "files" && edited != "":
		if made, err := s.pastes().Update(ctx, edited, client.PasteChange{Content: client.Set(s.content())}); err == nil {
			s.mu.Lock()
			s.acked.versions[edited] = made.Version
			s.mu.Unlock()
		}
	default:
		if id, err := s.create(ctx); err == nil {
			s.mu.Lock()
			s.acked.versions[id] = 1
			s.mu.Unlock()
		}
	}
}

// now returns what is acknowledged.
func (s *shelf) now() answers {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked.clone()
}

// verify compares a restored account with its books, and with what was acknowledged before the backup.
func (s *shelf) verify(ctx context.Context, base string, before answers) error {
	api, err := client.New(s.key, client.WithBaseURL(base))
	if err != nil {
		return err
	}
	restored := &shelf{kind: s.kind, api: api}
	usage, err := api.Account.Usage(ctx)
	if err != nil {
		return err
	}
	found, edits := map[string]int64{}, int64(0)
	if s.kind == "files" {
		for f, err := range api.Files.List(ctx, client.ListFilter{}) {
			if err != nil {
				return err
			}
			found[f.ID] = 1
		}
	} else {
		for p, err := range restored.pastes().List(ctx, client.ListFilter{}) {
			if err != nil {
				return err
			}
			found[p.ID] = p.Version
			edits += p.Version - 1
		}
	}
	for id, version := range before.versions {
		if found[id] < version {
			return fmt.Errorf("%s %s has version %d, and %d was acknowledged before the backup", s.kind, id, found[id], version)
		}
	}
	for id := range before.deleted {
		if found[id] != 0 {
			return fmt.Errorf("%s %s was deleted before the backup", s.kind, id)
		}
	}
	made := map[string]string{"files": "files.upload", "pastes": "pastes.create", "pasteLite": "pasteLite.create"}[s.kind]
	created, deleted := usage.Usage[made].Used, usage.Usage[s.kind+".delete"].Used
	if created-deleted != int64(len(found)) {
		return fmt.Errorf("%s: %d creations and %d deletions are charged, and there are %d", s.kind, created, deleted, len(found))
	}
	if used := usage.Usage[s.kind+".update"].Used; used != edits {
		return fmt.Errorf("%s: %d edits are charged, and there are %d", s.kind, used, edits)
	}
	looks := 40 // a source may only see so many pages a minute
	for id := range found {
		if looks--; looks < 0 {
			break
		}
		if s.kind == "files" {
			_, err = api.Files.Download(ctx, id, io.Discard, nil)
		} else {
			var p *client.Paste
			if p, err = restored.pastes().Get(ctx, id); err == nil && int64(len(p.Content)) != p.Size {
				err = fmt.Errorf("it has %d bytes instead of %d", len(p.Content), p.Size)
			}
		}
		if err != nil {
			return fmt.Errorf("read %s %s: %w", s.kind, id, err)
		}
	}
	return nil
}

// newShelves creates accounts with credits, and shelves of each kind.
func newShelves(t *testing.T, base string, accounts int, random *rand.Rand) (list []*shelf) {
	t.Helper()
	api := admin.Client{Base: base, Token: testAdminToken}
	for i := range accounts {
		made, err := api.CreateAccount(t.Context(), admin.NewAccount{Email: fmt.Sprintf("shelf%d@example.org", i), Tier: "pro"}, "")
		if err != nil {
			t.Fatal(err)
		}
		credits := map[string]string{"amount": "1000", "reason": "test"}
		if err := api.Call(t.Context(), http.MethodPost, "/api/admin/accounts/"+made.Account.ID+"/credits", credits, &struct{}{}); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"pasteLite", "pastes", "files"} {
			list = append(list, newShelf(t, kind, base, made.APIKey, rand.New(rand.NewPCG(random.Uint64(), 0))))
		}
	}
	return list
}

// writing lets all shelves write, and accounts be created, until stop is called.
func writing(t *testing.T, base string, shelves []*shelf) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, s := range shelves {
		all.Go(func() {
			for ctx.Err() == nil {
				s.step(ctx)
			}
		})
	}
	all.Go(func() {
		api := admin.Client{Base: base, Token: testAdminToken}
		for i := 0; wait.For(ctx, 200*time.Millisecond); i++ {
			_, _ = api.CreateAccount(ctx, admin.NewAccount{Email: fmt.Sprintf("made%d@example.org", i), Tier: "free"}, "") // it may be killed
		}
	})
	return func() { cancel(); all.Wait() }
}

// TestABackUpUnderLoadIsWholeAndCharged backs up while clients write, restores into fresh folders, and compares the books.
func TestABackUpUnderLoadIsWholeAndCharged(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	folder, place := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	settings := []string{"QUIRE_PARTITIONS=3", "QUIRE_ADMIN_TOKEN=" + testAdminToken, "QUIRE_CHECKPOINT_INTERVAL=1s"}
	c := launch(t, folder, settings...)
	shelves := newShelves(t, c.base, 4, random)
	stop := writing(t, c.base, shelves)
	for round := range 3 {
		for _, s := range shelves {
			want := len(s.now().versions) + 10
			eventually.True(t, "clients write", func() bool { return len(s.now().versions) >= want })
		}
		before := make([]answers, len(shelves))
		for i, s := range shelves {
			before[i] = s.now()
		}
		signed := checkpointOf(t, c.base, 1)
		if out, errs, code := quire(t, folder, settings, "backup", "--to", place); code != 0 || !strings.Contains(out, "everything acknowledged before") {
			t.Fatalf("back up (seed %d): %d %q %q", seed, code, out, errs)
		}
		if round == 1 { // killed under load, and started again
			_ = c.end(t, syscall.SIGKILL)
			stop()
		}
		restored := filepath.Join(t.TempDir(), "restored")
		if out, errs, code := quire(t, restored, settings, "restore", "--from", place); code != 0 {
			t.Fatalf("restore (seed %d): %d %q %q", seed, code, out, errs)
		}
		// Its clock is ahead, so that holds that nobody settles any more are closed.
		r := launch(t, restored, append(settings, "QUIRE_DEV=1", "QUIRE_CLOCK_OFFSET=3m")...)
		eventually.True(t, "all holds are closed", func() bool {
			n, err := r.openHolds(t.Context())
			return err == nil && n == 0
		})
		for i, s := range shelves {
			if err := s.verify(t.Context(), r.base, before[i]); err != nil {
				t.Errorf("round %d (seed %d): %v", round, seed, err)
			}
		}
		auditRestored(t, r.base)
		checkConsistent(t, filepath.Join(restored, "blobs"), signed, checkpointOf(t, r.base, signed.N+1))
		if err := r.end(t, syscall.SIGTERM); err != nil {
			t.Errorf("orderly stop: %v\n%s", err, r.stderr)
		}
		if err := os.RemoveAll(restored); err != nil {
			t.Error(err)
		}
		if round == 1 {
			c = launch(t, folder, settings...)
			for _, s := range shelves {
				s.move(t, c.base)
			}
			stop = writing(t, c.base, shelves)
		}
	}
	_ = c.end(t, syscall.SIGKILL)
	stop()
	if out, errs, code := quire(t, "", settings, "backup", "verify", "--from", place); code != 0 || !strings.Contains(out, "everything in it matches") {
		t.Errorf("verify: %d %q %q", code, out, errs)
	}
}

// TestABackUpMovesToAJournalServerElsewhere and from it back into one process.
func TestABackUpMovesToAJournalServerElsewhere(t *testing.T) {
	t.Parallel()
	token := "QUIRE_ADMIN_TOKEN=" + testAdminToken
	elsewhere := "QUIRE_NATS_URL=" + journalServer(t)
	folder := filepath.Join(t.TempDir(), "data")
	c := launch(t, folder)
	s := newShelf(t, "files", c.base, accountKey(t, c.base), rand.New(rand.NewPCG(1, 1)))
	for i, settings := range [][]string{{token}, {token, elsewhere}, {token}} {
		want := len(s.now().versions) + 5
		for len(s.now().versions) < want {
			s.step(t.Context())
		}
		before, place := s.now(), filepath.Join(t.TempDir(), "backup")
		if out, errs, code := quire(t, folder, settings, "backup", "--to", place); code != 0 {
			t.Fatalf("back up %d: %d %q %q", i, code, out, errs)
		}
		if err := c.end(t, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		next := [][]string{{token, elsewhere}, {token}, {token}}[i]
		folder = filepath.Join(t.TempDir(), "restored")
		if out, errs, code := quire(t, folder, next, "restore", "--from", place); code != 0 {
			t.Fatalf("restore %d: %d %q %q", i, code, out, errs)
		}
		if i == 0 {
			if out, errs, code := quire(t, filepath.Join(t.TempDir(), "other"), next, "restore", "--from", place); code != 1 || !strings.Contains(errs, "the journal server is not empty") {
				t.Errorf("restore to a server with journals: %d %q %q", code, out, errs)
			}
		}
		c = launch(t, folder, next...)
		s.move(t, c.base)
		if err := s.verify(t.Context(), c.base, before); err != nil {
			t.Errorf("restored %d: %v", i, err)
		}
		auditRestored(t, c.base)
	}
}

// breaking is a place to back up to that fails after some writes, as one that is killed does.
type breaking struct {
	blob.Store
	left atomic.Int64

	mu      sync.Mutex
	written []string // keys
}

var errBroken = errors.New("broken for a test")

func (b *breaking) Put(ctx context.Context, key string, r io.Reader, size int64) (blob.Info, error) {
	// What is done is still written down: without that it would be 15 seconds old.
	if key != "unfinished.json" && b.left.Add(-1) < 0 {
		return blob.Info{}, errBroken
	}
	info, err := b.Store.Put(ctx, key, r, size)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.written = append(b.written, key)
	}
	return info, err
}

// TestAnInterruptedBackUpIsContinued after every number of writes, and copies nothing twice that is whole.
func TestAnInterruptedBackUpIsContinued(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), strings.Repeat("a-long-name/", 10), "data")
	settings := []string{"QUIRE_PARTITIONS=2", "QUIRE_ADMIN_TOKEN=" + testAdminToken}
	c := launch(t, folder, settings...)
	s := newShelf(t, "files", c.base, accountKey(t, c.base), rand.New(rand.NewPCG(1, 1)))
	for len(s.now().versions) < 12 {
		s.step(t.Context())
	}
	cfg, err := host.ReadSettings(host.Quire, append(settings, "QUIRE_DATA="+folder))
	if err != nil {
		t.Fatal(err)
	}
	options := Copies{Logger: slog.New(slog.DiscardHandler), Version: "test"}
	place := filepath.Join(t.TempDir(), "backup")
	store, err := disk.Open(place)
	if err != nil {
		t.Fatal(err)
	}
	copies := map[string]int{}
	for writes, done := int64(0), false; !done; writes++ {
		to := &breaking{Store: store}
		to.left.Store(writes)
		opened := host.New(cfg, options.Logger)
		from, err := openSource(t.Context(), opened, cfg, options)
		if err != nil {
			t.Fatal(err)
		}
		_, err = backup.Run(t.Context(), from, to)
		switch {
		case err == nil:
			done = true
		case !errors.Is(err, errBroken):
			t.Fatal(err)
		default:
			if _, err := backup.Read(t.Context(), store); !errors.Is(err, backup.ErrNone) {
				t.Fatalf("after %d writes there is a finished backup: %v", writes, err)
			}
		}
		for _, key := range to.written {
			switch kind, _, _ := strings.Cut(key, "_"); {
			case strings.HasPrefix(key, "blobs/"):
				copies[key]++
			case kind == "journals/BILLING":
				parts := strings.Split(key, "-") // the last ones name the run
				copies[parts[0]+"-"+parts[1]]++
			}
		}
		if err := opened.Close(); err != nil {
			t.Fatal(err)
		}
		if writes > 200 {
			t.Fatal("it never ends")
		}
	}
	for key, n := range copies {
		if n > 1 {
			t.Errorf("%s was copied %d times", key, n)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// Nothing runs: the command starts one, and there is little to copy.
	if out, errs, code := quire(t, folder, settings, "backup", "--to", place); code != 0 {
		t.Fatalf("back up a folder that nobody uses: %d %q %q", code, out, errs)
	}
	if out, errs, code := quire(t, "", settings, "backup", "verify", "--from", place); code != 0 || !strings.Contains(out, "everything in it matches") {
		t.Errorf("verify: %d %q %q", code, out, errs)
	}
}

// TestABadBackUpIsRefused whatever is wrong with it, and so is a restore to where data is.
func TestABadBackUpIsRefused(t *testing.T) {
	t.Parallel()
	folder, place := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	settings := []string{"QUIRE_ADMIN_TOKEN=" + testAdminToken}
	c := launch(t, folder)
	s := newShelf(t, "files", c.base, accountKey(t, c.base), rand.New(rand.NewPCG(1, 1)))
	for len(s.now().versions) < 3 {
		s.step(t.Context())
	}
	if out, errs, code := quire(t, folder, settings, "backup", "--to", place); code != 0 {
		t.Fatalf("back up: %d %q %q", code, out, errs)
	}
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	refused := func(what, text string, args ...string) {
		t.Helper()
		data := folder
		if args[0] == "restore" && what != "a folder with data" {
			data = filepath.Join(t.TempDir(), "restored")
		}
		out, errs, code := quire(t, data, settings, args...)
		if code != 1 || !strings.Contains(errs, text) {
			t.Errorf("%s: %v: %d %q %q", what, args, code, out, errs)
		}
		if data != folder && HasData(data) {
			t.Errorf("%s: %v left a data folder that can be used", what, args)
		}
	}
	refused("a folder with data", "is not empty", "restore", "--from", place)
	refused("no backup", "there is no finished backup", "restore", "--from", t.TempDir())
	refused("no backup", "there is no finished backup", "backup", "verify", "--from", t.TempDir())
	refused("a place with other files", "has other files", "backup", "--to", folder)
	other := filepath.Join(t.TempDir(), "other")
	d := launch(t, other)
	if out, errs, code := quire(t, other, settings, "backup", "--to", place); code != 1 || !strings.Contains(errs, "of another installation") {
		t.Errorf("back up of another installation: %d %q %q", code, out, errs)
	}
	if err := d.end(t, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"journals", "models", "blobs", "folder", "manifest.json"} {
		for _, damage := range []func([]byte) []byte{
			func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
			func(b []byte) []byte { return b[:len(b)-1] },
			nil, // removed
		} {
			file := partOf(t, place, kind)
			whole, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			text := "is damaged"
			if damage != nil {
				if err := os.WriteFile(file, damage(bytes.Clone(whole)), 0o600); err != nil {
					t.Fatal(err)
				}
			} else if kind == "manifest.json" {
				text = "there is no finished backup"
			}
			refused("damaged "+kind, text, "backup", "verify", "--from", place)
			refused("damaged "+kind, text, "restore", "--from", place)
			if err := os.WriteFile(file, whole, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if out, errs, code := quire(t, filepath.Join(t.TempDir(), "restored"), settings, "restore", "--from", place); code != 0 {
		t.Errorf("restore, whole again: %d %q %q", code, out, errs)
	}
}

// partOf returns the file of a part whose key begins with kind.
func partOf(t *testing.T, place, kind string) (file string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(place, "keys"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(strings.TrimPrefix(path, place), "/"+kind) {
			file = path
		}
		return err
	})
	if err != nil || file == "" {
		t.Fatalf("no part of %s: %v", kind, err)
	}
	return file
}

// auditRestored audits, and compares the accounts of the journals with the users of the read model.
func auditRestored(t *testing.T, base string) {
	t.Helper()
	api := admin.Client{Base: base, Token: testAdminToken}
	audit, err := api.Audit(t.Context(), admin.AuditOptions{Deep: true}, func(uint64, uint64) {})
	if err != nil {
		t.Fatal(err)
	}
	if !*audit.Match {
		t.Errorf("the audit differs: %+v", audit.Partitions)
	}
	var accounts, users int
	for _, p := range audit.Partitions {
		for _, table := range p.Tables {
			if table.Table == "accounts" {
				accounts += int(table.Rows)
			}
		}
	}
	for cursor := ""; ; {
		var page struct {
			Accounts []struct {
				CreatedAt *string `json:"createdAt"`
			} `json:"accounts"`
			NextCursor string `json:"nextCursor"`
		}
		if err := api.Call(t.Context(), http.MethodGet, "/api/admin/accounts?limit=100"+cursor, nil, &page); err != nil {
			t.Fatal(err)
		}
		for _, a := range page.Accounts {
			if a.CreatedAt != nil { // its account exists
				users++
			}
		}
		if page.NextCursor == "" {
			break
		}
		cursor = "&cursor=" + page.NextCursor
	}
	if accounts == 0 || accounts != users {
		t.Errorf("the journals have %d accounts, and the read model has users of %d", accounts, users)
	}
}
