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
	Bytes    int64 // that jobs may allocate together
	Deadline time.Duration
}

// reply is a message of a process. A job has two: the first when its time begins.
type reply struct {
	Result *result // nil: the time begins
	Last   bool    // the process ends, because it has grown
}

// compileLimit bounds what is no part of a job's time: the start of a process, and compiling a lexer.
const compileLimit = 5 * time.Second

// ownTime is the part of a job's time after which it gives up by itself. At the end of all of it its process is killed.
func ownTime(deadline time.Duration) time.Duration { return deadline * 3 / 4 }

// process runs jobs in a process of its own, which is started for the first job, and again after each one that it did not
// survive. It is not safe for concurrent use.
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
	if p.cmd == nil || p.send(j) != nil { // somebody has killed it since its last job
		p.close()
		if err := p.start(); err != nil {
			p.log.Error("a process that renders texts can't be started: they are shown plainly", "error", err)
			return &result{GaveUp: true}
		}
		_ = p.send(j) // then there is no result either
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
	p.killer.Reset(compileLimit)
	return p.in.Encode(j)
}

// receive waits for the result of the job that was sent. The deadline begins with the first of two messages.
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
	cmd.Env = []string{}                                // no secret of ours
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
	p.killer = time.AfterFunc(compileLimit, func() { _ = cmd.Process.Kill() })
	if err := p.in.Encode(&setup{Bytes: p.bytes, Deadline: p.deadline}); err != nil {
		return fmt.Errorf("%w (process: %s)", err, p.stop())
	}
	return nil
}

// stop ends the process, which reads the end of its jobs, waits for it, and says how it ended.
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
		_ = p.cmd.Process.Kill() // it has nothing to lose
		p.stop()
	}
}
