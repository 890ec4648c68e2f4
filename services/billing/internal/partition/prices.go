package partition

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/pricebook"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/wait"
	"quire.dev/services/billing/internal/account"
)

const (
	// agreeWait is how long the instances have to report their prices and rules.
	agreeWait = 300 * time.Millisecond
	// agreeInitial and agreeMax bound the interval between these queries, which run only while a change is pending.
	agreeInitial = time.Second
	agreeMax     = 30 * time.Second
	// foldWait bounds the wait for a published price book. After that it is published again.
	foldWait = 5 * time.Second
)

// publishPrices checks the price book before the partition is served. The first book of a journal is published at once, with
// the newest rules. Another one is published if all live instances agree; otherwise keepBook keeps trying.
func (p *Partition) publishPrices(ctx context.Context) error {
	for ctx.Err() == nil {
		p.mu.Lock()
		none := p.fold.Prices() == nil
		p.mu.Unlock()
		if !none {
			if err := p.moveClock(ctx); err != nil {
				return err
			}
			_, err := p.renewBook(ctx)
			return err
		}
		book := pricebook.Configured(p.cfg.Book)
		book.Rules, book.Agreed = p.cfg.Rules, true
		if err := p.publishBook(ctx, book); err != nil {
			return err
		}
	}
	return nil
}

// moveClock republishes the current price book if this instance was started with a larger offset of the development clock: the
// fold takes the offset only from billing.
func (p *Partition) moveClock(ctx context.Context) error {
	for ctx.Err() == nil {
		p.mu.Lock()
		have, rules, offset := p.fold.Prices(), p.fold.Rules(), p.fold.Offset()
		p.mu.Unlock()
		if offset >= p.deps.Offset.Milliseconds() {
			return nil
		}
		book := pricebook.Configured(pricebook.Of(have))
		book.Rules, book.Agreed = rules, true
		if err := p.publishBook(ctx, book); err != nil {
			return err
		}
	}
	return nil
}

// keepBook updates prices and rules once the live instances agree.
func (p *Partition) keepBook(ctx context.Context) error {
	pause := wait.Backoff{Initial: agreeInitial, Max: agreeMax}
	for pause.Wait(ctx) {
		done, err := p.renewBook(ctx)
		if err != nil {
			return err
		}
		if done {
			pause.Reset()
		}
	}
	return nil
}

// renewBook publishes the configured prices if all live instances are configured with the same, and the newest rules that all
// of them know. During a rollout they differ. An instance started before the current prices were published adopts them, so that
// the previous version never brings its prices back. Beside an applied book the configured prices have no effect. It returns true
// if there is nothing left to change.
func (p *Partition) renewBook(ctx context.Context) (done bool, err error) {
	p.mu.Lock()
	have, rules := p.fold.Prices(), p.fold.Rules()
	p.mu.Unlock()
	want := pricebook.Configured(p.cfg.Book)
	same := have.Id != "" || pricebook.Same(have, want)
	if same && rules >= p.cfg.Rules {
		p.staying = ""
		return true, nil
	}
	samePrices, known, err := p.agreement(ctx)
	if err != nil {
		p.logStaying("prices and rules stay as they are until the live instances agree", err.Error())
		return false, nil
	}
	older := have.Id == "" && have.StampMs-have.OffsetMs > p.cfg.Started.UnixMilli()
	switch {
	case same || samePrices && !older:
		p.staying = ""
	case older:
		p.logStaying("the prices in force stay", "they are newer than this instance")
	default:
		p.logStaying("the prices in force stay", "the live instances were configured with different prices")
	}
	if !same && (older || !samePrices) {
		want, same = pricebook.Configured(pricebook.Of(have)), true
	}
	if known = min(known, p.cfg.Rules); same && known <= rules {
		return false, nil
	}
	want.Rules, want.Agreed = known, true
	return (samePrices || have.Id != "") && !older && known == p.cfg.Rules, p.publishBook(ctx, want)
}

// logStaying tells operators why prices or rules stay unchanged, once per run of equal causes: a rollout may take long.
func (p *Partition) logStaying(message, cause string) {
	if p.staying != cause {
		p.staying = cause
		p.log.Info(message, "cause", cause)
	}
}

// agreement queries all live instances. samePrices reports whether they are configured with this instance's prices, and rules
// is the newest version that all of them know.
func (p *Partition) agreement(ctx context.Context) (samePrices bool, rules uint32, err error) {
	asking, cancel := context.WithTimeout(ctx, agreeWait)
	defer cancel()
	answers, err := rpc.Gather(asking, p.deps.NC, event.InstancesSubject, nil)
	if err != nil {
		return false, 0, err
	}
	book := pricebook.Hash(p.cfg.Book)
	samePrices, rules = true, p.cfg.Rules
	heard, live := map[string]bool{}, map[string]bool{p.cfg.Instance: true}
	for _, data := range answers {
		var i event.Instance
		if err := json.Unmarshal(data, &i); err != nil {
			return false, 0, fmt.Errorf("decode the answer of a billing instance: %w", err)
		}
		heard[i.Name] = true
		for _, name := range i.Live {
			live[name] = true
		}
		samePrices = samePrices && i.Book == book
		rules = min(rules, max(i.Rules, account.Rules1))
	}
	for _, name := range slices.Sorted(maps.Keys(live)) { // sorted, so that equal causes have equal texts
		if !heard[name] {
			return false, 0, fmt.Errorf("instance %s is alive but did not answer", name)
		}
	}
	return samePrices, rules, nil
}

// publishBook appends a configured price book and waits until one is folded, perhaps another replica's.
func (p *Partition) publishBook(ctx context.Context, book *event.PriceBook) error {
	return p.publishUntil(ctx, book, func() bool {
		have := p.fold.Prices()
		return (have.GetId() != "" || pricebook.Same(have, book)) && p.fold.Rules() >= book.Rules && p.fold.Offset() >= book.OffsetMs
	})
}

// publishUntil appends a price book and waits until the fold is as it should be, or for foldWait.
func (p *Partition) publishUntil(ctx context.Context, book *event.PriceBook, folded func() bool) error {
	book.StampMs, book.OffsetMs = p.now().UnixMilli(), p.deps.Offset.Milliseconds()
	data, err := event.Encode(book)
	if err != nil {
		return err
	}
	p.log.Info("publishing the price book", "rules", book.Rules, "id", book.Id)
	p.publish(event.PricesSubject(p.cfg.Partition), data)
	again := time.NewTimer(foldWait)
	defer again.Stop()
	for {
		changed := p.position.Next()
		p.mu.Lock()
		done := folded()
		p.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-again.C:
			return nil // the caller retries
		case <-ctx.Done():
			return nil
		}
	}
}
