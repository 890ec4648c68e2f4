package natsfiles

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	messages     = 4000 // of about 4 KiB: several blocks
	forever      = "BILLING_0"
	purged       = "LITE_0"
	streamFolder = "jetstream/$G/streams"
)

// store makes the files of a server. If orderly is false they are copied while it runs: a killed process leaves such files.
func store(t *testing.T, orderly bool, purgeTo uint64) string {
	t.Helper()
	dir := t.TempDir()
	s, err := server.NewServer(&server.Options{StoreDir: dir, JetStream: true, DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	if !s.ReadyForConnections(2 * time.Minute) {
		t.Fatal("journal server is not ready")
	}
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(messages))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{forever, purged} {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name + ".usage", name + ".subject.0", name + ".subject.1", name + ".subject.2"}}); err != nil {
			t.Fatal(err)
		}
		count := messages
		if name == purged {
			count = 50
		}
		body := bytes.Repeat([]byte("quire "), 700)
		for i := range count {
			m := &nats.Msg{Subject: name + ".usage", Data: append(fmt.Appendf(nil, "%06d ", i), body...)}
			if i%2 == 0 {
				m.Header = nats.Header{"X": {"y"}}
			}
			if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-t.Context().Done():
		t.Fatal("publishing did not end")
	}
	if purgeTo > 0 {
		stream, err := js.Stream(t.Context(), purged)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(purgeTo+1)); err != nil {
			t.Fatal(err)
		}
	}
	if orderly {
		nc.Close()
		s.Shutdown()
		s.WaitForShutdown()
		return dir
	}
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return copied
}

func options() Options {
	return Options{
		Expected: []string{forever, purged},
		Forever:  func(s string) bool { return s == forever },
		Gapless:  func(string) bool { return true },
	}
}

func blocks(t *testing.T, dir, stream string) []string {
	t.Helper()
	var out []string
	for i := 1; ; i++ {
		f := filepath.Join(dir, streamFolder, stream, "msgs", fmt.Sprintf("%d.blk", i))
		if _, err := os.Stat(f); err != nil {
			return out
		}
		out = append(out, f)
	}
}

func edit(t *testing.T, file string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, change(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func last(files []string) string { return files[len(files)-1] }

func hashes(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	out := map[string][32]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		out[path] = sha256.Sum256(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWholeStreamsPass(t *testing.T) {
	for _, orderly := range []bool{true, false} {
		for _, purgeTo := range []uint64{0, 30, 50} {
			t.Run(fmt.Sprintf("orderly=%v purge=%d", orderly, purgeTo), func(t *testing.T) {
				dir := store(t, orderly, purgeTo)
				opts := options()
				opts.Clean = orderly
				var done, total int64
				opts.Progress = func(d, all int64) { done, total = d, all }
				r, err := Check(t.Context(), dir, opts)
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range r.Streams {
					if s.Torn != nil {
						t.Errorf("%s: torn %+v", s.Name, s.Torn)
					}
					if s.Name == forever && (s.First != 1 || s.Last != messages) {
						t.Errorf("%s: %d to %d", s.Name, s.First, s.Last)
					}
				}
				if len(r.Streams) != 2 || done != total || total < messages*4096 {
					t.Errorf("%d streams, %d of %d bytes", len(r.Streams), done, total)
				}
			})
		}
	}
}

func TestAnUnfinishedLastWriteIsLetThroughAndKept(t *testing.T) {
	whole := store(t, false, 0)
	for _, cut := range []int64{1, 7, 8, 100, 3000, 4200} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			file := last(blocks(t, dir, forever))
			edit(t, file, func(b []byte) []byte { return b[:int64(len(b))-cut] })
			r, err := Check(t.Context(), dir, options())
			if err != nil {
				t.Fatal(err)
			}
			kept, err := r.KeepTorn(filepath.Join(t.TempDir(), "torn"))
			if err != nil || len(kept) != 1 {
				t.Fatalf("kept %v, %v", kept, err)
			}
			info, err := os.Stat(kept[0])
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range r.Streams {
				if s.Name == forever && (s.Last != messages-1 || s.Torn == nil || s.Torn.Bytes != info.Size()) {
					t.Fatalf("%+v %+v, kept %d", s, s.Torn, info.Size())
				}
			}
			opts := options()
			opts.Clean = true
			if _, err := Check(t.Context(), dir, opts); !errors.Is(err, ErrDamaged) {
				t.Fatalf("torn after an orderly stop: %v", err)
			}
		})
	}
}

func TestDamageIsRefusedByPlaceAndNothingIsTouched(t *testing.T) {
	tests := []struct {
		name    string
		orderly bool
		damage  func(t *testing.T, dir string)
		says    string
	}{
		{"bit in an early block", false, func(t *testing.T, dir string) {
			edit(t, blocks(t, dir, forever)[0], func(b []byte) []byte { b[len(b)/2] ^= 4; return b })
		}, "1.blk"},
		{"bit in the middle of the last block", false, func(t *testing.T, dir string) {
			edit(t, last(blocks(t, dir, forever)), func(b []byte) []byte { b[len(b)/2] ^= 4; return b })
		}, "does not match its checksum"},
		{"bit in the last record", false, func(t *testing.T, dir string) {
			edit(t, last(blocks(t, dir, forever)), func(b []byte) []byte { b[len(b)-50] ^= 4; return b })
		}, "does not match its checksum"},
		{"length in the middle of the last block", false, func(t *testing.T, dir string) {
			edit(t, last(blocks(t, dir, forever)), func(b []byte) []byte { b[2] ^= 0x40; return b })
		}, "there is a valid one"},
		{"early block cut", false, func(t *testing.T, dir string) {
			edit(t, blocks(t, dir, forever)[0], func(b []byte) []byte { return b[:len(b)-100] })
		}, "later files follow"},
		{"first block gone", false, func(t *testing.T, dir string) { remove(t, blocks(t, dir, forever)[0]) }, "does not begin with its first"},
		{"middle block gone", false, func(t *testing.T, dir string) { remove(t, blocks(t, dir, forever)[1]) }, "goes from sequence"},
		{"last block gone", true, func(t *testing.T, dir string) { remove(t, last(blocks(t, dir, forever))) }, "ends at sequence"},
		{"last block emptied", true, func(t *testing.T, dir string) {
			edit(t, last(blocks(t, dir, forever)), func([]byte) []byte { return nil })
		}, "ends at sequence"},
		{"stream gone", false, func(t *testing.T, dir string) { remove(t, filepath.Join(dir, streamFolder, forever)) }, "is missing"},
		{"description changed", false, func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, streamFolder, forever, "meta.inf"), func(b []byte) []byte { b[10] ^= 1; return b })
		}, "meta.inf"},
		{"description gone", false, func(t *testing.T, dir string) { remove(t, filepath.Join(dir, streamFolder, forever, "meta.inf")) }, "meta.inf"},
		{"checksum gone", false, func(t *testing.T, dir string) { remove(t, filepath.Join(dir, streamFolder, forever, "meta.sum")) }, "meta.inf"},
	}
	stores := map[bool]string{true: store(t, true, 0), false: store(t, false, 0)}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(stores[test.orderly])); err != nil {
				t.Fatal(err)
			}
			test.damage(t, dir)
			before := hashes(t, dir)
			_, err := Check(t.Context(), dir, options())
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "backup") {
				t.Fatalf("got %v, want damage saying %q", err, test.says)
			}
			after := hashes(t, dir)
			if len(before) != len(after) {
				t.Fatal("files came or went")
			}
			for f, h := range before {
				if after[f] != h {
					t.Errorf("%s changed", f)
				}
			}
		})
	}
}

// TestNoFlippedBitIsTakenForAJournal flips every bit of three messages, one of them with headers.
func TestNoFlippedBitIsTakenForAJournal(t *testing.T) {
	dir := store(t, false, 0)
	for _, file := range blocks(t, dir, forever)[1:] {
		remove(t, file)
	}
	remove(t, filepath.Join(dir, streamFolder, forever, messagesFolder, indexFile))
	var block []byte
	for i, header := range []string{"", "NATS/1.0\r\nX: y\r\n\r\n", ""} {
		block = AppendRecord(block, forever, 1, Message{
			Sequence: uint64(i + 1), Time: time.Unix(0, 1_000_000_007), Subject: forever + ".usage", Header: []byte(header),
			Data: []byte(".more\r\n\r\n of what was used"),
		})
	}
	file := blocks(t, dir, forever)[0]
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(block)
	if r, err := Check(t.Context(), dir, options()); err != nil || r.Streams[0].Last != 3 || r.Streams[0].Torn != nil {
		t.Fatalf("as written: %+v, %v", r, err)
	}
	for at := range block {
		for bit := range 8 {
			changed := bytes.Clone(block)
			changed[at] ^= 1 << bit
			write(changed)
			if _, err := Check(t.Context(), dir, options()); !errors.Is(err, ErrDamaged) {
				t.Errorf("bit %d of byte %d: %v", bit, at, err)
			}
		}
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func TestDeletedMessageOfAnEverlastingJournalIsRefused(t *testing.T) {
	dir := store(t, false, 30)
	opts := options()
	opts.Forever = func(string) bool { return true }
	if _, err := Check(t.Context(), dir, opts); !errors.Is(err, ErrDamaged) {
		t.Fatalf("got %v", err)
	}
}

func TestBudgetReadsTheNewestBlocks(t *testing.T) {
	dir := store(t, false, 0)
	opts := options()
	opts.Budget = time.Nanosecond
	r, err := Check(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	if r.Skipped == 0 {
		t.Fatal("nothing was skipped")
	}
	edit(t, last(blocks(t, dir, forever)), func(b []byte) []byte { b[len(b)/2] ^= 4; return b })
	if _, err := Check(t.Context(), dir, opts); !errors.Is(err, ErrDamaged) {
		t.Fatalf("damage in the newest block: %v", err)
	}
}

// TestABudgetThatEndsAmongTheBlocksIsNoDamage: the oldest block that was read in time does not begin with the first message.
func TestABudgetThatEndsAmongTheBlocksIsNoDamage(t *testing.T) {
	dir := store(t, false, 0)
	if n := len(blocks(t, dir, forever)); n < 3 {
		t.Fatalf("%d blocks", n)
	}
	opts := options()
	opts.Budget = time.Second
	read := 0
	opts.Progress = func(int64, int64) {
		if read++; read == 2 {
			<-time.After(opts.Budget) // it is over for the third
		}
	}
	r, err := Check(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Streams {
		if s.Name == forever && (s.First != 1 || s.Last != messages) {
			t.Errorf("%+v", s)
		}
	}
	remove(t, blocks(t, dir, forever)[0])
	opts.Budget, opts.Progress = time.Nanosecond, nil
	if _, err := Check(t.Context(), dir, opts); !errors.Is(err, ErrDamaged) {
		t.Errorf("without its first block, and no time to read the others: %v", err)
	}
}

// TestAJournalKilledBeforeItsFirstMessageIsWhole: the server finds an empty block without an index, removes it, and begins with
// the block after it.
func TestAJournalKilledBeforeItsFirstMessageIsWhole(t *testing.T) {
	dir := t.TempDir()
	opts := options()
	opts.Expected = []string{forever}
	run := func(work func(jetstream.JetStream) error) {
		t.Helper()
		serve(t, dir, func(js jetstream.JetStream) {
			if err := work(js); err != nil {
				t.Fatal(err)
			}
		})
	}
	whole := func(messages uint64) {
		t.Helper()
		r, err := Check(t.Context(), dir, opts)
		if err != nil || len(r.Streams) != 1 || r.Streams[0].Last != messages {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	run(func(js jetstream.JetStream) error {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: forever, Subjects: []string{forever + ".>"}})
		return err
	})
	msgs := filepath.Join(dir, streamFolder, forever, "msgs")
	remove(t, filepath.Join(msgs, "index.db")) // it is written at an orderly stop
	run(func(jetstream.JetStream) error { return nil })
	if _, err := os.Stat(filepath.Join(msgs, "1.blk")); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the first block: %v", err)
	}
	whole(0)
	run(func(js jetstream.JetStream) error {
		_, err := js.Publish(t.Context(), forever+".usage", []byte("first"))
		return err
	})
	whole(1)
	opts.Budget = time.Nanosecond
	whole(1)
}

func TestAFolderIsNotReadAsAPattern(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data[1]")
	if err := os.CopyFS(dir, os.DirFS(store(t, true, 0))); err != nil {
		t.Fatal(err)
	}
	if r, err := Check(t.Context(), dir, options()); err != nil || len(r.Streams) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestTheLastBlockOfEachStreamIsWrittenAgain: by a function that makes sure that it is on the disk.
func TestTheLastBlockOfEachStreamIsWrittenAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data[1]")
	if err := os.CopyFS(dir, os.DirFS(store(t, true, 0))); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, stream := range []string{forever, purged} {
		want = append(want, last(blocks(t, dir, stream)))
	}
	full := errors.New("no room")
	err := RewriteTails(dir, func(file string, data []byte) error {
		if stored, err := os.ReadFile(file); err != nil || len(data) == 0 || !bytes.Equal(data, stored) {
			t.Errorf("%s: %d bytes of %d, %v", file, len(data), len(stored), err)
		}
		got = append(got, file)
		if len(got) == 1 {
			return full
		}
		return nil
	})
	slices.Sort(got)
	slices.Sort(want)
	if !errors.Is(err, full) || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

func TestEmptyFolderHasNoStreams(t *testing.T) {
	r, err := Check(t.Context(), t.TempDir(), Options{})
	if err != nil || len(r.Streams) != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
}
