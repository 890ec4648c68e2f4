package endpoint

import (
	"encoding/hex"
	"errors"
	"strconv"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/bus"
)

const (
	HeaderRateLimit       = "RateLimit"
	HeaderRateLimitPolicy = "RateLimit-Policy"
	HeaderChargeSource    = "X-Charge-Source"
	HeaderCreditsCost     = "X-Credits-Cost"
	HeaderCreditsBalance  = "X-Credits-Balance"
	HeaderQuotaRemaining  = "X-Quota-Remaining"
	HeaderReceipt         = "X-Receipt"
	HeaderReplayed        = "Idempotency-Replayed"
)

// Receipt states how billing counted a call. Operations return it with their result, or with their error: see Receipt.Fail.
// The zero value states nothing.
type Receipt struct {
	RequestID     event.RequestID // under which billing explains the charge
	Remaining     int64           // the answer's "remaining"; a replay repeats the one of the first answer
	Quota         Quota           // now
	Source        ChargeSource
	CostMicros    uint64 // 0 unless credits paid
	BalanceMicros uint64 // after the call; 0 unless credits paid
	ChainNumber   uint64 // of the admission's entry in the account's chain; 0: none
	Chain         []byte // with that entry
	Replayed      bool   // the result of an earlier call with the same Idempotency-Key is returned
}

// Quota is the state of a quota. It is unknown with a zero Key, and has no RateLimit headers with the limit plan.Unlimited.
type Quota struct {
	Key              plan.QuotaKey
	Limit, Remaining int64
	ResetSeconds     int64
}

// ChargeSource is what paid for a call, as the API writes it; empty while the outcome is unknown.
type ChargeSource string

const (
	SourceNone    ChargeSource = "none"
	SourceQuota   ChargeSource = "quota"
	SourceCredits ChargeSource = "credits"
)

// FreeReceipt is the receipt of a call that no quota counts.
func FreeReceipt() Receipt { return Receipt{Remaining: plan.Unlimited, Source: SourceNone} }

// receiptOf is the receipt for a verdict on an admission; nil: the call is free.
func receiptOf(a *bus.Admission, v *bus.Verdict) Receipt {
	r := FreeReceipt()
	r.RequestID = a.RequestID
	if v == nil {
		return r
	}
	r.Remaining, r.Quota = v.Remaining, Quota{a.Key, v.Limit, v.Remaining, int64(v.ResetSeconds)}
	r.ChainNumber, r.Chain = v.ReceiptNumber, v.Receipt
	switch {
	case !v.Admitted():
	case v.Charge == event.ChargeSource_CHARGE_CREDITS:
		r.Source, r.CostMicros, r.BalanceMicros = SourceCredits, v.CostMicros, v.BalanceMicros
	case v.Charge == event.ChargeSource_CHARGE_QUOTA && v.Limit != plan.Unlimited:
		r.Source = SourceQuota
	}
	return r
}

// voided is the receipt after the call was voided. The chain keeps the admission's entry, and gets one that undoes it.
func (r Receipt) voided() Receipt {
	if r.Source == SourceQuota {
		r.Remaining++
		r.Quota.Remaining++
	}
	r.Source, r.CostMicros, r.BalanceMicros = SourceNone, 0, 0
	return r
}

// SetHeaders writes the receipt into the headers of an answer. Nothing else does.
func (r *Receipt) SetHeaders(h *fasthttp.ResponseHeader) {
	if q := &r.Quota; q.Key != Unmetered && q.Limit != plan.Unlimited {
		var buf [96]byte
		b := append(q.appendKey(buf[:0]), ";q="...)
		h.SetCanonical([]byte(HeaderRateLimitPolicy), strconv.AppendInt(b, q.Limit, 10))
		b = strconv.AppendInt(append(q.appendKey(buf[:0]), ";r="...), q.Remaining, 10)
		h.SetCanonical([]byte(HeaderRateLimit), strconv.AppendInt(append(b, ";t="...), q.ResetSeconds, 10))
	}
	if r.Source == SourceCredits {
		h.Set(HeaderCreditsCost, plan.Credits(r.CostMicros))
		h.Set(HeaderCreditsBalance, plan.Credits(r.BalanceMicros))
	}
	if r.Source != "" {
		h.Set(HeaderChargeSource, string(r.Source))
	}
	if r.ChainNumber != 0 {
		var buf [20 + 1 + 64]byte
		h.SetCanonical([]byte(HeaderReceipt), hex.AppendEncode(append(strconv.AppendUint(buf[:0], r.ChainNumber, 10), '.'), r.Chain))
	}
	if r.Replayed {
		h.Set(HeaderReplayed, "true")
	}
}

func (q *Quota) appendKey(dst []byte) []byte {
	return append(append(append(dst, '"'), q.Key.String()...), '"')
}

// SetRemaining writes "remaining" into a header, for answers that are not JSON.
func (r *Receipt) SetRemaining(c *fiber.Ctx) {
	c.Set(HeaderQuotaRemaining, strconv.FormatInt(r.Remaining, 10))
}

// Receipt writes "remaining", and so completes the body of a success.
func (o Object) Receipt(r *Receipt) Object { return o.Int("remaining", r.Remaining).End() }

// receipted is an error with the receipt of its call.
type receipted struct {
	error
	receipt Receipt
}

func (e *receipted) Unwrap() error { return e.error }

// Fail returns err with the receipt, which Base.Fail writes into headers. An err that has a receipt keeps it.
func (r Receipt) Fail(err error) error {
	if _, has := errors.AsType[*receipted](err); has || err == nil {
		return err
	}
	return &receipted{err, r}
}

// KeepReceipt returns err with the receipt of the error it replaces, if that has one.
func KeepReceipt(replaced, err error) error {
	if e, ok := errors.AsType[*receipted](replaced); ok {
		return e.receipt.Fail(err)
	}
	return err
}
