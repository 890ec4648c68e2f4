package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quire.dev/pkg/admin"
	"quire.dev/pkg/wait"
	"quire.dev/tools/bench/internal/account"
)

// aged is an installation that has gone on for some generations of its billing journal.
type aged struct {
	*server
	owner *account.Account
	paste string
}

// passed is how many generations are closed and deleted before the one that is open.
const passed = 9

// measureGenerations compares the starts of two installations with about as many requests, in one generation and in ten.
func (b *bench) measureGenerations(ctx context.Context) error {
	young, err := b.newAged(ctx, (*aged).keep)
	if err != nil {
		return err
	}
	old, err := b.newAged(ctx, (*aged).pass)
	if err != nil {
		return err
	}
	var ratios []float64
	for round := range b.rounds * b.starts {
		var took [2]time.Duration
		for _, i := range []int{round % 2, 1 - round%2} {
			if took[i], err = []aged{young, old}[i].startAgain(ctx); err != nil {
				return err
			}
		}
		ratios = append(ratios, took[1].Seconds()/took[0].Seconds())
	}
	b.note("start-generations", ratios, fmt.Sprintf("%d pairs of starts, until a read is answered", len(ratios)))
	for _, a := range []aged{young, old} {
		if err := a.check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// newAged makes an installation. next is called between its loads.
func (b *bench) newAged(ctx context.Context, next func(*aged, context.Context) error) (a aged, err error) {
	if a.server, err = b.startServer(ctx, generations); err != nil {
		return a, err
	}
	if a.owner, err = a.account(ctx, "admin"); err != nil {
		return a, err
	}
	if a.paste, err = a.server.paste(ctx, a.owner); err != nil {
		return a, err
	}
	if err := a.read(ctx); err != nil {
		return a, err
	}
	for range passed {
		if err := next(&a, ctx); err != nil {
			return a, err
		}
		if err := a.read(ctx); err != nil {
			return a, err
		}
	}
	a.settings = nil
	return a, nil
}

// keep restarts it as often as pass does.
func (a *aged) keep(ctx context.Context) error {
	return errors.Join(a.restart(ctx, archiving()), a.restart(ctx, archiving()))
}

func archiving() []string {
	return []string{"QUIRE_JOURNAL_RETENTION=1s", "QUIRE_SEGMENT_AGE=1s", "QUIRE_CHECKPOINT_INTERVAL=1s"}
}

// pass closes the open generation and deletes it.
func (a *aged) pass(ctx context.Context) error {
	const closing = 3 * time.Second // each second it looks whether the generation is a second old
	if err := a.restart(ctx, append(archiving(), "QUIRE_GENERATION_AGE=1s")); err != nil {
		return err
	}
	wait.For(ctx, closing)
	if _, err := a.readOne(ctx, a.owner, a.paste); err != nil {
		return err
	}
	if err := a.restart(ctx, archiving()); err != nil { // with a snapshot in the next generation, up to which the audit goes
		return err
	}
	if _, err := a.admin().Audit(ctx, admin.AuditOptions{New: true}, func(_, _ uint64) {}); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, processLimit)
	defer cancel()
	for {
		deleted, err := a.metric(ctx, "quire_archive_generations_deleted_total")
		if err != nil || deleted > 0 {
			return err
		}
		if !wait.For(ctx, time.Second) {
			return fmt.Errorf("no generation is deleted: %w", ctx.Err())
		}
	}
}

func (a *aged) restart(ctx context.Context, settings []string) error {
	if err := a.stop(ctx); err != nil {
		return err
	}
	a.settings = settings
	return a.start(ctx)
}

func (a *aged) read(ctx context.Context) error {
	connections := a.bench.connections[len(a.bench.connections)-1]
	_, err := a.turn(ctx, a.owner, account.Get, getLoad(a.paste), connections, a.bench.duration)
	return err
}

// startAgain stops the server and starts it with a cold cache.
func (a *aged) startAgain(ctx context.Context) (time.Duration, error) {
	if err := a.stop(ctx); err != nil {
		return 0, err
	}
	took, err := a.startCold(ctx, a.owner, a.paste)
	if err != nil {
		return 0, err
	}
	return took, a.settle(ctx)
}
