package render

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"quire.dev/pkg/num"
)

// exitHung is the exit status of a process whose job hung.
const exitHung = 3

// Serve reads jobs of a Renderer from in and writes their results to out, until in ends. It is for a separate process: it
// bounds the process's memory (see Config.Bytes) and exits if a job hangs. The Renderer kills it too, unless the Renderer
// itself was killed.
func Serve(in io.Reader, out io.Writer) error {
	from, to := gob.NewDecoder(in), gob.NewEncoder(out)
	var s setup
	if err := from.Decode(&s); err != nil {
		return fmt.Errorf("this command is for a quire that renders texts: %w", err)
	}
	w := newWorker(newLanguages(), s.Deadline)
	base := heap()
	if err := limitMemory(s.Bytes); err != nil {
		return fmt.Errorf("bound the memory: %w", err)
	}
	for {
		var j job
		if err := from.Decode(&j); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("receive a job: %w", err)
		}
		hung := time.AfterFunc(compileLimit(s.Deadline)+s.Deadline, func() { os.Exit(exitHung) })
		failed := error(nil)
		w.started = func() { failed = to.Encode(&reply{}) }
		r := &reply{Result: w.run(&j, ownTime(s.Deadline))}
		hung.Stop()
		r.Last = grown(base + s.Bytes/4)
		if err := errors.Join(failed, to.Encode(r)); err != nil {
			return fmt.Errorf("send a result: %w", err)
		}
		if r.Last {
			return nil
		}
	}
}

// grown tells whether more than the given bytes are in use after a garbage collection: compiled lexers stay.
func grown(bytes int64) bool {
	if heap() <= bytes {
		return false
	}
	runtime.GC()
	return heap() > bytes
}

// heap is the memory of objects, including unswept garbage.
func heap() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return num.Int64(sample[0].Value.Uint64())
}

// limitGarbage makes the collector work harder as the heap nears its bound, on top of what the process already uses.
func limitGarbage(taken, bytes int64) { debug.SetMemoryLimit(taken + bytes*3/4) }
