package bundle

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func versionText(cfg Config) []byte {
	var text bytes.Buffer
	fmt.Fprintf(&text, "quire %s\ncollected %s\n%s/%s, %d CPUs\n", cfg.Version, cfg.Now.UTC().Format(time.RFC3339), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if build, ok := debug.ReadBuildInfo(); ok {
		text.WriteString(build.String())
	}
	return text.Bytes()
}

func (a *archive) addStreams(ctx context.Context, streams func(context.Context) ([]*jetstream.StreamInfo, error)) {
	const name = "streams.json"
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	found, err := streams(ctx)
	if err != nil {
		a.lack(name, err)
	}
	if len(found) > 0 {
		a.addJSON(name, found)
	}
}

// maxFiles is the maximum number of files examined in the data folder.
const maxFiles = 200_000

// addFolder adds the sizes of the data folder's files. There are many blobs, so they have one line.
func (a *archive) addFolder(ctx context.Context, folder string) {
	const name = "files.txt"
	var text bytes.Buffer
	var files, blobs, unread int
	var blobBytes int64
	folder = filepath.Clean(folder)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && path == folder:
			return err
		case err != nil:
			unread++
			return nil
		case entry.IsDir():
			return nil
		}
		if files++; files > maxFiles {
			return fmt.Errorf("more than %d files", maxFiles)
		}
		info, err := entry.Info()
		if err != nil {
			return nil //nolint:nilerr // deleted just now
		}
		relative := strings.TrimPrefix(path, folder+string(filepath.Separator))
		if strings.HasPrefix(relative, "blobs"+string(filepath.Separator)) {
			blobs++
			blobBytes += info.Size()
			return nil
		}
		fmt.Fprintf(&text, "%12d  %s  %s  %s\n", info.Size(), info.Mode(), info.ModTime().UTC().Format(time.RFC3339), relative)
		return nil
	})
	if err == nil && unread > 0 {
		err = fmt.Errorf("%d folders can't be read", unread)
	}
	if err != nil {
		a.lack(name, err)
	}
	if files > 0 {
		fmt.Fprintf(&text, "%12d  in %d files of blobs\n", blobBytes, blobs)
		a.addText(name, text.Bytes(), "")
	}
}

// addOps adds what an operators' listener serves. Stacks have no arguments (debug=1), which could be parts of a secret.
func (a *archive) addOps(ctx context.Context, folder, base string) {
	base = strings.TrimSuffix(base, "/")
	a.addText(folder+"/url.txt", []byte(base+"\n"), "")
	for _, p := range []struct {
		name, path string
		binary     bool
	}{
		{"readyz.json", "/readyz", false},
		{"metrics.txt", "/metrics", false},
		{"goroutines.txt", "/debug/pprof/goroutine?debug=1", false},
		{"heap.pprof.gz", "/debug/pprof/heap", true},
	} {
		name := folder + "/" + p.name
		body, err := fetch(ctx, base+p.path)
		switch {
		case err != nil:
			a.lack(name, err)
			if body == nil {
				return // no server: the others would take as long
			}
		case p.binary && len(body) > maxPart:
			a.lack(name, fmt.Errorf("larger than %d MiB", maxPart>>20))
		case p.binary:
			a.write(name, body, "") // names of functions and sizes
		default:
			a.addText(name, body, "")
		}
	}
}

// fetch returns the body of an answer, up to one byte more than maxPart. The body is nil if there is no answer.
func fetch(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxPart+1))
	// An unready process answers 503 with the checks that fail.
	unready := response.StatusCode == http.StatusServiceUnavailable && strings.HasSuffix(request.URL.Path, "/readyz")
	if err == nil && response.StatusCode != http.StatusOK && !unready {
		err = fmt.Errorf("%s answers %s", url, response.Status)
	}
	return append([]byte{}, body...), err
}

// addLog adds the last lines of a file.
func (a *archive) addLog(path string) {
	const name = "log.txt"
	lines, note, err := tail(path)
	if err != nil {
		a.lack(name, err)
		return
	}
	a.addText(name, lines, note)
}

func tail(path string) (lines []byte, note string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, "", err
	}
	if !info.Mode().IsRegular() {
		return nil, "", fmt.Errorf("%s is no regular file", path)
	}
	from := max(0, info.Size()-maxPart)
	lines, err = io.ReadAll(io.NewSectionReader(file, from, min(info.Size(), maxPart)))
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", path, err)
	}
	if from > 0 {
		// Part of a line may begin with part of a secret.
		_, lines, _ = bytes.Cut(lines, []byte("\n"))
		note = fmt.Sprintf("the last %d MiB", maxPart>>20)
	}
	return lines, note, nil
}
