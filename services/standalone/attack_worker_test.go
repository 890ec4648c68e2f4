package standalone

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"quire.dev/pkg/plan"
)

// attackWorker is a client. It has documents in each account, which no other client changes.
type attackWorker struct {
	attack *attack
	random *rand.Rand
	own    map[*attackAccount]*attackDocuments
}

// attackDocuments are the documents of a client in an account, by the kind of their quota keys.
type attackDocuments map[string][]*attackDocument

type attackDocument struct {
	id      string
	version int
}

// attackPaths are the paths of each kind of documents.
func attackPaths(kind string) string {
	return map[string]string{"pastes": "/api/dev/pastes/", "pasteLite": "/api/dev/paste-lite/", "files": "/api/dev/files/"}[kind]
}

// step does one operation in one of the accounts. Now and then it changes the account, or looks at its books.
func (w *attackWorker) step(ctx context.Context) error {
	n := w.attack.accounts[w.random.IntN(len(w.attack.accounts))]
	if w.random.IntN(40) == 0 {
		if err := w.attack.meddle(ctx, n, w.random); err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
	}
	n.quiet.RLock()
	defer n.quiet.RUnlock()
	if w.own[n] == nil {
		w.own[n] = &attackDocuments{}
	}
	if err := w.operate(ctx, n, *w.own[n]); err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	w.attack.done.Add(1)
	return nil
}

// operate draws an operation. Those with the smallest quotas are the most frequent ones.
func (w *attackWorker) operate(ctx context.Context, n *attackAccount, own attackDocuments) error {
	kind := []string{"files", "files", "files", "pastes", "pasteLite"}[w.random.IntN(5)]
	var d *attackDocument
	if list := own[kind]; len(list) > 0 {
		d = list[w.random.IntN(len(list))]
	}
	switch what := w.random.IntN(100); {
	case what < 3:
		return w.revoked(ctx, n)
	case what < 5 && n.mayFail():
		return w.missing(ctx, n, kind)
	case d == nil || what < 50:
		return w.create(ctx, n, own, kind)
	case what < 65:
		return w.read(ctx, n, kind, d)
	case what < 70 && kind != "files":
		return w.unchanged(ctx, n, kind, d)
	case what < 82 && kind != "files":
		return w.update(ctx, n, kind, d)
	}
	return w.remove(ctx, n, own, kind, d)
}

// metered makes a call under a new Idempotency-Key with one of the account's keys, and records what it was charged. The answer is
// nil if it was refused.
func (w *attackWorker) metered(ctx context.Context, n *attackAccount, quota string, c attackCall) (*attackAnswer, error) {
	c.once = w.attack.newKey()
	lineage, key := n.pick(w.random)
	r, made, err := w.ask(ctx, n, attackCharge{quota: quota, lineage: lineage}, key, c)
	if r == nil || err != nil {
		return nil, err
	}
	if r.replayed() && r.lost == 0 {
		return nil, fmt.Errorf("what was not made before is replayed: %s", r)
	}
	n.record(made)
	return r, nil
}

// ask makes a call until its answer is definite. It returns the charge that the answer states; the answer is nil if it was refused.
func (w *attackWorker) ask(ctx context.Context, n *attackAccount, made attackCharge, key attackKey, c attackCall) (*attackAnswer, attackCharge, error) {
	c.key, made.start = key.secret, w.attack.server.now()
	r, err := w.attack.server.settle(ctx, c)
	if err != nil {
		return nil, made, err
	}
	if r.code == "invalid_api_key" && n.valid(made.lineage, key) {
		return nil, made, fmt.Errorf("the current key of lineage %d is refused: %s", made.lineage, r)
	}
	// An attempt without an answer may have been carried out. Only a valid key can say so.
	for lost := r.lost; lost > 0 && r.code == "invalid_api_key"; {
		made.lineage, c.key = 0, n.defaultKey()
		if r, err = w.attack.server.settle(ctx, c); err != nil {
			return nil, made, err
		}
		r.lost += lost
	}
	made.end = w.attack.server.now()
	source := r.header.Get("X-Charge-Source")
	switch {
	case r.ok() && r.replayed() && source == "none":
		w.attack.count("replayed")
		return r, made, nil
	case r.ok() && !r.replayed():
		w.attack.count("served")
		made.known, made.request = true, r.id()
		made.date(r)
		made.cost, err = chargeOf(r, n.tier(), made.quota)
		return r, made, err
	case !r.ok() && (source == "" || source == "none") && (r.code == "invalid_api_key" || refusedByRule(r.code) || r.status == http.StatusNotFound && strings.HasSuffix(c.path, noDocument)):
		w.attack.count(fmt.Sprintf("%d %s", r.status, r.code))
		return nil, made, nil
	}
	return nil, made, fmt.Errorf("a strange answer, of charge source %q: %s", source, r)
}

// date finds out in which month a call was admitted that was answered in another than it was sent in: its answer says how long that
// month lasts from then on.
func (c *attackCharge) date(r *attackAnswer) {
	if monthOf(c.start).Equal(monthOf(c.end)) {
		return
	}
	_, reset, _ := strings.Cut(r.header.Get("RateLimit"), ";t=")
	if seconds, err := strconv.Atoi(reset); err == nil && c.start.Add(time.Duration(seconds)*time.Second).After(c.end.AddDate(0, 0, 1)) {
		c.start = c.end
	} else {
		c.end = c.start
	}
	c.turn = true
}

// chargeOf is what an answer says about its charge, which must be the price of the plan.
func chargeOf(r *attackAnswer, tier plan.Tier, quota string) (plan.Micros, error) {
	source, text := r.header.Get("X-Charge-Source"), r.header.Get("X-Credits-Cost")
	switch {
	case source == "quota" && text == "":
		return 0, nil
	case source != "credits":
		return 0, fmt.Errorf("charge source %q, cost %q: %s", source, text, r)
	}
	cost, err := plan.ParseCredits(text)
	if price := attackTerm(tier, quota).Price; err == nil && (cost != price || cost <= 0) {
		err = fmt.Errorf("the cost is %s, the price %s: %s", cost, price, r)
	}
	return cost, err
}

// attackTerm is the limit and price of a quota key on a plan.
func attackTerm(tier plan.Tier, quota string) plan.Term {
	for _, k := range plan.QuotaKeys() {
		if k.String() == quota {
			return plan.Published(10).Plans[tier].Terms[k]
		}
	}
	panic("no quota key " + quota)
}

func (w *attackWorker) create(ctx context.Context, n *attackAccount, own attackDocuments, kind string) error {
	c := attackCall{method: http.MethodPost, path: attackPaths(kind) + "create", kind: "application/json", body: `{"content":"money"}`}
	quota := kind + ".create"
	if kind == "files" {
		c.path, c.kind, c.body, quota = attackPaths(kind)+"upload?name=f", "application/octet-stream", "money", "files.upload"
		if w.random.IntN(10) == 0 {
			c.body = strings.Repeat("money ", 12<<10) // it is read after its admission
		}
	}
	r, err := w.metered(ctx, n, quota, c)
	if r == nil || err != nil {
		return err
	}
	d := &attackDocument{version: 1}
	var made struct{ ID string }
	if err := json.Unmarshal(r.body, &made); err != nil || made.ID == "" {
		return fmt.Errorf("no id in %s", r)
	}
	d.id = made.ID
	own[kind] = append(own[kind], d)
	return nil
}

func (w *attackWorker) update(ctx context.Context, n *attackAccount, kind string, d *attackDocument) error {
	r, err := w.metered(ctx, n, kind+".update", attackCall{
		method: http.MethodPut, path: attackPaths(kind) + "update/" + d.id, kind: "application/json", body: fmt.Sprintf(`{"content":"version %d"}`, d.version+1),
	})
	if r != nil {
		d.version++
	}
	return err
}

func (w *attackWorker) remove(ctx context.Context, n *attackAccount, own attackDocuments, kind string, d *attackDocument) error {
	r, err := w.metered(ctx, n, kind+".delete", attackCall{method: http.MethodDelete, path: attackPaths(kind) + "delete/" + d.id})
	if r != nil {
		own[kind] = slices.DeleteFunc(own[kind], func(other *attackDocument) bool { return other == d })
	}
	return err
}

const (
	freeReplays = 2                // of a read: docs/api.md, Idempotency
	replayTime  = 60 * time.Second // in which they are free
)

// read reads a document, and perhaps again under the same Idempotency-Key, which is free only so often.
func (w *attackWorker) read(ctx context.Context, n *attackAccount, kind string, d *attackDocument) error {
	c := attackCall{method: http.MethodGet, path: attackPaths(kind) + "get/" + d.id, once: w.attack.newKey()}
	lineage, key := n.pick(w.random)
	replays, again := -1, w.random.IntN(9)-4
	var last *attackCharge // that an answer stated
	var start int64        // of the server, when last was sent
	for since := time.Now(); ; again-- {
		starts := w.attack.server.starts.Load()
		r, made, err := w.ask(ctx, n, attackCharge{quota: kind + ".get", lineage: lineage}, key, c)
		if r == nil || err != nil {
			return err
		}
		switch late := time.Since(since) > replayTime; {
		case !r.replayed():
			switch {
			case replays < 0, replays == freeReplays, late, replays > 0 && replays+r.lost >= freeReplays:
			case replays == 0 && start != w.attack.server.starts.Load():
				// The kill came before the settlement, so that the second one is carried out in the first one's place.
				n.replace(last)
				w.attack.count("replaced")
			default:
				return fmt.Errorf("charged after %d free replays: %s", replays, r)
			}
			last, start = n.record(made), starts
			replays, since = 0, time.Now()
		case replays < 0 && r.lost == 0, replays == freeReplays && r.lost == 0:
			return fmt.Errorf("a replay for nothing: %s", r)
		case replays < 0, replays == freeReplays: // a lost answer was the first one of its read
			n.record(made)
			return nil
		case replays+r.lost > freeReplays:
			return fmt.Errorf("lost too often to know what it was charged: %s", r)
		default:
			replays++
		}
		if again <= 0 || r.lost > 0 {
			return nil
		}
	}
}

// unchanged reads a document that the client has already. That is free.
func (w *attackWorker) unchanged(ctx context.Context, n *attackAccount, kind string, d *attackDocument) error {
	lineage, key := n.pick(w.random)
	r, err := w.attack.server.settle(ctx, attackCall{
		method: http.MethodGet, path: attackPaths(kind) + "get/" + d.id, key: key.secret, unchanged: strconv.Quote(strconv.Itoa(d.version)),
	})
	switch {
	case err != nil:
		return err
	case r.status == http.StatusNotModified && r.header.Get("X-Credits-Cost") == "", r.code == "invalid_api_key" && !n.valid(lineage, key),
		r.code == "plan_upgrade_required" && attackTerm(n.tier(), kind+".get").Limit == 0:
		w.attack.count(fmt.Sprint(r.status, " ", r.code))
		return nil
	}
	return fmt.Errorf("a conditional read: %s", r)
}

const noDocument = "000000000000" // an id that no document has

// missing makes a call that fails once it was admitted: its quota or credits come back.
func (w *attackWorker) missing(ctx context.Context, n *attackAccount, kind string) error {
	r, err := w.metered(ctx, n, kind+".delete", attackCall{method: http.MethodDelete, path: attackPaths(kind) + "delete/" + noDocument})
	if err == nil && r != nil {
		err = fmt.Errorf("a document that is not there is deleted: %s", r)
	}
	return err
}

// revoked makes a call with a key that was revoked.
func (w *attackWorker) revoked(ctx context.Context, n *attackAccount) error {
	key := n.revoked(w.random)
	if key == "" {
		return nil
	}
	r, err := w.attack.server.settle(ctx, attackCall{
		method: http.MethodPost, path: attackPaths("pasteLite") + "create", kind: "application/json", body: `{"content":"money"}`, key: key, once: w.attack.newKey(),
	})
	if err == nil && r.code != "invalid_api_key" {
		err = fmt.Errorf("a revoked key: %s", r)
	}
	w.attack.count("by revoked keys")
	return err
}
