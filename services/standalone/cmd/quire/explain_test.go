package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestTheTimeOfARequestIsATableOrAReason: the parts longest first, or why they are not known, and always what is.
func TestTheTimeOfARequestIsATableOrAReason(t *testing.T) {
	const (
		request = `"request": {"id": "01a1fff9-83d3-743f-9a6d-5290a1beb664", "quotaKey": "pastes.create", "account": "G178uU9dNkL", "anonymous": false,
			"journal": {"stream": "BILLING_0", "sequence": 36, "index": 0}, "settledAt": {"stream": "BILLING_0", "sequence": 37}}`
		times = `"startedAt": "2026-11-21T21:18:24.719Z", "admittedAt": "2026-11-21T21:18:24.723Z", "settledAt": "2026-11-21T21:18:25.055Z"`
		head  = "01a1fff9-83d3-743f-9a6d-5290a1beb664: pastes.create of account G178uU9dNkL\n"
		tail  = `
started            2026-11-21T21:18:24.719Z  by the edge's clock
admission stored   2026-11-21T21:18:24.723Z  by the clock of NATS, in message 36 of BILLING_0
settlement stored  2026-11-21T21:18:25.055Z  by the clock of NATS, in message 37 of BILLING_0

Next: "A request was slow" in docs/runbook.md
`
	)
	for name, c := range map[string]struct{ answer, want string }{
		"slow": {
			`{` + request + `, "timing": {` + times + `, "durationMs": 342, "parts": {"bodyMs": 0, "admitQueueMs": 2, "admitSyncMs": 301,
				"admitFoldMs": 4, "writeQueueMs": 1, "writeSyncMs": 19, "writeFoldMs": 11, "readMs": 0, "blobMs": 0}}}`,
			head + `It took 342 ms until the response began.

PART              MS  SHARE  LOOK AT
admitSyncMs      301    88%  disks of the NATS servers, Raft's leaders of the billing journal
writeSyncMs       19     6%  disks of the NATS servers, Raft's leaders of the document's journal
writeFoldMs       11     3%  CPU and read model of the document service, billing's journal
admitFoldMs        4     1%  billing's CPU, quire_billing_state{of="projection_pending"}
rest               4     1%  the edge's CPU; password hashes
admitQueueMs       2     1%  the other parts: the batch before was slow, for everyone
writeQueueMs       1     0%  the other parts: the batch before was slow, for everyone
` + tail,
		},
		"a read beside its admission": {
			`{` + request + `, "timing": {` + times + `, "durationMs": 20, "parts": {"admitSyncMs": 19, "readMs": 20}}}`,
			head + `It took 20 ms until the response began.

PART             MS  SHARE  LOOK AT
readMs           20   100%  the read model of the document service; it runs beside the admission
admitSyncMs      19    95%  disks of the NATS servers, Raft's leaders of the billing journal
` + tail,
		},
		"fast": {
			`{` + request + `, "timing": {` + times + `, "durationMs": 7, "parts": null}}`,
			head + "It took 7 ms until the response began. Edges report the parts of requests of 20 ms and longer.\n" + tail,
		},
		"unreported": {
			`{` + request + `, "timing": {` + times + `, "durationMs": null, "parts": null}}`,
			head + "Its duration is unknown: the request log does not have it. Edges report a request within a second; the log keeps it for\n" +
				"QUIRE_REQUEST_RETENTION, and 10,000 requests of an account.\n" + tail,
		},
		"without a request log": {
			`{` + request + `, "timing": null}`,
			head + "Its time is unknown: the request log can't be read. See billing's /readyz and log, then try again.\n",
		},
		"keyless and open": {
			`{"request": {"id": "r", "quotaKey": "pasteLite.create", "account": null, "anonymous": true, "journal": {"stream": "BILLING_0", "sequence": 36, "index": 0}, "settledAt": null},
				"timing": {"startedAt": "2026-11-21T21:18:24.719Z", "admittedAt": null, "settledAt": null, "durationMs": null, "parts": null}}`,
			"r: pasteLite.create without an account\n" +
				"Its duration is unknown: requests without an account are in no request log. The access log and traces have them.\n\n" +
				"started  2026-11-21T21:18:24.719Z  by the edge's clock\n\nNext: \"A request was slow\" in docs/runbook.md\n",
		},
	} {
		var e explained
		if err := json.Unmarshal([]byte(c.answer), &e); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		e.print(&out)
		if out.String() != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, out.String(), c.want)
		}
	}
}
