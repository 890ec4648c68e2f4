package webhooks

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"quire.dev/pkg/event"
	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/views"
	"quire.dev/pkg/wait"
)

// Bounds of a sender.
const (
	pollEvery  = 500 * time.Millisecond
	leaseTime  = 15 * time.Second
	leaseEarly = 10 * time.Second // before its end, when it is renewed
	stopWait   = 2 * time.Second  // for attempts in progress at a stop
	sweepEvery = time.Hour
	sweepPage  = 500

	maxRunning    = 64 // concurrent attempts
	maxPerHost    = 4
	maxPerAccount = 8
	scanPage      = 250
	scanPages     = 8               // above MaxBacklog
	putOff        = 5 * time.Second // delay of deliveries blocked by others to the same host or account
	commitPuts    = 32              // the maximum of some MongoDB substitutes
	commitTime    = 30 * time.Second
	mailTime      = time.Minute // for an attempt to send an e-mail
	mailPause     = time.Hour   // until an instance that sends no e-mails looks at one again

	leaseStream = "billing_sender"
	leaseID     = "sender"

	keptAttempts = 20
)

// pauses are the delays between attempts: three days in all.
func pauses() []time.Duration {
	return []time.Duration{
		5 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 8 * time.Hour, 12 * time.Hour,
		20 * time.Hour, 24 * time.Hour,
	}
}

// maxAge of an alert that was never tried. An older one comes from a rebuilt read model.
const maxAge = 3 * 24 * time.Hour

// Sender posts due deliveries. Of several instances on one read model only the holder of the lease sends. What an instance has
// sent without recording it is sent again by the next one, with the same id.
type Sender struct {
	store    *Store
	instance string
	log      *slog.Logger
	post     *poster
	mail     Mail
	sent     *prometheus.CounterVec
	mailed   *prometheus.CounterVec

	// Owned by Run.
	until    time.Time // end of the lease
	running  map[string]string
	hosts    map[string]int
	accounts map[uint64]int
	results  chan result
	unsaved  []result
	swept    time.Time
	failing  bool
	poll     time.Duration
}

// result is a delivery after an attempt.
type result struct {
	id, host string
	account  uint64
	delivery *event.Delivery // nil: interrupted, to be retried
}

// Mail sends the account holder an e-mail about an alert. It is not sent, without an error, if the account has no address.
type Mail func(ctx context.Context, a *event.Alert) (sent bool, err error)

// NewSender returns a Sender. The metrics may be nil, and without mail no e-mails are sent.
func NewSender(store *Store, instance string, mail Mail, log *slog.Logger, m *telemetry.Metrics) *Sender {
	s := &Sender{
		store: store, instance: instance, log: log, post: newPoster(store), mail: mail, poll: pollEvery,
		sent: m.CounterVec(telemetry.Desc{
			Service: "billing", Name: "webhook_attempts_total", Help: "Attempts to deliver to webhooks, by result.",
		}, "result"),
		mailed: m.CounterVec(telemetry.Desc{
			Service: "billing", Name: "email_attempts_total", Help: "Attempts to send e-mails to account holders, by result.",
		}, "result"),
		running: map[string]string{}, hosts: map[string]int{}, accounts: map[uint64]int{}, results: make(chan result, maxRunning),
	}
	for _, r := range []string{sentDelivered, sentFailed, sentGivenUp} {
		s.sent.WithLabelValues(r) // visible from the start
		s.mailed.WithLabelValues(r)
	}
	return s
}

// Results of attempts, in metrics.
const (
	sentDelivered = "delivered"
	sentFailed    = "failed" // to be retried
	sentGivenUp   = "given_up"
)

// Run sends until ctx ends. Then it waits briefly for attempts in progress. It returns nil.
func (s *Sender) Run(ctx context.Context) error {
	if len(s.store.sealer.keys) == 0 {
		s.log.Warn("webhooks are disabled: QUIRE_SECRET is not set")
	}
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	tick := time.NewTicker(s.poll)
	defer tick.Stop()
	retry := wait.Backoff{Initial: s.poll, Max: 30 * time.Second}
	var pause time.Time
	for ctx.Err() == nil {
		select {
		case r := <-s.results:
			s.unsaved = append(s.unsaved, r)
		case <-tick.C:
		case <-ctx.Done():
			continue
		}
		if now := s.store.clock(); now.Before(pause) {
			continue
		}
		err := s.work(ctx, sending)
		if s.logChange(ctx, err); err != nil {
			pause = s.store.clock().Add(retry.Next())
			continue
		}
		retry.Reset()
	}
	s.stop(stop)
	return nil
}

// stop records the attempts that end within stopWait, and cancels the others.
func (s *Sender) stop(cut context.CancelFunc) {
	timer := time.AfterFunc(stopWait, cut)
	defer timer.Stop()
	for len(s.running) > len(s.unsaved) {
		s.unsaved = append(s.unsaved, <-s.results)
	}
	ctx, cancel := context.WithTimeout(context.Background(), commitTime)
	defer cancel()
	if err := s.save(ctx); err != nil {
		s.log.Warn("deliveries to webhooks could not be recorded and will be repeated", "error", err)
		return
	}
	if s.store.clock().Before(s.until) {
		if _, err := s.take(ctx, 0); err != nil {
			s.log.Warn("the lease of webhook deliveries could not be released: other instances wait until it expires", "error", err)
		}
	}
}

func (s *Sender) logChange(ctx context.Context, err error) {
	switch {
	case err != nil && !s.failing && ctx.Err() == nil:
		s.log.Warn("webhook deliveries are paused: the read model can't be used", "error", err)
	case err == nil && s.failing:
		s.log.Info("webhook deliveries resume")
	}
	s.failing = err != nil
}

// work records results, and starts due attempts.
func (s *Sender) work(ctx, sending context.Context) error {
	for len(s.results) > 0 {
		s.unsaved = append(s.unsaved, <-s.results)
	}
	if err := s.save(ctx); err != nil {
		return err
	}
	if len(s.running) >= maxRunning {
		return nil
	}
	now := s.store.clock()
	if now.Sub(s.swept) >= sweepEvery {
		s.swept = now
		if err := s.sweep(ctx); err != nil {
			return err
		}
	}
	first, err := s.due(ctx, views.Query{Index: byDue, Limit: 1})
	if err != nil || len(first) == 0 {
		return err
	}
	if leads, err := s.lead(ctx); err != nil || !leads {
		return err
	}
	return s.startDue(ctx, sending)
}

// due returns the due deliveries of a page.
func (s *Sender) due(ctx context.Context, query views.Query) ([]views.Doc, error) {
	docs, err := s.store.store.List(ctx, deliveries, query)
	if err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	now := s.store.now()
	for i, doc := range docs {
		if doc.Keys.Get("due").Int64() > now {
			return docs[:i], nil
		}
	}
	return docs, nil
}

// startDue starts due attempts, a few at a time per host and account, so that one slow receiver delays nobody else. If many are
// due, blocked ones are postponed, so that later ones get a turn.
func (s *Sender) startDue(ctx, sending context.Context) error {
	index := views.Index{Name: byDue, Keys: []string{"due"}}
	query := views.Query{Index: byDue, Limit: scanPage}
	var waiting []*event.Delivery
	for range scanPages {
		docs, err := s.due(ctx, query)
		if err != nil || len(docs) == 0 {
			return err
		}
		blocked, err := s.startPage(ctx, sending, docs)
		if err != nil || len(docs) < scanPage || len(s.running) >= maxRunning {
			return err
		}
		waiting = append(waiting, blocked...)
		query = query.NextAfter(index, docs[len(docs)-1])
	}
	var puts []views.Put
	for _, d := range waiting {
		var err error
		if puts, err = s.postpone(puts, d, s.store.clock().Add(putOff).UnixMilli()); err != nil {
			return err
		}
	}
	return s.commit(ctx, puts)
}

// startPage starts the allowed attempts of a page, and returns the blocked deliveries.
func (s *Sender) startPage(ctx, sending context.Context, docs []views.Doc) (blocked []*event.Delivery, err error) {
	var list []*event.Delivery
	var ids []string
	for _, doc := range docs {
		if _, runs := s.running[doc.ID]; runs {
			continue
		}
		d, err := decodeDelivery(doc)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
		ids = append(ids, addressID(event.AccountID(d.Alert.Account), d.Webhook))
	}
	found, err := s.store.store.Load(ctx, addresses, ids, views.Heads)
	if err != nil {
		return nil, fmt.Errorf("load addresses of webhooks: %w", err)
	}
	known := map[string]*event.WebhookAddress{}
	for _, doc := range found {
		if known[doc.ID], err = decodeAddress(doc); err != nil {
			return nil, err
		}
	}
	var later []views.Put // deliveries that have to wait
	for i, d := range list {
		if d.Webhook == byMail && s.mail == nil && !s.tooOld(d) { // another instance may send it, or this one once it is set up
			if later, err = s.postpone(later, d, s.store.clock().Add(mailPause).UnixMilli()); err != nil {
				return nil, err
			}
			continue
		}
		address := known[ids[i]]
		host := hostOf(address)
		if len(s.running) >= maxRunning {
			blocked = nil
			break
		}
		if s.hosts[host] >= maxPerHost || s.accounts[d.Alert.Account] >= maxPerAccount {
			blocked = append(blocked, d)
			continue
		}
		first := d
		if d.Alert.Content != nil {
			if first, err = firstOf(ctx, s.store.store, d); err != nil {
				return nil, err
			}
		}
		switch {
		case first == nil || first.Alert.GetPosition() >= d.Alert.Position:
			s.start(sending, d, address, host)
		case first.NextMs <= s.store.now(): // being sent, or next
			blocked = append(blocked, d)
		default:
			if later, err = s.postpone(later, d, first.NextMs); err != nil {
				return nil, err
			}
		}
	}
	return blocked, s.commit(ctx, later)
}

// postpone adds a delivery with another time of its next attempt.
func (s *Sender) postpone(puts []views.Put, d *event.Delivery, until int64) ([]views.Put, error) {
	d.NextMs = until
	put, err := changed(d)
	return append(puts, put), err
}

// hostOf is the key for counting a webhook's attempts: host and port, the same for all spellings.
func hostOf(a *event.WebhookAddress) string {
	u, err := url.Parse(a.GetUrl())
	if err != nil {
		return ""
	}
	defaultPort := "443"
	if u.Scheme == "http" {
		defaultPort = "80"
	}
	return net.JoinHostPort(strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), cmp.Or(u.Port(), defaultPort))
}

func (s *Sender) start(ctx context.Context, d *event.Delivery, address *event.WebhookAddress, host string) {
	r := result{id: deliveryID(event.AccountID(d.Alert.Account), d.Webhook, d.Alert.Id), host: host, account: d.Alert.Account}
	s.running[r.id] = host
	s.hosts[host]++
	s.accounts[r.account]++
	// The channel has room for all attempts, so that none waits for Run.
	go func() {
		attempt := s.attempt(ctx, d, address)
		if ctx.Err() == nil || attempt.Error == "" {
			s.conclude(d, attempt)
			r.delivery = d
		}
		s.results <- r
	}()
}

func (s *Sender) attempt(ctx context.Context, d *event.Delivery, address *event.WebhookAddress) *event.DeliveryAttempt {
	now := s.store.now()
	switch {
	case s.tooOld(d):
		return &event.DeliveryAttempt{TimeMs: now, Error: errTooOld}
	case d.Webhook == byMail:
		return s.attemptMail(ctx, d.Alert)
	case address == nil:
		return &event.DeliveryAttempt{TimeMs: now, Error: "the webhook has no address"}
	}
	return s.post.attempt(ctx, d.Alert, address)
}

// Errors of attempts that are not repeated.
const (
	errTooOld = "the event is too old to be sent"
	errMail   = "no e-mail is sent"
)

// tooOld reports whether a delivery was not tried for too long.
func (s *Sender) tooOld(d *event.Delivery) bool {
	return len(d.Attempts) == 0 && s.store.now()-d.Alert.TimeMs > maxAge.Milliseconds()
}

func (s *Sender) attemptMail(ctx context.Context, a *event.Alert) *event.DeliveryAttempt {
	attempt := &event.DeliveryAttempt{TimeMs: s.store.now()}
	ctx, cancel := context.WithTimeout(ctx, mailTime)
	defer cancel()
	switch sent, err := s.mail(ctx, a); {
	case err != nil:
		attempt.Error = "the e-mail could not be sent"
		s.log.Warn("an e-mail could not be sent", "event", a.Id, "error", err)
	case !sent:
		attempt.Error = errMail
	}
	return attempt
}

// conclude records an attempt in its delivery, and schedules the next one.
func (s *Sender) conclude(d *event.Delivery, a *event.DeliveryAttempt) {
	d.Attempts = append(d.Attempts, a)
	d.Attempts = d.Attempts[max(0, len(d.Attempts)-keptAttempts):]
	between := pauses()
	count := s.sent
	if d.Webhook == byMail {
		count = s.mailed
	}
	switch {
	case a.Error == "":
		d.Status, d.NextMs = event.DeliveryStatus_DELIVERY_DELIVERED, 0
		count.WithLabelValues(sentDelivered).Inc()
	case a.Error == errMail, a.Error == errTooOld && d.Webhook == byMail: // nobody's fault
		d.Status, d.NextMs = event.DeliveryStatus_DELIVERY_FAILED, 0
	case int(d.Tries) >= len(between) || a.Status == statusGone || a.Error == errTooOld:
		d.Status, d.NextMs = event.DeliveryStatus_DELIVERY_FAILED, 0
		count.WithLabelValues(sentGivenUp).Inc()
	default:
		pause := between[d.Tries]
		d.NextMs = s.store.now() + (pause + rand.N(pause/5+1)).Milliseconds()
		count.WithLabelValues(sentFailed).Inc()
	}
	d.Tries++
}

// save stores the results. Until then the deliveries count as running, so that they are not sent again.
func (s *Sender) save(ctx context.Context) error {
	var puts []views.Put
	for _, r := range s.unsaved {
		if r.delivery == nil {
			continue
		}
		put, err := changed(r.delivery)
		if err != nil {
			return err
		}
		puts = append(puts, put)
	}
	if err := s.commit(ctx, puts); err != nil {
		return err
	}
	for _, r := range s.unsaved {
		delete(s.running, r.id)
		if s.hosts[r.host]--; s.hosts[r.host] == 0 {
			delete(s.hosts, r.host)
		}
		if s.accounts[r.account]--; s.accounts[r.account] == 0 {
			delete(s.accounts, r.account)
		}
	}
	s.unsaved = s.unsaved[:0]
	return nil
}

func (s *Sender) commit(ctx context.Context, puts []views.Put) error {
	for len(puts) > 0 {
		n := min(len(puts), commitPuts)
		bounded, cancel := context.WithTimeout(ctx, commitTime)
		err := s.store.store.Commit(bounded, views.Batch{Puts: puts[:n]})
		cancel()
		if err != nil {
			return fmt.Errorf("save deliveries: %w", err)
		}
		puts = puts[n:]
	}
	return nil
}

// sweep deletes alerts and deliveries past their retention, and re-encrypts secrets with the current key. Any instance may do
// it.
func (s *Sender) sweep(ctx context.Context) error {
	for _, collection := range []string{alerts, deliveries} {
		for {
			docs, err := s.store.store.List(ctx, collection, views.Query{Index: byExpiry, Limit: sweepPage})
			if err != nil {
				return fmt.Errorf("list %s: %w", collection, err)
			}
			var b views.Batch
			for _, doc := range docs {
				if doc.Keys.Get("expires").Int64() <= s.store.now() {
					b.Deletes = append(b.Deletes, views.Delete{Collection: collection, ID: doc.ID, Seq: doc.Seq})
				}
			}
			if len(b.Deletes) > 0 {
				if err := s.store.store.Commit(ctx, b); err != nil {
					return fmt.Errorf("delete from %s: %w", collection, err)
				}
			}
			if len(b.Deletes) < sweepPage {
				break
			}
		}
	}
	return s.store.sealAgain(ctx)
}
