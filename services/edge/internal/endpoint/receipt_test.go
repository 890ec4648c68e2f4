package endpoint

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/fault"
)

// TestAReceiptIsWrittenAsDocumented checks the headers and the JSON of each kind: docs/api.md, Shape of every response.
func TestAReceiptIsWrittenAsDocumented(t *testing.T) {
	call := bus.Admission{RequestID: event.NewRequestID(), Key: plan.LiteGet}
	metered := func(v *event.Verdict) *Metered {
		return &Metered{Admission: call, Verdict: &bus.Verdict{Verdict: v}}
	}
	quota := metered(&event.Verdict{Decision: event.Decision_ADMITTED, Charge: event.ChargeSource_CHARGE_QUOTA, Limit: 500, Remaining: 41, ResetSeconds: 60})
	credits := metered(&event.Verdict{
		Decision: event.Decision_ADMITTED, Charge: event.ChargeSource_CHARGE_CREDITS, Limit: 500, ResetSeconds: 60, CostMicros: 200, BalanceMicros: 4_999_800,
	})
	unlimited := metered(&event.Verdict{Decision: event.Decision_ADMITTED, Charge: event.ChargeSource_CHARGE_QUOTA, Limit: plan.Unlimited, Remaining: plan.Unlimited})
	headers := func(charge, remaining string, more ...string) map[string]string {
		out := map[string]string{}
		for i, value := range append([]string{charge, remaining}, more...) {
			if name := [...]string{HeaderChargeSource, HeaderRateLimit, HeaderReplayed, HeaderCreditsCost, HeaderCreditsBalance}[i]; value != "" {
				out[name] = value
			}
		}
		if remaining != "" {
			out[HeaderRateLimitPolicy] = `"pasteLite.get";q=500`
		}
		return out
	}
	chained := metered(&event.Verdict{
		Decision: event.Decision_ADMITTED, Limit: plan.Unlimited, Remaining: plan.Unlimited, ReceiptNumber: math.MaxUint64, Receipt: bytes.Repeat([]byte{0xAB}, 32),
	})
	onChain := headers("none", "")
	onChain[HeaderReceipt] = "18446744073709551615." + strings.Repeat("ab", 32)
	repeated := metered(&event.Verdict{Decision: event.Decision_IDEMPOTENCY_SERVED, Limit: 500, Remaining: 41, ResetSeconds: 60})
	repeated.replayed = true
	free := &Metered{Admission: call}
	replay := Receipt{Remaining: 7, Quota: Quota{plan.LiteCreate, 100, 3, 5}, Source: SourceNone, Replayed: true}
	replayed := headers("none", `"pasteLite.create";r=3;t=5`, "true")
	replayed[HeaderRateLimitPolicy] = `"pasteLite.create";q=100`
	for name, test := range map[string]struct {
		receipt Receipt
		headers map[string]string
		json    int64
	}{
		"quota":           {quota.Receipt(), headers("quota", `"pasteLite.get";r=41;t=60`), 41},
		"quota, voided":   {quota.Voided(), headers("none", `"pasteLite.get";r=42;t=60`), 42},
		"credits":         {credits.Receipt(), headers("credits", `"pasteLite.get";r=0;t=60`, "", "0.000200", "4.999800"), 0},
		"credits, voided": {credits.Voided(), headers("none", `"pasteLite.get";r=0;t=60`), 0},
		"unlimited":       {unlimited.Receipt(), headers("none", ""), -1},
		"unlimited, void": {unlimited.Voided(), headers("none", ""), -1},
		"on a chain":      {chained.Receipt(), onChain, -1},
		"on it, voided":   {chained.Voided(), onChain, -1},
		"free":            {free.Receipt(), headers("none", ""), -1},
		"free, voided":    {free.Voided(), headers("none", ""), -1},
		"not counted":     {FreeReceipt(), headers("none", ""), -1},
		"repeated read":   {repeated.Receipt(), headers("none", `"pasteLite.get";r=41;t=60`, "true"), 41},
		"repeated, void":  {repeated.Voided(), headers("none", `"pasteLite.get";r=41;t=60`, "true"), 41},
		"replay":          {replay, replayed, 7},
		"unknown outcome": {Receipt{Quota: quota.Receipt().Quota}, headers("", `"pasteLite.get";r=41;t=60`), 0},
		"nothing known":   {Receipt{}, headers("", ""), 0},
		"refused": {
			receiptOf(&call, &bus.Verdict{Verdict: &event.Verdict{Decision: event.Decision_QUOTA_EXHAUSTED, Limit: 500, ResetSeconds: 60}}),
			headers("none", `"pasteLite.get";r=0;t=60`), 0,
		},
	} {
		var h fasthttp.ResponseHeader
		h.SetNoDefaultContentType(true)
		test.receipt.SetHeaders(&h)
		got := map[string]string{}
		h.VisitAll(func(name, value []byte) { got[string(name)] = string(value) })
		if !maps.Equal(got, test.headers) {
			t.Errorf("%s: headers %v, want %v", name, got, test.headers)
		}
		if got, want := string(NewAnswer(0).Receipt(&test.receipt)), fmt.Sprintf(`{"success":true,"remaining":%d}`, test.json); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got := quota.Receipt().RequestID; got != call.RequestID {
		t.Errorf("the receipt of %s is for %s", call.RequestID, got)
	}
}

// TestAFailureHasTheFirstReceiptItGot, whose headers its answer has; AsFault has none.
func TestAFailureHasTheFirstReceiptItGot(t *testing.T) {
	s := baseFor("", io.Discard)
	first := Receipt{Quota: Quota{plan.LiteGet, 500, 41, 60}, Source: SourceNone}.Fail(NotFound())
	second := FreeReceipt().Fail(first)
	other := KeepReceipt(second, fault.New(fault.IdempotencyInFlight, "Wait."))
	for name, test := range map[string]struct {
		err       error
		kind      fault.Kind
		remaining string
	}{
		"the first":  {first, fault.NotFound, `"pasteLite.get";r=41;t=60`},
		"the second": {second, fault.NotFound, `"pasteLite.get";r=41;t=60`},
		"replaced":   {other, fault.IdempotencyInFlight, `"pasteLite.get";r=41;t=60`},
		"without":    {AsFault(first), fault.NotFound, ""},
		"never had":  {KeepReceipt(NotFound(), NotFound()), fault.NotFound, ""},
	} {
		var c fasthttp.RequestCtx
		s.Fail(&c, "/", test.err)
		got := "" // Peek asks in another spelling
		c.Response.Header.VisitAll(func(name, value []byte) {
			if string(name) == HeaderRateLimit {
				got = string(value)
			}
		})
		if got != test.remaining {
			t.Errorf("%s: RateLimit %q, want %q", name, got, test.remaining)
		}
		if c.Response.StatusCode() != test.kind.Status() {
			t.Errorf("%s: %d", name, c.Response.StatusCode())
		}
	}
	if err := FreeReceipt().Fail(nil); err != nil {
		t.Errorf("no failure is one: %v", err)
	}
}
