package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"quire.dev/cli"
	"quire.dev/pkg/eventually"
)

// commandDriver calls by `quire paste`: each call is a command.
type commandDriver struct{ home, base, key string }

func newCommandDriver(t *testing.T, base, key string) driver {
	t.Helper()
	return &commandDriver{t.TempDir(), base, key}
}

// printed is what a command has printed, and its exit status.
type printed struct {
	out, errs string
	status    int
}

// run runs a command without a terminal.
func (d *commandDriver) run(ctx context.Context, args ...string) (printed, error) {
	folder, err := os.MkdirTemp(d.home, "run-")
	if err != nil {
		return printed{}, err
	}
	streams := cli.Streams{Environ: []string{"HOME=" + d.home, "TMPDIR=" + folder, "QUIRE_URL=" + d.base, "QUIRE_API_KEY=" + d.key}}
	names := []string{"in", "out", "err"}
	for n, stream := range []**os.File{&streams.In, &streams.Out, &streams.Err} {
		if *stream, err = os.Create(filepath.Join(folder, names[n])); err != nil {
			return printed{}, err
		}
		defer (*stream).Close()
	}
	status := cli.Main(ctx, streams, "1.2.3", append([]string{"paste", "--json"}, args...))
	out, err := os.ReadFile(streams.Out.Name())
	if err != nil {
		return printed{}, err
	}
	errs, err := os.ReadFile(streams.Err.Name())
	return printed{string(out), string(errs), status}, err
}

// objects runs a command that must succeed, and returns its output: one JSON object per line.
func (d *commandDriver) objects(ctx context.Context, args ...string) ([]object, error) {
	p, err := d.run(ctx, args...)
	if err != nil {
		return nil, err
	}
	if p.status != cli.ExitOK {
		return nil, fmt.Errorf("%q: status %d, %s", args, p.status, p.errs)
	}
	var found []object
	for line := range strings.Lines(p.out) {
		var o object
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			return nil, fmt.Errorf("%q printed %q: %w", args, line, err)
		}
		found = append(found, o)
	}
	return found, nil
}

// object is objects for a command that prints one.
func (d *commandDriver) object(ctx context.Context, args ...string) (object, error) {
	found, err := d.objects(ctx, args...)
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%q printed %d objects", args, len(found))
	}
	return found[0], nil
}

func (d *commandDriver) call(ctx context.Context, op string, args object) (object, error) {
	arg := func(name string) string { s, _ := args[name].(string); return s }
	kind, quick := "paste", strings.Contains(op, "QuickPaste")
	address := "p/" + arg("id")
	if quick {
		kind, address = "quick", "q/"+arg("id")
	}
	switch strings.Replace(op, "QuickPaste", "Paste", 1) {
	case "createPaste":
		file := filepath.Join(d.home, "content")
		if err := os.WriteFile(file, []byte(arg("content")), 0o600); err != nil {
			return nil, err
		}
		return d.object(ctx, "create", "--quick="+strconv.FormatBool(quick), "--title", arg("title"), file)
	case "getPaste":
		return d.object(ctx, "get", address)
	case "updatePaste":
		return d.object(ctx, "edit", "--title", arg("title"), address)
	case "deletePaste":
		return d.object(ctx, "rm", "--yes", address)
	case "listPastes":
		found, err := d.objects(ctx, "ls", "--all", "--kind", kind, "--search", arg("q"))
		ids := make([]any, len(found))
		for n, o := range found {
			ids[n] = o["id"]
		}
		return object{"ids": ids}, err
	case "uploadFile":
		return d.object(ctx, "upload", "--name", arg("name"), arg("path"))
	case "downloadFile":
		return d.object(ctx, "download", "--force", "-o", arg("path"), "f/"+arg("id"))
	case "deleteFile":
		return d.object(ctx, "rm", "--yes", "f/"+arg("id"))
	}
	return nil, fmt.Errorf("operation %s", op)
}

// moreThanRetries is a number of faults that no client outlasts.
func moreThanRetries(f fault) []fault { return slices.Repeat([]fault{f}, 20) }

// TestTheCommandLineTellsWhetherItMayHaveBeenDone: if no response comes through, the exit status tells a script whether the
// command may have been executed, and no output looks like an address.
func TestTheCommandLineTellsWhetherItMayHaveBeenDone(t *testing.T) {
	i := common(t)
	for _, test := range []struct {
		fault  fault
		status int
		code   string
		used   int64
	}{
		{unavailableBefore, cli.ExitUnavailable, "unavailable", 0},
		{timeoutAfter, cli.ExitUnknown, "outcome_unknown", 1},
		{dropAfter, cli.ExitUnknown, "", 1},
	} {
		t.Run(string(test.fault), func(t *testing.T) {
			t.Parallel()
			a, proxy := i.account(t, "pro"), newInjector(t, i)
			d := &commandDriver{t.TempDir(), proxy.server.URL, a.key}
			path := filepath.Join(d.home, "a.txt")
			if err := os.WriteFile(path, []byte("hello\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			proxy.inject(moreThanRetries(test.fault)...)
			got, err := d.run(t.Context(), "create", path)
			if err != nil || got.status != test.status || got.out != "" {
				t.Fatalf("%v %+v", err, got)
			}
			var failure struct {
				Error struct {
					Code       string
					ExitStatus int
				}
			}
			if err := json.Unmarshal([]byte(got.errs), &failure); err != nil || failure.Error.ExitStatus != test.status || test.code != "" && failure.Error.Code != test.code {
				t.Errorf("%v %s", err, got.errs)
			}
			eventually.NoError(t, "it is charged once if it was carried out", func() error {
				if used := a.used(t, "pastes.create"); used != test.used {
					return fmt.Errorf("%d charges", used)
				}
				return nil
			})
		})
	}
}
