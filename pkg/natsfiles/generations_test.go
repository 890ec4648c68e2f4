package natsfiles

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	odd       = forever + "_ODD"
	atClosing = 3000 // messages of about 4 KiB, and the closing one
)

// generations are the options for a stream and the one that continues it.
func generations() Options {
	return Options{
		Expected:  []string{forever, odd},
		Forever:   func(string) bool { return true },
		Also:      func(string) []string { return []string{"usage", "closed"} },
		Closed:    func(_ string, subjects []string) bool { return len(subjects) == 1 && subjects[0] == "closed" },
		Continued: func(missing string) string { return map[string]string{forever: odd, odd: forever}[missing] },
	}
}

// twoGenerations makes the files of two streams, of which the second has so many messages. If orderly is false they are copied while the server runs.
func twoGenerations(t *testing.T, orderly bool, next int) string {
	t.Helper()
	dir, copied := t.TempDir(), t.TempDir()
	serve(t, dir, func(js jetstream.JetStream) {
		config := jetstream.StreamConfig{Name: forever, Subjects: []string{"usage"}, DenyDelete: true, DenyPurge: true}
		steps := []func() error{
			func() error { _, err := js.CreateStream(t.Context(), config); return err },
			func() error { return fill(t, js, atClosing-1) },
			func() error {
				config.Subjects = []string{"closed"}
				_, err := js.UpdateStream(t.Context(), config)
				return err
			},
			func() error { _, err := js.Publish(t.Context(), "closed", nil); return err },
			func() error {
				config.Name, config.Subjects, config.FirstSeq = odd, []string{"usage"}, atClosing+1
				_, err := js.CreateStream(t.Context(), config)
				return err
			},
			func() error { return fill(t, js, next) },
		}
		for _, step := range steps {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		if !orderly {
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
		}
	})
	if orderly {
		return dir
	}
	return copied
}

func fill(t *testing.T, js jetstream.JetStream, count int) error {
	t.Helper()
	body := bytes.Repeat([]byte("quire "), 700)
	for range count {
		if _, err := js.PublishAsync("usage", body, jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	<-js.PublishAsyncComplete()
	return nil
}

// TestGenerationsAreCheckedAsOneJournal: the second stream begins where the first one ends, also after it has been started again without a message.
func TestGenerationsAreCheckedAsOneJournal(t *testing.T) {
	for _, next := range []int{0, 1, messages} {
		for _, orderly := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d, orderly %t", next, orderly), func(t *testing.T) {
				dir := twoGenerations(t, orderly, next)
				for range 2 {
					opts := generations()
					opts.Clean, opts.AtOnce = orderly, 1
					report, err := Check(t.Context(), dir, opts)
					if err != nil {
						t.Fatal(err)
					}
					for _, l := range report.rest {
						if l.stream == forever {
							t.Error("a block of the closed stream is left for later")
						}
					}
					for _, s := range report.Streams {
						want := map[string]Stream{forever: {forever, 1, atClosing, nil}, odd: {odd, atClosing + 1, uint64(atClosing + next), nil}}[s.Name]
						if next == 0 && s.Name == odd {
							want = Stream{Name: odd}
						}
						if s != want {
							t.Errorf("%+v, want %+v", s, want)
						}
					}
					if err := report.RenewIndexes(write); err != nil {
						t.Fatal(err)
					}
					serve(t, dir, func(js jetstream.JetStream) {
						stream, err := js.Stream(t.Context(), odd)
						if err != nil {
							t.Fatal(err)
						}
						if state := stream.CachedInfo().State; state.FirstSeq != atClosing+1 || state.LastSeq != uint64(atClosing+next) {
							t.Errorf("the server has %+v", state)
						}
						if err := report.CheckRest(t.Context()); err != nil {
							t.Error(err)
						}
					})
					orderly = true
				}
			})
		}
	}
}

func write(file string, data []byte) error { return os.WriteFile(file, data, 0o600) }

// blocksOf are the stream's blocks with records, which begin with another number than 1 after a purge.
func blocksOf(t *testing.T, dir, stream string) []blockFile {
	t.Helper()
	list, err := listBlocks(filepath.Join(dir, streamFolder, stream))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestALostGenerationIsNoticed, unlike one that was deleted after it was closed.
func TestALostGenerationIsNoticed(t *testing.T) {
	made := twoGenerations(t, true, messages)
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		want   string // empty: it is fine
	}{
		"closed one deleted": {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, streamFolder, forever)) }, ""},
		"open one gone":      {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, streamFolder, odd)) }, "is missing"},
		"first block of the open one gone": {
			func(t *testing.T, dir string) { remove(t, blocksOf(t, dir, odd)[0].Path) }, "does not begin with its first",
		},
		"first block of the closed one gone": {
			func(t *testing.T, dir string) { remove(t, blocks(t, dir, forever)[0]) }, "does not begin with its first",
		},
		"last block of the closed one gone": {
			func(t *testing.T, dir string) { remove(t, last(blocks(t, dir, forever))) }, "ends at sequence",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(made)); err != nil {
				t.Fatal(err)
			}
			c.damage(t, dir)
			opts := generations()
			opts.Clean = true
			_, err := Check(t.Context(), dir, opts)
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestAGenerationMayBeDeletedWhileItIsChecked beside the server, having been closed meanwhile.
func TestAGenerationMayBeDeletedWhileItIsChecked(t *testing.T) {
	dir := twoGenerations(t, true, messages)
	opts := generations()
	opts.AtOnce = 1
	report, err := Check(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	if report.Left() == 0 {
		t.Fatal("nothing is left for later")
	}
	serve(t, dir, func(js jetstream.JetStream) {
		if err := js.DeleteStream(t.Context(), odd); err != nil {
			t.Fatal(err)
		}
		if err := report.CheckRest(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestAStreamThatWasBeingDeletedIsKept, as a kill leaves it after the server has removed its description. It is damaged if no open
// stream continues it.
func TestAStreamThatWasBeingDeletedIsKept(t *testing.T) {
	made := twoGenerations(t, false, messages)
	lose := func(t *testing.T, names ...string) string {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(made)); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			remove(t, filepath.Join(dir, streamFolder, filepath.FromSlash(name)))
		}
		return dir
	}
	for _, names := range [][]string{{odd + "/meta.inf"}, {forever + "/meta.inf", odd + "/meta.inf"}, {forever + "/meta.inf", odd}, {forever + "/meta.inf", forever + "/meta.sum"}} {
		if _, err := Check(t.Context(), lose(t, names...), generations()); !errors.Is(err, ErrDamaged) {
			t.Errorf("without %q: %v", names, err)
		}
	}
	alone := generations()
	alone.Continued = nil
	if _, err := Check(t.Context(), lose(t, forever+"/meta.inf"), alone); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "meta.inf") {
		t.Errorf("nothing continues it: %v", err)
	}
	dir := lose(t, forever+"/meta.inf")
	report, err := Check(t.Context(), dir, generations())
	if err != nil {
		t.Fatal(err)
	}
	aside := filepath.Join(t.TempDir(), "aside")
	kept, err := report.KeepDeleted(aside)
	if err != nil || len(kept) != 1 || filepath.Dir(kept[0]) != aside {
		t.Fatalf("kept %q, %v", kept, err)
	}
	want, _ := fs.Glob(os.DirFS(filepath.Join(made, streamFolder, forever)), "msgs/*")
	if got, _ := fs.Glob(os.DirFS(filepath.Join(kept[0], forever)), "msgs/*"); len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("kept %q of %q", got, want)
	}
	again, err := Check(t.Context(), dir, generations())
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := again.KeepDeleted(aside); err != nil || len(kept) > 0 {
		t.Errorf("kept again: %q, %v", kept, err)
	}
	serve(t, dir, func(js jetstream.JetStream) {
		if _, err := js.Stream(t.Context(), odd); err != nil {
			t.Error(err)
		}
	})
}

// TestAStreamThatWasBeingCreatedIsRemoved, as a kill leaves it: without a message, and without its description or the checksum. It is
// damaged if it was known before.
func TestAStreamThatWasBeingCreatedIsRemoved(t *testing.T) {
	made := twoGenerations(t, false, 0)
	if b := blocksOf(t, made, odd); len(b) != 1 || b[0].Size != headerBytes+checksumBytes {
		t.Fatalf("a generation without messages has the blocks %v, want one that says where it begins", b)
	}
	for _, lost := range [][]string{{"meta.inf", "meta.sum"}, {"meta.sum"}, {"meta.inf", "meta.sum", "msgs"}} {
		t.Run(strings.Join(lost, " "), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(made)); err != nil {
				t.Fatal(err)
			}
			folder := filepath.Join(dir, streamFolder, odd)
			for _, file := range lost {
				if err := os.RemoveAll(filepath.Join(folder, file)); err != nil {
					t.Fatal(err)
				}
			}
			opts := generations()
			if _, err := Check(t.Context(), dir, opts); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "meta.inf") {
				t.Errorf("the generation was there: %v", err)
			}
			opts.Expected = []string{forever}
			report, err := Check(t.Context(), dir, opts)
			if err != nil {
				t.Fatal(err)
			}
			if removed, err := report.RemoveUnfinished(); err != nil || !slices.Equal(removed, []string{folder}) {
				t.Errorf("removed %q, %v", removed, err)
			}
			if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
				t.Error("it is still there:", err)
			}
			serve(t, dir, func(js jetstream.JetStream) {
				if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: odd, Subjects: []string{"usage"}, FirstSeq: atClosing + 1}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
