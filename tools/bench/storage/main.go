// Command storage measures how many bytes Quire stores for a metered request, at three rates, for docs/scaling.md: one process on fresh data, and
// 64 accounts that read quick pastes, and create one with every fifth request.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/admin"
	"quire.dev/pkg/wait"
	"quire.dev/tools/bench/internal/account"
	"quire.dev/tools/bench/internal/load"
	"quire.dev/tools/bench/internal/wrk"
	"quire.dev/tools/cluster"
	"quire.dev/tools/cluster/scrape"
)

const (
	accounts    = 64
	connections = 64
	createEvery = 5

	createPath = "/api/dev/paste-lite/create"
	getPath    = "/api/dev/paste-lite/get/"

	// noSegments: none is made while requests are sent, so that there is one of all messages, as after an hour.
	noSegments = "QUIRE_SEGMENT_AGE=30d"

	limit = 5 * time.Minute // of a start, of a stop, and of the archive
)

// rate is a number of requests a second, and for how long they are sent.
type rate struct {
	perSecond int
	duration  time.Duration
}

func main() {
	quire := flag.String("quire", "bin/quire", "program to measure")
	dir := flag.String("dir", "data", "folder for the data")
	short := flag.Bool("smoke", false, "two seconds at each rate, to try this command; the figures mean nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	rates := []rate{{1, 10 * time.Minute}, {100, 2 * time.Minute}, {10_000, 30 * time.Second}}
	fmt.Println("| Requests a second | sent | billing journal | its segments | the log | billing's read model | GB a day, journal | GB a day, segments and log |")
	fmt.Println("|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, r := range rates {
		if *short {
			r.duration = 2 * time.Second
		}
		if err := measure(ctx, *quire, *dir, r); err != nil {
			fmt.Fprintln(os.Stderr, "storage:", err)
			os.Exit(1)
		}
	}
}

// stored are bytes of a data folder.
type stored struct{ journal, segments, log, model int64 }

// server is quire on its own data.
type server struct {
	program, folder, token string
	process                *cluster.Process
}

// measure prints the line of one rate.
func measure(ctx context.Context, program, dir string, r rate) (err error) {
	s := &server{program: program, token: rand.Text()}
	if s.folder, err = wrk.Folder(dir, "storage-"); err != nil {
		return err
	}
	defer func() {
		if s.process != nil && s.process.Running() {
			err = errors.Join(err, s.process.Kill())
		}
		err = errors.Join(err, os.RemoveAll(s.folder))
	}()
	if err := s.start(ctx, noSegments); err != nil {
		return err
	}
	keys, id, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	before, err := s.stored(ctx)
	if err != nil {
		return err
	}
	sent, err := s.send(ctx, r, keys, id)
	if err != nil {
		return err
	}
	after, err := s.stored(ctx)
	if err != nil {
		return err
	}
	each := func(a, b int64) float64 { return float64(a-b) / float64(sent) }
	day := func(bytes float64) float64 { return bytes * float64(r.perSecond) * 86400 / 1e9 }
	journal, segments, log := each(after.journal, before.journal), each(after.segments, before.segments), each(after.log, before.log)
	fmt.Printf("| %d | %d | %.0f | %.0f | %.0f | %.0f | %.3g | %.3g |\n",
		r.perSecond, sent, journal, segments, log, each(after.model, before.model), day(journal), day(segments+log))
	return nil
}

func (s *server) start(ctx context.Context, settings ...string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	log := filepath.Join(s.folder, "log")
	if err := os.RemoveAll(log); err != nil { // StartServer looks for the address in it
		return err
	}
	s.process, err = cluster.StartServer(ctx, log, append([]string{
		"QUIRE_DATA=" + s.data(), "QUIRE_LISTEN=127.0.0.1:0", "QUIRE_ADMIN_TOKEN=" + s.token,
	}, settings...), s.program)
	return err
}

func (s *server) data() string { return filepath.Join(s.folder, "data") }

// prepare makes the accounts, and the paste that they read.
func (s *server) prepare(ctx context.Context) (keys []string, id string, err error) {
	for n := range accounts {
		a, err := account.New(ctx, admin.Client{Base: s.process.URL(), Token: s.token}, fmt.Sprintf("storage-%d@example.org", n), "admin")
		if err != nil {
			return nil, "", err
		}
		keys = append(keys, a.Key)
	}
	var made struct{ ID string }
	err = admin.Client{Base: s.process.URL(), Token: keys[0]}.Call(ctx, http.MethodPost, createPath, json.RawMessage(load.CreateBody()), &made)
	return keys, made.ID, err
}

// send sends requests at the rate, and returns how many. A failed one is an error.
func (s *server) send(ctx context.Context, r rate, keys []string, id string) (sent int, err error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	due := make(chan int)
	group, ctx := errgroup.WithContext(ctx)
	for range connections {
		group.Go(func() error {
			for n := range due {
				if err := s.request(ctx, client, keys[n%len(keys)], id, n%createEvery == 0); err != nil {
					return err
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		defer close(due)
		total := int(r.duration.Seconds() * float64(r.perSecond))
		for start := time.Now(); sent < total; sent++ {
			pause := time.Until(start.Add(time.Duration(sent) * time.Second / time.Duration(r.perSecond)))
			if pause > 0 && !wait.For(ctx, pause) {
				return ctx.Err()
			}
			select {
			case due <- sent:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return sent, group.Wait()
}

func (s *server) request(ctx context.Context, client *http.Client, key, id string, creates bool) error {
	method, path, body := http.MethodGet, getPath+id, ""
	if creates {
		method, path, body = http.MethodPost, createPath, load.CreateBody()
	}
	request, err := http.NewRequestWithContext(ctx, method, s.process.URL()+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // read below
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s is answered %s", method, path, response.Status)
	}
	return nil
}

// stored is what the data folder has, with everything archived. It stops and starts the server.
func (s *server) stored(ctx context.Context) (of stored, err error) {
	if err := s.stop(ctx); err != nil {
		return of, err
	}
	if err := s.start(ctx, "QUIRE_SEGMENT_AGE=1s", "QUIRE_CHECKPOINT_INTERVAL=1s"); err != nil {
		return of, err
	}
	if err := s.archived(ctx); err != nil {
		return of, err
	}
	if err := s.stop(ctx); err != nil {
		return of, err
	}
	if of, err = s.sizes(); err != nil {
		return of, err
	}
	return of, s.start(ctx, noSegments)
}

func (s *server) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return s.process.Stop(ctx)
}

// archived waits until this process has written a segment, and a checkpoint of the log that has all messages.
func (s *server) archived(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		page, err := scrape.Get(ctx, s.process.URL()+"/metrics")
		if err != nil {
			return err
		}
		at, bytes := metric(page, "quire_archive_checkpoint_timestamp_seconds"), metric(page, "quire_archive_segment_bytes_total")
		if at > 0 && bytes > 0 {
			return nil
		}
		if !wait.For(ctx, time.Second) {
			return errors.New("the journal is not archived")
		}
	}
}

// metric reads a metric without labels, 0 if the page has none.
func metric(page []byte, name string) float64 {
	for line := range strings.Lines(string(page)) {
		if rest, found := strings.CutPrefix(line, name+" "); found {
			value, _ := strconv.ParseFloat(strings.TrimSpace(rest), 64) // 0 until it can be read
			return value
		}
	}
	return 0
}

// sizes is what the stopped server has. Bytes of files count, not blocks of the disk, of which a bucket has none.
func (s *server) sizes() (of stored, err error) {
	parts := map[string]*int64{
		"/streams/BILLING_": &of.journal, "blobs/keys/archive/BILLING_": &of.segments,
		"blobs/keys/log/": &of.log, "blobs/keys/archive/log/": &of.log, "views/billing.": &of.model,
	}
	err = filepath.WalkDir(s.data(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		for part, size := range parts {
			if err == nil && strings.Contains(path, part) {
				*size += info.Size()
			}
		}
		return err
	})
	return of, err
}
