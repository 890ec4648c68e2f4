package render

import (
	"encoding/gob"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"time"
)

// setup is the first message to a process.
type setup struct {
	Bytes    int64 // memory for all jobs
	Deadline time.Duration
}

// reply is a message of a process. Each job sends two: the first when its clock starts.
type reply struct {
	Result *result // nil when the clock starts
	Last   bool    // the process exits because it has grown
}

// compileLimit bounds the work outside of a job's time: starting a process and compiling a lexer.
func compileLimit(deadline time.Duration) time.Duration { return max(5*time.Second, 5*deadline) }

// ownTime is the part of a job's time after which it gives up by itself. At the deadline its process is killed.
func ownTime(deadline time.Duration) time.Duration { return deadline * 3 / 4 }

// process runs jobs in a child process, started for the first job and again after a job that killed it. It is not safe for
// concurrent use.
type process struct {
	command  []string
	bytes    int64
	deadline time.Duration
	log      *slog.Logger

	cmd    *exec.Cmd // nil: not running
	killer *time.Timer
	to     io.Closer
	in     *gob.Encoder
	out    *gob.Decoder
}

// run implements runner.
func (p *process) run(j *job, deadline time.Duration) *result {
	if p.cmd == nil || p.send(j) != nil { // it was killed since its last job
		p.close()
		if err := p.start(); err != nil {
			p.log.Error("a process that renders texts can't be started: they are shown plainly", "error", err)
			return &result{GaveUp: true}
		}
		_ = p.send(j) // the receive fails as well
	}
	out, err := p.receive(deadline)
	if err != nil {
		_ = p.cmd.Process.Kill()
		p.log.Warn("a text could not be rendered and is shown plainly", "error", err, "process", p.stop(),
			"kind", string(j.Kind), "lexer", j.Lexer, "bytes", len(j.Text)+len(j.After))
		return &result{GaveUp: true}
	}
	return out
}

func (p *process) send(j *job) error {
	p.killer.Reset(compileLimit(p.deadline))
	return p.in.Encode(j)
}

// receive waits for the result of the job. The deadline starts with the first of two messages.
func (p *process) receive(deadline time.Duration) (*result, error) {
	defer p.killer.Stop()
	for {
		var r reply
		if err := p.out.Decode(&r); err != nil {
			return nil, err
		}
		if r.Result == nil {
			p.killer.Reset(deadline)
			continue
		}
		if r.Last {
			p.stop()
		}
		return r.Result, nil
	}
}

func (p *process) start() (err error) {
	cmd := exec.Command(p.command[0], p.command[1:]...) //nolint:gosec // this program
	cmd.Env = []string{}                                // no secrets
	to, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	of, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.to, p.in, p.out = cmd, to, gob.NewEncoder(to), gob.NewDecoder(of)
	p.killer = time.AfterFunc(compileLimit(p.deadline), func() { _ = cmd.Process.Kill() })
	if err := p.in.Encode(&setup{Bytes: p.bytes, Deadline: p.deadline}); err != nil {
		return fmt.Errorf("%w (process: %s)", err, p.stop())
	}
	return nil
}

// stop closes the process's input, waits for it to exit and returns how it ended.
func (p *process) stop() string {
	_ = p.to.Close()
	_ = p.cmd.Wait() // an error says how it ended
	p.killer.Stop()
	ended := p.cmd.ProcessState.String()
	p.cmd = nil
	return ended
}

// close implements runner.
func (p *process) close() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill() // it holds no state
		p.stop()
	}
}
