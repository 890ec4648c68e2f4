package natsfiles

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// afterAStop are options for files of any size that an orderly stop has left.
func afterAStop() Options {
	opts := options()
	opts.Clean, opts.AtOnce = true, 1
	return opts
}

// serve runs a server on the files, works with it and stops it in order.
func serve(t *testing.T, dir string, work func(jetstream.JetStream)) {
	t.Helper()
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
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(1<<16))
	if err != nil {
		t.Fatal(err)
	}
	work(js)
}

func flip(b []byte) []byte {
	b[len(b)/2] ^= 4
	return b
}

// checkBoth returns the error of Check, or else of CheckRest after the server has worked.
func checkBoth(t *testing.T, dir string, opts Options, work func(jetstream.JetStream)) (first, rest error) {
	t.Helper()
	report, err := Check(t.Context(), dir, opts)
	if err != nil {
		return err, nil
	}
	serve(t, dir, work)
	return nil, report.CheckRest(t.Context())
}

// TestOldBlocksAreCheckedBesideTheServer: after an orderly stop it reads none of them when it starts.
func TestOldBlocksAreCheckedBesideTheServer(t *testing.T) {
	purgeable := func(o *Options) { o.Forever = nil }
	purge := func(upTo uint64) func(t *testing.T, js jetstream.JetStream) {
		return func(t *testing.T, js jetstream.JetStream) {
			t.Helper()
			stream, err := js.Stream(t.Context(), forever)
			if err == nil {
				err = stream.Purge(t.Context(), jetstream.WithPurgeSequence(upTo+1))
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
	old := func(t *testing.T, dir string, n int) string { t.Helper(); return blocks(t, dir, forever)[n] }
	tests := []struct {
		name    string
		options func(*Options)
		damage  func(t *testing.T, dir string)
		work    func(t *testing.T, js jetstream.JetStream)
		first   string // what the check before the start says
		rest    string
	}{
		{name: "whole"},
		{name: "a bit", damage: func(t *testing.T, dir string) { edit(t, old(t, dir, 0), flip) }, rest: "1.blk"},
		{name: "a bit, and the server works", damage: func(t *testing.T, dir string) { edit(t, old(t, dir, 1), flip) }, work: func(t *testing.T, js jetstream.JetStream) {
			if _, err := js.Publish(t.Context(), forever+".usage", []byte("more")); err != nil {
				t.Error(err)
			}
		}, rest: "2.blk"},
		{name: "a bit of the last block", damage: func(t *testing.T, dir string) { edit(t, last(blocks(t, dir, forever)), flip) }, first: "does not match"},
		{name: "cut", damage: func(t *testing.T, dir string) {
			edit(t, old(t, dir, 0), func(b []byte) []byte { return b[:len(b)-1] })
		}, first: "1.blk"},
		{name: "gone", damage: func(t *testing.T, dir string) { remove(t, old(t, dir, 1)) }, first: "goes from sequence"},
		{name: "purged meanwhile", options: purgeable, work: purge(3500)},
		{name: "a bit, purged meanwhile", options: purgeable, damage: func(t *testing.T, dir string) {
			edit(t, old(t, dir, 0), flip)
		}, work: purge(3500)},
		{name: "purged in part", options: purgeable, work: purge(300)},
		{name: "purged to the middle of a block", options: purgeable, work: purge(1600)},
		{name: "a bit behind those that are purged", options: purgeable, damage: func(t *testing.T, dir string) {
			edit(t, old(t, dir, 1), flip)
		}, work: purge(300), rest: "2.blk"},
	}
	whole := store(t, true, 0)
	if n := len(blocks(t, whole, forever)); n < 3 {
		t.Fatalf("%d blocks", n)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			if test.damage != nil {
				test.damage(t, dir)
			}
			opts := afterAStop()
			if test.options != nil {
				test.options(&opts)
			}
			first, rest := checkBoth(t, dir, opts, func(js jetstream.JetStream) {
				if test.work != nil {
					test.work(t, js)
				}
			})
			for _, got := range []struct {
				when, want string
				err        error
			}{{"before the start", test.first, first}, {"later", test.rest, rest}} {
				if got.want == "" && got.err != nil || got.want != "" && (!errors.Is(got.err, ErrDamaged) || !strings.Contains(got.err.Error(), got.want)) {
					t.Errorf("%s: %v, want %q", got.when, got.err, got.want)
				}
			}
		})
	}
}

// TestTheServerChangesNoBlockThatIsCheckedLater: it does not read them when it starts, so that it does not cut a damaged one off.
func TestTheServerChangesNoBlockThatIsCheckedLater(t *testing.T) {
	dir := store(t, true, 0)
	files := blocks(t, dir, forever)
	for _, file := range files[:len(files)-1] {
		edit(t, file, flip)
	}
	before := hashes(t, filepath.Join(dir, streamFolder, forever, messagesFolder))
	first, rest := checkBoth(t, dir, afterAStop(), func(jetstream.JetStream) {})
	if first != nil || !errors.Is(rest, ErrDamaged) {
		t.Errorf("%v, %v", first, rest)
	}
	after := hashes(t, filepath.Join(dir, streamFolder, forever, messagesFolder))
	for _, file := range files {
		if before[file] != after[file] {
			t.Errorf("%s changed", file)
		}
	}
}

// more publishes messages of some subjects after the number before.
func more(t *testing.T, js jetstream.JetStream, stream string, before, count int) {
	t.Helper()
	body := bytes.Repeat([]byte("quire "), 500)
	for i := before; i < before+count; i++ {
		m := &nats.Msg{Subject: fmt.Sprintf("%s.subject.%d", stream, i%3), Data: append(fmt.Appendf(nil, "%06d ", i), body[:i%len(body)]...)}
		if i%2 == 0 {
			m.Header = nats.Header{"X": {"y"}}
		}
		if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-t.Context().Done():
		t.Fatal("publishing did not end")
	}
}

func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestTheIndexAfterAKillIsAsTheServerWouldWriteIt: another copy of the same files is left to the server, which reads all of them.
func TestTheIndexAfterAKillIsAsTheServerWouldWriteIt(t *testing.T) {
	purge := func(upTo uint64) func(*testing.T, jetstream.JetStream) {
		return func(t *testing.T, js jetstream.JetStream) {
			t.Helper()
			stream, err := js.Stream(t.Context(), forever)
			if err == nil {
				err = stream.Purge(t.Context(), jetstream.WithPurgeSequence(upTo+1))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	whole := store(t, true, 0)
	for _, test := range []struct {
		name          string
		first, before func(*testing.T, jetstream.JetStream) // in an orderly run, and before the kill
		more          int
		left          bool
	}{
		{name: "nothing more", left: true},
		{name: "one message more", more: 1, left: true},
		{name: "a block more", more: 3000, left: true},
		{name: "blocks more", more: 8000, left: true},
		{name: "purged in an orderly run", first: purge(2500), more: 3000, left: true},
		{name: "purged before the kill", before: purge(2500), more: 3000, left: true},
		{name: "purged before the kill up to a block", before: purge(4000), more: 3000},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := copyOf(t, whole)
			if test.first != nil {
				serve(t, dir, func(js jetstream.JetStream) { test.first(t, js) })
			}
			var killed string
			serve(t, dir, func(js jetstream.JetStream) {
				if test.before != nil {
					test.before(t, js)
				}
				more(t, js, forever, messages, test.more)
				killed = copyOf(t, dir)
			})
			theirs := copyOf(t, killed)
			serve(t, theirs, func(jetstream.JetStream) {})

			opts := options()
			opts.AtOnce, opts.Forever = 1, nil
			report, err := Check(t.Context(), killed, opts)
			if err != nil {
				t.Fatal(err)
			}
			if got := report.Left() > 0; got != test.left {
				t.Fatalf("%d blocks are left", report.Left())
			}
			if err := report.RenewIndexes(replace); err != nil {
				t.Fatal(err)
			}
			if test.left {
				ours, want := indexOf(killed), indexOf(theirs)
				if test.first != nil || test.before != nil { // what was purged may have been in the first block of a subject: the server corrects that later
					forgetFirst(ours.subjects, want.subjects)
				}
				if !ours.whole || !reflect.DeepEqual(ours, want) {
					t.Errorf("index\n%+v, the server's\n%+v", ours, want)
				}
			}
			before := hashes(t, filepath.Join(killed, streamFolder, forever, messagesFolder))
			serve(t, killed, func(js jetstream.JetStream) {
				stream, err := js.Stream(t.Context(), forever)
				if err != nil {
					t.Fatal(err)
				}
				state := stream.CachedInfo().State
				if state.LastSeq != uint64(messages+test.more) || state.Msgs != state.LastSeq-state.FirstSeq+1 {
					t.Errorf("%+v", state)
				}
				for _, sequence := range []uint64{state.FirstSeq, state.LastSeq} {
					if m, err := stream.GetMsg(t.Context(), sequence); err != nil || !strings.HasPrefix(string(m.Data), fmt.Sprintf("%06d ", sequence-1)) {
						t.Errorf("message %d: %v", sequence, err)
					}
				}
				for file, hash := range before {
					if now := hashes(t, filepath.Dir(file)); now[file] != hash {
						t.Errorf("%s changed", file)
					}
				}
				more(t, js, forever, messages+test.more, 1)
			})
			if err := report.CheckRest(t.Context()); err != nil {
				t.Error(err)
			}
			opts.Clean, opts.AtOnce = true, 0
			if _, err := Check(t.Context(), killed, opts); err != nil {
				t.Errorf("in the end: %v", err)
			}
		})
	}
}

// indexOf reads the index of the permanent stream, its subjects sorted.
func indexOf(dir string) index {
	x := readIndex(&plan{name: forever, dir: filepath.Join(dir, streamFolder, forever)})
	slices.SortFunc(x.subjects, func(a, b indexedSubject) int { return strings.Compare(a.name, b.name) })
	return x
}

func forgetFirst(lists ...[]indexedSubject) {
	for _, list := range lists {
		for i := range list {
			list[i].firstBlock = 0
		}
	}
}

// TestAnIndexIsEncodedAsItWasRead: byte by byte.
func TestAnIndexIsEncodedAsItWasRead(t *testing.T) {
	for _, purgeTo := range []uint64{0, 30} {
		dir := store(t, true, purgeTo)
		for _, stream := range []string{forever, purged} {
			p := &plan{name: stream, dir: filepath.Join(dir, streamFolder, stream)}
			want, err := os.ReadFile(p.indexFile())
			if err != nil {
				t.Fatal(err)
			}
			if x := readIndex(p); !x.whole || !bytes.Equal(x.encode(stream), want) {
				t.Errorf("%s, purged to %d: %+v", stream, purgeTo, x)
			}
		}
	}
}

// FuzzIndex: an index of any bytes is read without a panic.
func FuzzIndex(f *testing.F) {
	f.Add([]byte{3, 3, 1, 0, 3, 0, 1, 1, 'a', 3, 1, 1, 1, 1, 90, 1, 0, 3, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, body []byte) {
		dir := t.TempDir()
		p := &plan{name: forever, dir: dir}
		data := append([]byte{indexMagic, indexVersion}, body...)
		data = append(data, checksum(nameHash(forever), data)...)
		if err := os.Mkdir(filepath.Join(dir, messagesFolder), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p.indexFile(), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if x := readIndex(p); x.whole && len(x.blocks) == 0 {
			t.Errorf("%+v", x)
		}
	})
}

// TestAllIsReadFirstWhereTheServerReadsIt: without an index of the last record, and if no such index can be derived.
func TestAllIsReadFirstWhereTheServerReadsIt(t *testing.T) {
	orderly, killed := store(t, true, 0), store(t, false, 0)
	index := func(dir string) string {
		return filepath.Join(dir, streamFolder, forever, messagesFolder, indexFile)
	}
	for _, test := range []struct {
		name   string
		whole  string
		change func(t *testing.T, dir string, opts *Options)
		left   bool
	}{
		{"a large one after a stop", orderly, func(*testing.T, string, *Options) {}, true},
		{"a small one", orderly, func(_ *testing.T, _ string, o *Options) { o.AtOnce = 1 << 30 }, false},
		{"no bound", orderly, func(_ *testing.T, _ string, o *Options) { o.AtOnce = 0 }, false},
		{"after a crash", orderly, func(_ *testing.T, _ string, o *Options) { o.Clean = false }, true},
		{"after a crash in a write", orderly, func(t *testing.T, dir string, o *Options) {
			o.Clean = false
			edit(t, last(blocks(t, dir, forever)), func(b []byte) []byte { return append(b, 1, 2, 3) })
		}, false},
		{"a crash without an index", killed, func(_ *testing.T, _ string, o *Options) { o.Clean = false }, false},
		{"index gone", orderly, func(t *testing.T, dir string, _ *Options) { remove(t, index(dir)) }, false},
		{"index changed", orderly, func(t *testing.T, dir string, _ *Options) { edit(t, index(dir), flip) }, false},
		{"index of before", killed, func(*testing.T, string, *Options) {}, false},
		{"another block after it", orderly, func(t *testing.T, dir string, _ *Options) {
			if err := os.WriteFile(filepath.Join(filepath.Dir(index(dir)), "99.blk"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(test.whole)); err != nil {
				t.Fatal(err)
			}
			opts := afterAStop()
			test.change(t, dir, &opts)
			report, err := Check(t.Context(), dir, opts)
			if err != nil {
				t.Fatal(err)
			}
			if got := report.Left() > 0; got != test.left {
				t.Errorf("%d blocks are left", report.Left())
			}
		})
	}
}

// TestABlockThatWasCutOffAndRestoredIsWholeToTheServer: its index was written when the block was cut off.
func TestABlockThatWasCutOffAndRestoredIsWholeToTheServer(t *testing.T) {
	dir := store(t, true, 0)
	old := blocks(t, dir, forever)[0]
	whole, err := os.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	edit(t, old, func(b []byte) []byte { copy(b[len(b)/2:], bytes.Repeat([]byte{1}, 8000)); return b })
	opts := afterAStop()
	opts.Forever = nil
	report, err := Check(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	held := func(js jetstream.JetStream) (messages uint64) {
		stream, err := js.Stream(t.Context(), forever)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = stream.GetMsg(t.Context(), 1500) // the server cuts off now what it can't read
		info, err := stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return info.State.Msgs
	}
	serve(t, dir, func(js jetstream.JetStream) { held(js) })
	if err := report.CheckRest(t.Context()); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), old) {
		t.Errorf("later: %v", err)
	}
	if err := os.WriteFile(old, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	opts.AtOnce = 0
	if report, err = Check(t.Context(), dir, opts); err != nil {
		t.Fatal(err)
	}
	if err := report.DropIndexes(); err != nil {
		t.Fatal(err)
	}
	serve(t, dir, func(js jetstream.JetStream) {
		if n := held(js); n != messages {
			t.Errorf("the server has %d messages", n)
		}
	})
}

// replace is a Replace for files that no crash threatens.
func replace(file string, data []byte) error { return os.WriteFile(file, data, 0o600) }
