package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"quire.dev/tools/bench/internal/report"
	"quire.dev/tools/bench/internal/wrk"
)

const (
	flameWidth = 1200.0
	flameLine  = 17.0
	// flameLeast is the minimum width of a drawn frame, and flameText of a labeled one.
	flameLeast, flameText = 0.4, 24.0
	flameLetter           = 6.3 // width of a letter
)

// frame is a function in a flame graph, with its callees.
type frame struct {
	name  string
	value int64
	calls map[string]*frame
}

// frames merges the stacks of a profile. Values are of its last sample type, which is time in a CPU profile.
func frames(p *profile.Profile) *frame {
	root := &frame{name: "all", calls: map[string]*frame{}}
	for _, sample := range p.Sample {
		value := sample.Value[len(sample.Value)-1]
		root.value += value
		at := root
		for _, location := range slices.Backward(sample.Location) {
			for _, line := range slices.Backward(location.Line) { // the innermost inlined function comes first
				at = at.call(line.Function.Name, value)
			}
		}
	}
	return root
}

func (f *frame) call(name string, value int64) *frame {
	next := f.calls[name]
	if next == nil {
		next = &frame{name: name, calls: map[string]*frame{}}
		f.calls[name] = next
	}
	next.value += value
	return next
}

func (f *frame) depth() int {
	most := 0
	for _, c := range f.calls {
		if c.width(f) > 0 {
			most = max(most, c.depth())
		}
	}
	return most + 1
}

// width is the share of a frame in another.
func (f *frame) width(of *frame) float64 { return float64(f.value) / float64(max(of.value, 1)) }

// flameGraph draws the stacks of a profile: callers below, and each as wide as its share of the time. A frame shows its name and
// share on hover.
func flameGraph(title string, p *profile.Profile) string {
	root := frames(p)
	height := flameLine*float64(root.depth()) + 3*flameLine
	var out strings.Builder
	out.WriteString(report.Label(flameWidth/2, flameLine*1.3, "middle", title))
	drawFrame(&out, root, root, 0, height-flameLine)
	return report.SVG(flameWidth, height, title, out.String())
}

func drawFrame(out *strings.Builder, f, root *frame, left, bottom float64) {
	width := f.width(root) * flameWidth
	if width < flameLeast {
		return
	}
	name := f.name[strings.LastIndexByte(f.name, '/')+1:]
	fmt.Fprintf(out, `<g><title>%s: %.1f %%</title><rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" stroke="white" stroke-width="0.5"/>`,
		report.Escape(f.name), 100*f.width(root), left, bottom-flameLine, width, flameLine, flameColor(f.name))
	if width >= flameText {
		fmt.Fprintf(out, `<text x="%.1f" y="%.1f" font-size="11">%s</text>`, left+3, bottom-4, report.Escape(name[:min(len(name), int((width-6)/flameLetter))]))
	}
	out.WriteString("</g>\n")
	calls := make([]*frame, 0, len(f.calls))
	for _, c := range f.calls {
		calls = append(calls, c)
	}
	slices.SortFunc(calls, func(a, b *frame) int { return cmp.Compare(a.name, b.name) })
	for _, c := range calls {
		drawFrame(out, c, root, left, bottom-flameLine)
		left += c.width(root) * flameWidth
	}
}

// flameColor is the same for all functions of a package: blue for quire, warm colours for others.
func flameColor(name string) string {
	pkg, _, _ := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ".")
	h := fnv.New32a()
	h.Write([]byte(pkg))
	if strings.HasPrefix(name, "quire.dev/") {
		return fmt.Sprintf("hsl(%d 55%% 78%%)", 195+h.Sum32()%40)
	}
	return fmt.Sprintf("hsl(%d 70%% 80%%)", 15+h.Sum32()%40)
}

// drawFlames profiles gets and creations within quota, each for one turn of a separate server.
func (b *bench) drawFlames(ctx context.Context) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	s, err := b.startServer(ctx, "profiles", "QUIRE_OPS_LISTEN="+address)
	if err != nil {
		return err
	}
	r := &rated{bench: b, server: s}
	if r.quota, err = s.account(ctx, "admin"); err != nil {
		return err
	}
	if r.id, err = s.paste(ctx, r.quota); err != nil {
		return err
	}
	for _, kind := range kinds() {
		key, l := r.load(kind)
		if _, err := s.turn(ctx, r.quota, key, l, b.connections[0], warmUp); err != nil {
			return err
		}
		type turned struct {
			wrk.Result
			error
		}
		turn := make(chan turned, 1)
		go func() {
			result, err := s.turn(ctx, r.quota, key, l, b.connections[0], b.duration+time.Second)
			turn <- turned{result, err}
		}()
		p, err := fetchProfile(ctx, address, b.duration)
		t := <-turn
		if err := errors.Join(err, t.error); err != nil {
			return fmt.Errorf("profile of %s: %w", kind, err)
		}
		title := fmt.Sprintf("CPU of quire, %s, %s, %.0f requests a second", kind, inWords(b.connections[0]), t.Rate())
		b.report.Plots = append(b.report.Plots, report.Plot{Name: "flame-" + kind, Title: title, SVG: flameGraph(title, p)})
		b.profiles = append(b.profiles, p)
	}
	return s.check(ctx)
}

// writeProfile merges the profiles of the flame graphs into one, for `go build -pgo`. It names no file of this machine.
func writeProfile(path string, profiles []*profile.Profile) error {
	merged, err := profile.Merge(profiles)
	if err != nil {
		return fmt.Errorf("merge the profiles: %w", err)
	}
	for _, m := range merged.Mapping {
		m.File, m.BuildID = "quire", ""
	}
	var data bytes.Buffer
	if err := merged.Write(&data); err != nil {
		return fmt.Errorf("encode the profile: %w", err)
	}
	return os.WriteFile(path, data.Bytes(), 0o644)
}

func fetchProfile(ctx context.Context, address string, duration time.Duration) (*profile.Profile, error) {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address, max(1, int(duration.Seconds())))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return profile.Parse(response.Body)
}

// freeAddress is an address that nothing listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
