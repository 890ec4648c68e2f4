package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"quire.dev/tools/bench/internal/account"
	"quire.dev/tools/bench/internal/machine"
	"quire.dev/tools/bench/internal/stats"
)

const (
	fileBytes = 50 << 20
	// clientBuffer is large enough that the client's own calls to the kernel are no part of the figure.
	clientBuffer = 1 << 20
)

func median(values []float64) float64 { return stats.Median(values) }

// measureTransfers compares uploads with a write and an fsync of the same bytes on the same disk, and downloads with a bare
// handler that streams a file. There is one connection.
func (b *bench) measureTransfers(ctx context.Context) error {
	s, err := b.startServer(ctx, transfers)
	if err != nil {
		return err
	}
	a, err := s.account(ctx, "admin")
	if err != nil {
		return err
	}
	content := make([]byte, fileBytes)
	fill := rand.NewChaCha8([32]byte{1})
	if _, err := fill.Read(content); err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{ReadBufferSize: clientBuffer, WriteBufferSize: clientBuffer}}
	defer client.CloseIdleConnections()
	t := &transfer{server: s, account: a, client: client, content: content, fill: fill}
	if b.wants("upload") {
		if err := t.uploads(ctx); err != nil {
			return err
		}
	}
	if b.wants("download") {
		if err := t.downloads(ctx); err != nil {
			return err
		}
	}
	return s.check(ctx)
}

type transfer struct {
	server  *server
	account *account.Account
	client  *http.Client
	content []byte
	fill    io.Reader
}

func (t *transfer) uploads(ctx context.Context) error {
	b := t.server.bench
	var ratios, speeds []float64
	for range b.rounds {
		var written, uploaded float64
		for range b.transfers {
			seconds, err := machine.WriteSeconds(b.folder, t.content)
			if err != nil {
				return err
			}
			written += seconds
			if seconds, err = t.upload(ctx, nil); err != nil {
				return err
			}
			uploaded += seconds
		}
		ratios = append(ratios, written/uploaded)
		speeds = append(speeds, float64(b.transfers*fileBytes)/(1<<20)/uploaded)
	}
	b.note("upload", ratios, fmt.Sprintf("%.0f MB/s", median(speeds)))
	return nil
}

// upload uploads content that no other upload had, since equal content might be stored once.
func (t *transfer) upload(ctx context.Context, id *string) (seconds float64, err error) {
	if _, err := io.ReadFull(t.fill, t.content[:64]); err != nil {
		return 0, err
	}
	request, err := t.server.request(ctx, http.MethodPost, "/api/dev/files/upload?name=bench.bin", t.account.Key, "")
	if err != nil {
		return 0, err
	}
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(t.content)), fileBytes
	request.Header.Set("Content-Type", "application/octet-stream")
	started := time.Now()
	response, err := t.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	seconds = time.Since(started).Seconds()
	if err != nil || response.StatusCode != http.StatusCreated {
		return 0, fmt.Errorf("upload: %s %.200s: %w", response.Status, answer, err)
	}
	t.account.Succeeded(account.Upload)
	if id != nil {
		*id, err = idOf(answer)
	}
	return seconds, err
}

func (t *transfer) downloads(ctx context.Context) error {
	b := t.server.bench
	var id string
	if _, err := t.upload(ctx, &id); err != nil {
		return err
	}
	file := filepath.Join(b.folder, "file")
	if err := os.WriteFile(file, t.content, 0o600); err != nil {
		return err
	}
	bare, err := b.startBare(ctx, []recorded{{Method: http.MethodGet, Path: bareFile, File: file}})
	if err != nil {
		return err
	}
	var ratios, speeds []float64
	for range b.rounds {
		var streamed, downloaded float64
		for range b.transfers {
			seconds, err := t.download(ctx, bare.URL()+bareFile)
			if err != nil {
				return err
			}
			streamed += seconds
			if seconds, err = t.download(ctx, t.server.process.URL()+"/api/dev/files/get/"+id+"?download=1"); err != nil {
				return err
			}
			downloaded += seconds
			t.account.Succeeded(account.Download)
		}
		ratios = append(ratios, streamed/downloaded)
		speeds = append(speeds, float64(b.transfers*fileBytes)/(1<<20)/downloaded)
	}
	b.note("download", ratios, fmt.Sprintf("%.0f MB/s", median(speeds)))
	return nil
}

func (t *transfer) download(ctx context.Context, url string) (seconds float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("x-api-key", t.account.Key)
	started := time.Now()
	response, err := t.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	buffer := make([]byte, clientBuffer)
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, response.Body, buffer)
	seconds = time.Since(started).Seconds()
	if err != nil || response.StatusCode != http.StatusOK || n != fileBytes {
		return 0, fmt.Errorf("download: %s, %d bytes: %w", response.Status, n, err)
	}
	return seconds, nil
}

func idOf(answer []byte) (string, error) {
	var made struct{ ID string }
	err := json.Unmarshal(answer, &made)
	return made.ID, err
}
