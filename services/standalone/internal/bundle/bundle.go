// Package bundle collects what helps to find a fault of an installation into one archive, without secrets, addresses and content.
package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"quire.dev/pkg/host"
	"quire.dev/services/standalone/internal/doctor"
)

// Config says what to collect.
type Config struct {
	Version  string // of quire
	Settings []host.Shown
	Secrets  []string // replaced wherever they appear
	Data     string   // the data folder; empty: not examined
	Ops      []string // base URLs of operators' listeners
	Log      string   // file whose end is included; empty: none
	Missing  []Missing
	Now      time.Time

	// Doctor and Streams examine the servers; nil: nothing does.
	Doctor  func(context.Context) []doctor.Finding
	Streams func(context.Context) ([]*jetstream.StreamInfo, error) // what could be had, beside the error
}

// Part is a file of the archive.
type Part struct {
	Name  string
	Bytes int
	Note  string // "the last 4 MiB", or empty
}

// Missing is what could not be had, and why.
type Missing struct{ Name, Reason string }

// Contents are the parts of an archive.
type Contents struct {
	Parts   []Part
	Missing []Missing
}

// Print writes the contents for people.
func (c Contents) Print(w io.Writer) error {
	var text bytes.Buffer
	for _, p := range c.Parts {
		fmt.Fprintf(&text, "%10d  %s", p.Bytes, p.Name)
		if p.Note != "" {
			fmt.Fprintf(&text, " (%s)", p.Note)
		}
		text.WriteByte('\n')
	}
	for _, m := range c.Missing {
		fmt.Fprintf(&text, "   missing  %s: %s\n", m.Name, m.Reason)
	}
	_, err := w.Write(text.Bytes())
	return err
}

// Bounds of an archive, before compression.
const (
	maxPart  = 4 << 20
	maxTotal = 128 << 20
	maxTime  = 2 * time.Minute
	wait     = 15 * time.Second // for one request or server
)

// Write writes a .tar.gz archive to w. What can't be had is listed as missing. The error comes from w, or from a canceled ctx.
func Write(ctx context.Context, w io.Writer, cfg Config) (Contents, error) {
	limited, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	packed := gzip.NewWriter(w)
	a := &archive{tar: tar.NewWriter(packed), redactor: newRedactor(cfg.Secrets), now: cfg.Now}
	for _, m := range cfg.Missing {
		a.lack(m.Name, errors.New(m.Reason))
	}
	a.addText("version.txt", versionText(cfg), "")
	a.addJSON("settings.json", cfg.Settings)
	if cfg.Doctor != nil {
		a.addJSON("doctor.json", cfg.Doctor(limited))
	}
	if cfg.Streams != nil {
		a.addStreams(limited, cfg.Streams)
	}
	if cfg.Data != "" {
		a.addFolder(limited, cfg.Data)
	}
	for n, base := range cfg.Ops {
		a.addOps(limited, fmt.Sprintf("ops/%d", n+1), base)
	}
	if cfg.Log != "" {
		a.addLog(cfg.Log)
	}
	var listing bytes.Buffer
	_ = a.contents.Print(&listing) // a buffer takes all
	a.file("contents.txt", listing.Bytes(), "")
	return a.contents, errors.Join(a.err, ctx.Err(), a.tar.Close(), packed.Close())
}

// archive is being written. Nothing more is written after the first error.
type archive struct {
	redactor

	tar      *tar.Writer
	now      time.Time
	contents Contents
	total    int
	err      error
}

func (a *archive) lack(name string, err error) {
	a.contents.Missing = append(a.contents.Missing, Missing{Name: name, Reason: a.text(err.Error())})
}

// addText adds a text without its secrets. One that is too long ends with a whole line, since part of a secret would not be found.
func (a *archive) addText(name string, text []byte, note string) {
	if len(text) > maxPart {
		text, note = text[:bytes.LastIndexByte(text[:maxPart], '\n')+1], fmt.Sprintf("the first %d MiB", maxPart>>20)
	}
	a.write(name, []byte(a.text(string(text))), note)
}

func (a *archive) addJSON(name string, value any) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		a.lack(name, err)
		return
	}
	a.addText(name, text.Bytes(), "")
}

// write adds a file, if there is room for it.
func (a *archive) write(name string, data []byte, note string) {
	if a.total+len(data) > maxTotal {
		a.lack(name, fmt.Errorf("the archive would exceed %d MiB", maxTotal>>20))
		return
	}
	a.total += len(data)
	a.file(name, data, note)
}

func (a *archive) file(name string, data []byte, note string) {
	if a.err != nil {
		return
	}
	header := &tar.Header{Name: "quire-debug/" + name, Mode: 0o600, Size: int64(len(data)), ModTime: a.now, Format: tar.FormatPAX}
	if a.err = a.tar.WriteHeader(header); a.err == nil {
		_, a.err = a.tar.Write(data)
	}
	a.contents.Parts = append(a.contents.Parts, Part{Name: name, Bytes: len(data), Note: note})
}
