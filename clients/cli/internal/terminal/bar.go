package terminal

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"
)

// Meter is a bar of a number of columns, of which a share between 0 and 1 is full. It is exact to an eighth of a column.
func Meter(share float64, columns int) string {
	if columns < 1 {
		return ""
	}
	share = min(max(share, 0), 1)
	if math.IsNaN(share) {
		share = 0
	}
	eighths := int(share*float64(columns)*8 + 0.5)
	if share > 0 {
		eighths = max(eighths, 1) // something is there
	}
	full := strings.Repeat("█", eighths/8)
	if part := eighths % 8; part > 0 {
		full += string([]rune(" ▏▎▍▌▋▊▉")[part])
	}
	return full + strings.Repeat("░", columns-(eighths+7)/8)
}

const (
	// barEach is how often a bar is drawn at most: faster changes can't be read.
	barEach = 100 * time.Millisecond
	// widestMeter is the most columns that the bar itself takes.
	widestMeter = 30
)

// Bar shows how far a transfer is, in one line that is drawn over again. It is safe for concurrent use. Where its file is
// no terminal it writes nothing.
type Bar struct {
	mu          sync.Mutex
	file        *os.File
	name        string
	began, last time.Time
	now         func() time.Time
	drawn       bool
	ended       bool
}

// NewBar makes a bar on standard error, which is drawn by the first Set. The caller calls End.
func (t *Terminal) NewBar(name string) *Bar {
	b := &Bar{name: Visible(name, false), now: time.Now, ended: !IsTerminal(t.Err), file: t.Err}
	b.began = b.now()
	return b
}

// Set draws that done bytes of total were transferred; a total of -1 is not known.
func (b *Bar) Set(done, total int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if b.ended || b.drawn && now.Sub(b.last) < barEach && done != total {
		return
	}
	b.last, b.drawn = now, true
	// To the line's start, the line, and what an earlier line has left behind it is erased. The last column stays free:
	// some terminals begin a new line as soon as it is written.
	_, _ = io.WriteString(b.file, "\r"+b.line(done, total, Width(b.file)-1)+"\x1b[K")
}

// End erases the bar. It may be called several times.
func (b *Bar) End() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drawn && !b.ended {
		_, _ = io.WriteString(b.file, "\r\x1b[K")
	}
	b.ended = true
}

// line is the bar in a number of columns. What has no room is left out: first the meter, then the time that is left, the
// rate, the name.
func (b *Bar) line(done, total int64, width int) string {
	amount := Size(done)
	var share float64
	percent, left := "", ""
	elapsed := b.now().Sub(b.began).Seconds()
	var rate float64
	if elapsed > 0 {
		rate = float64(done) / elapsed
	}
	if total > 0 {
		share = float64(done) / float64(total)
		percent = fmt.Sprintf("%3d%%", int(share*100))
		amount += " of " + Size(total)
		if rate > 0 && elapsed >= 1 {
			left = duration(float64(total-done)/rate) + " left"
		}
	}
	speed := ""
	if elapsed >= 1 {
		speed = Size(int64(rate)) + "/s"
	}
	for _, parts := range [][]string{{b.name, percent, amount, speed, left}, {b.name, percent, amount, speed}, {b.name, percent, amount}, {b.name, percent}} {
		text := joined(parts)
		free := width - Columns(text)
		if free < 0 {
			continue
		}
		const least = 8 // columns of a meter that says something
		if meter := min(free-gap, widestMeter); total > 0 && meter >= least {
			text = joined(append([]string{b.name, Meter(share, meter)}, parts[1:]...))
		}
		return text
	}
	if name := width - gap - Columns(percent); percent != "" && name >= len("a…") {
		return joined([]string{Cut(b.name, name), percent})
	}
	return Cut(strings.TrimSpace(percent), width)
}

// joined are the parts that there are, with a gap between two.
func joined(parts []string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, strings.Repeat(" ", gap))
}

// duration is a number of seconds, as minutes and seconds.
func duration(seconds float64) string {
	const most = 99*60 + 59
	n := int(min(math.Ceil(seconds), most))
	return fmt.Sprintf("%d:%02d", n/60, n%60)
}
