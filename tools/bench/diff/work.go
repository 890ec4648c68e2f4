package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"quire.dev/pkg/admin"
	"quire.dev/tools/bench/internal/account"
	"quire.dev/tools/bench/internal/load"
	"quire.dev/tools/bench/internal/machine"
	"quire.dev/tools/bench/internal/wrk"
)

// holder is whose API key a request has.
type holder string

const (
	unlimited holder = "unlimited" // the plan "admin", which is counted like any plan but has no limit
	paying    holder = "paying"    // Pro with its quotas of quick pastes used up, and credits
	exhausted holder = "exhausted" // Free with its quota of reads used up
	nobody    holder = "nobody"    // a key of the right form with a wrong signature
)

// work is a kind of request whose rate is compared.
type work struct {
	name, quotaKey string
	connections    int
	holder         holder
}

func works() []work {
	var list []work
	for _, connections := range []int{256, 32, 1} {
		list = append(list,
			work{fmt.Sprintf("get-%d", connections), account.Get, connections, unlimited},
			work{fmt.Sprintf("create-%d", connections), account.Create, connections, unlimited})
	}
	return append(list,
		work{"paid-get-32", account.Get, 32, paying},
		work{"paid-create-32", account.Create, 32, paying},
		work{"exhausted", account.Get, 32, exhausted},
		work{"bad-key", account.Get, 32, nobody},
		work{"upload", account.Upload, 1, unlimited},
		work{"download", account.Download, 1, unlimited})
}

// names are the names of all kinds of requests.
func names() string {
	var all []string
	for _, w := range works() {
		all = append(all, w.name)
	}
	return strings.Join(all, ", ")
}

// refused reports whether the server must refuse the requests.
func (w work) refused() bool { return w.holder == exhausted || w.holder == nobody }

// prepare creates the accounts that the kinds of requests in list need, and a paste to read.
func (c *comparison) prepare(ctx context.Context, s *side, list []work) error {
	owner, err := s.account(ctx, unlimited, "admin")
	if err != nil {
		return err
	}
	var paste struct{ ID string }
	client := admin.Client{Base: s.admin.Base, Token: owner.Key} // an API key goes in the same header as the administrator's token
	if err := client.Call(ctx, http.MethodPost, "/api/dev/paste-lite/create", json.RawMessage(load.CreateBody()), &paste); err != nil {
		return err
	}
	s.paste = paste.ID
	owner.Counted[account.Create] = wrk.Tally{Succeeded: 1}
	for _, w := range list {
		if s.holders[w.holder] != nil {
			continue
		}
		switch w.holder {
		case nobody:
			s.holders[nobody] = &account.Account{Key: account.WrongKey(owner.Key)}
		case exhausted:
			if _, err = s.account(ctx, exhausted, "free"); err == nil {
				err = c.exhaust(ctx, s, exhausted, account.Get)
			}
		case paying:
			err = c.preparePaying(ctx, s)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w.holder, err)
		}
	}
	return nil
}

func (s *side) account(ctx context.Context, h holder, plan string) (*account.Account, error) {
	a, err := account.New(ctx, s.admin, string(h)+"@example.org", plan)
	if err == nil {
		s.holders[h] = a
	}
	return a, err
}

// preparePaying creates an account that pays for each request from now on.
func (c *comparison) preparePaying(ctx context.Context, s *side) error {
	a, err := s.account(ctx, paying, "pro")
	if err != nil {
		return err
	}
	grant := map[string]string{"amount": "10000000", "reason": "bench"}
	if err := s.admin.Call(ctx, http.MethodPost, "/api/admin/accounts/"+a.ID+"/credits", grant, new(json.RawMessage)); err != nil {
		return err
	}
	return errors.Join(c.exhaust(ctx, s, paying, account.Get), c.exhaust(ctx, s, paying, account.Create))
}

// exhaust sends requests until the quota is used up.
func (c *comparison) exhaust(ctx context.Context, s *side, h holder, quotaKey string) error {
	for {
		left, err := s.holders[h].Used(ctx, s.admin)
		if err != nil || left[quotaKey].Remaining == 0 {
			return err
		}
		r, err := c.wrk(ctx, s, work{quotaKey: quotaKey, connections: 32, holder: h}, time.Second)
		if err != nil {
			return err
		}
		s.holders[h].Count(quotaKey, r, 32)
	}
}

// measured is what one turn has shown.
type measured struct {
	rate float64 // requests a second
	cpu  float64 // seconds of the server's CPU for each request, background work included
}

// turn sends requests, and returns once the server has finished the turn's background work.
func (c *comparison) turn(ctx context.Context, s *side, w work, duration time.Duration) (m measured, err error) {
	cpu := machine.Process(s.process.PID()).CPUSeconds
	before, err := cpu()
	if err != nil {
		return m, err
	}
	if m.rate, err = c.rate(ctx, s, w, duration); err != nil {
		return m, err
	}
	if err := machine.Settle(ctx, cpu); err != nil {
		return m, err
	}
	after, err := cpu()
	m.cpu = (after - before) / (m.rate * duration.Seconds())
	return m, err
}

func (c *comparison) rate(ctx context.Context, s *side, w work, duration time.Duration) (float64, error) {
	if w.quotaKey == account.Upload || w.quotaKey == account.Download {
		return s.transfers(ctx, w, duration)
	}
	r, err := c.wrk(ctx, s, w, duration)
	if err != nil {
		return 0, err
	}
	a := s.holders[w.holder]
	if w.refused() {
		if r.Status != r.Requests {
			return 0, fmt.Errorf("void: %d of %d requests to %s were not refused", r.Requests-r.Status, r.Requests, s.name)
		}
		return r.Rate(), nil
	}
	if r.Errors() > 0 {
		return 0, fmt.Errorf("void: %d of %d requests to %s without a success: %+v", r.Errors(), r.Requests, s.name, r)
	}
	a.Count(w.quotaKey, r, w.connections)
	return r.Rate(), nil
}

func (c *comparison) wrk(ctx context.Context, s *side, w work, duration time.Duration) (wrk.Result, error) {
	script, path := "get.lua", "/api/dev/paste-lite/get/"+s.paste
	if w.quotaKey == account.Create {
		script, path = "create.lua", "/api/dev/paste-lite/create"
	}
	return wrk.Generator{Folder: c.folder, Connections: w.connections, Threads: min(2, w.connections), Duration: duration}.Run(ctx, wrk.Load{
		Script: script, URL: s.process.URL() + path, Environ: []string{"BENCH_KEY=" + s.holders[w.holder].Key, "BENCH_BODY=" + load.CreateBody()},
	})
}

// fileBytes is the size of the files of the kinds "upload" and "download".
const fileBytes = 50 << 20

// transfers sends uploads or downloads, one after the other, for a duration, and returns transfers a second.
func (s *side) transfers(ctx context.Context, w work, duration time.Duration) (float64, error) {
	content := make([]byte, fileBytes)
	_, _ = rand.Read(content)
	var path string // of a download
	if w.quotaKey == account.Download {
		answer, err := s.transfer(ctx, http.MethodPost, "/api/dev/files/upload?name=bench.bin", content)
		if err != nil {
			return 0, err
		}
		var made struct{ ID string }
		if err := json.Unmarshal(answer, &made); err != nil {
			return 0, err
		}
		path = "/api/dev/files/get/" + made.ID + "?download=1"
		s.holders[w.holder].Succeeded(account.Upload)
	}
	started := time.Now()
	for n := 1; ; n++ {
		var err error
		if path != "" {
			_, err = s.transfer(ctx, http.MethodGet, path, nil)
		} else {
			_, _ = rand.Read(content[:64]) // equal content might be stored once
			_, err = s.transfer(ctx, http.MethodPost, "/api/dev/files/upload?name=bench.bin", content)
		}
		if err != nil {
			return 0, err
		}
		s.holders[w.holder].Succeeded(w.quotaKey)
		if took := time.Since(started); took >= duration {
			return float64(n) / took.Seconds(), nil
		}
	}
}

func (s *side) transfer(ctx context.Context, method, path string, content []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.process.URL()+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	request.Header.Set("x-api-key", s.holders[unlimited].Key)
	request.Header.Set("Content-Type", "application/octet-stream")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s %.200s", method, path, response.Status, answer)
	}
	return answer, err
}

// check compares the counters with what was sent, and audits the journal.
func (s *side) check(ctx context.Context) error {
	for h, a := range s.holders {
		if h == nobody {
			continue
		}
		used, err := a.Used(ctx, s.admin)
		if err != nil {
			return err
		}
		for key, t := range a.Counted {
			if err := t.Check(key, used[key].Used); err != nil {
				return fmt.Errorf("%s: %w", h, err)
			}
		}
	}
	audit, err := s.admin.Audit(ctx, admin.AuditOptions{}, func(_, _ uint64) {})
	if err != nil {
		return err
	}
	if audit.Match == nil || !*audit.Match {
		return fmt.Errorf("the audit does not match: %+v", audit.Partitions)
	}
	return nil
}
