package stripetest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// eventsFor is how long events are listed. https://docs.stripe.com/api/events
const eventsFor = 30 * 24 * time.Hour

// maxAttempts bounds deliveries of an event. Stripe retries for three days: https://docs.stripe.com/webhooks#automatic-retries.
const maxAttempts = 30

// Faults are the shares of deliveries, from 0 to 1, that something happens to. They are drawn from the seed, for each event
// when it is delivered for the first time.
type Faults struct {
	Never   float64 // the event is never delivered, as during an outage of more than three days
	Twice   float64 // it is delivered twice: https://docs.stripe.com/webhooks#handle-duplicate-events
	Late    float64 // it waits for the next Deliver
	Shuffle float64 // share of calls of Deliver that post in random order: https://docs.stripe.com/webhooks#event-ordering
	AtOnce  int     // deliveries in flight; 0 is 1
}

// event is a snapshot of an object when it changed.
type event struct {
	id, kind string
	created  int64
	body     json.RawMessage
}

func (e *event) key() string      { return e.id }
func (e *event) createdAt() int64 { return e.created }
func (e *event) links() []string  { return nil }

// json shows the event as it was.
func (e *event) json(expand) props {
	var p props
	_ = json.Unmarshal(e.body, &p)
	return p
}

type delivery struct {
	event    *event
	attempts int
	late     bool
}

// emit records an event with an object as it is now, and queues its delivery. The server is locked.
func (s *Server) emit(kind string, object props) {
	if s.config.EventTypes != nil && !slices.Contains(s.config.EventTypes, kind) {
		return
	}
	e := &event{id: s.id("evt"), kind: kind, created: s.now().Unix()}
	body, err := json.Marshal(props{
		"id": e.id, "object": "event", "api_version": "2025-08-27.basil", "created": e.created, "livemode": false, "pending_webhooks": 1,
		"request": props{"id": nil, "idempotency_key": nil}, "type": kind, "data": props{"object": object},
	})
	if err != nil {
		panic(fmt.Sprintf("stripetest: encode an event: %v", err))
	}
	e.body = body
	s.events.add(e)
	if s.endpoint == "" {
		return
	}
	s.queue = append(s.queue, delivery{event: e})
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// listEvents filters by up to 20 types. https://docs.stripe.com/api/events/list
func (s *Server) listEvents(r *call) (any, *failure) {
	var types []string
	for _, value := range r.dictionary("types") {
		types = append(types, value)
	}
	if len(types) > 20 {
		return nil, badRequest("types", "", "You may only specify up to 20 types")
	}
	oldest := s.now().Add(-eventsFor).Unix()
	return s.events.list(r, nil, func(e *event) bool {
		return e.created >= oldest && (len(types) == 0 || slices.Contains(types, e.kind))
	})
}

// Sign returns the Stripe-Signature header of a body: https://docs.stripe.com/webhooks#verify-manually.
func Sign(secret string, at time.Time, body []byte) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	return "t=" + stamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// Queued is the number of deliveries that wait.
func (s *Server) Queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

// Dropped is the number of events that are never delivered.
func (s *Server) Dropped() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
}

// Delivered is the number of deliveries that were accepted.
func (s *Server) Delivered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.delivered
}

// Deliver posts each queued webhook once, with faults. What isn't answered with a 2xx stays queued, and is part of the error.
func (s *Server) Deliver(ctx context.Context) error {
	return s.post(ctx, s.draw())
}

// Flush posts queued webhooks, without further faults, until all are accepted or one has failed too often.
func (s *Server) Flush(ctx context.Context) error {
	for range maxAttempts {
		s.mu.Lock()
		batch := s.queue
		s.queue = nil
		s.mu.Unlock()
		if len(batch) == 0 {
			return nil
		}
		if err := s.post(ctx, batch); ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
	if n := s.Queued(); n > 0 {
		return fmt.Errorf("stripetest: %d webhooks were not accepted in %d attempts", n, maxAttempts)
	}
	return nil
}

// draw takes the queue and applies the faults to it.
func (s *Server) draw() []delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue, faults := s.queue, s.config.Faults
	s.queue = nil
	var batch []delivery
	for _, d := range queue {
		if d.attempts > 0 || d.late {
			batch = append(batch, d)
			continue
		}
		never, twice, late := s.random.Float64() < faults.Never, s.random.Float64() < faults.Twice, s.random.Float64() < faults.Late
		if never {
			s.dropped++
			continue
		}
		if twice {
			batch = append(batch, d)
		}
		if late {
			d.late = true
			s.queue = append(s.queue, d)
			continue
		}
		batch = append(batch, d)
	}
	if s.random.Float64() < faults.Shuffle {
		s.random.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
	}
	return batch
}

// post delivers a batch, Faults.AtOnce at a time, and queues again what was not accepted.
func (s *Server) post(ctx context.Context, batch []delivery) error {
	s.mu.Lock()
	endpoint := s.endpoint
	s.mu.Unlock()
	work := make(chan delivery)
	var posting sync.WaitGroup
	var mu sync.Mutex
	var failed []error
	for range max(1, s.config.Faults.AtOnce) {
		posting.Go(func() {
			for d := range work {
				err := s.postOne(ctx, endpoint, d.event)
				s.posted(d, err)
				if err != nil {
					mu.Lock()
					failed = append(failed, err)
					mu.Unlock()
				}
			}
		})
	}
	for _, d := range batch {
		work <- d
	}
	close(work)
	posting.Wait()
	if len(failed) > 0 {
		return fmt.Errorf("stripetest: %d of %d webhooks were not accepted, such as: %w", len(failed), len(batch), failed[0])
	}
	return nil
}

func (s *Server) posted(d delivery, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.delivered++
		return
	}
	d.attempts++
	s.queue = append(s.queue, d)
}

func (s *Server) postOne(ctx context.Context, endpoint string, e *event) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(e.body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json; charset=utf-8")
	request.Header.Set("Stripe-Signature", Sign(s.config.Secret, time.Now(), e.body))
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s: answered with %d", e.kind, response.StatusCode)
	}
	return nil
}
