package fold_test

import (
	"runtime"
	"testing"
	"weak"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
)

const (
	owner   = 7
	other   = 8
	nowMS   = 1_000_000
	theItem = "abcDEF123456"
)

func decide(p fold.Policy, state *event.Document, kept *event.Outcome, r *event.Request, at fold.Position) (fold.Change, *event.Outcome) {
	o := &event.Outcome{}
	return fold.Decide(p, state, kept, r, at, o), o
}

func settlements(r *event.Request, o *event.Outcome, c fold.Change, sequence uint64) []*event.Settlement {
	return fold.Settlements(nil, &event.Settlement{}, r, o, c, sequence)
}

var at = fold.Position{Sequence: 9, Index: 3, NowMS: nowMS}

// stored is a stored document, changed by f.
func storageOf(f func(*event.Document)) *event.Document {
	d := &event.Document{
		Id: theItem, Owner: owner, Title: "title", Language: "go", Visibility: uint32(event.Unlisted), Tags: []string{"a"},
		Version: 3, FirstVersionKept: 1, CreatedMs: 100, UpdatedMs: 200,
		Content: &event.Content{Inline: []byte("text"), SizeBytes: 4},
	}
	if f != nil {
		f(d)
	}
	return d
}

func keyless(d *event.Document) { d.Owner, d.ManageTokenHash = 0, []byte("token") }
func private(d *event.Document) { d.Visibility = uint32(event.Private) }
func expired(d *event.Document) { d.ExpiresMs = nowMS }
func burning(d *event.Document) { d.BurnAfterRead = true }

func request(account uint64, action any) *event.Request {
	r := &event.Request{RequestId: []byte("0123456789abcdef"), Item: theItem, Account: account, BodyHash: 5}
	switch a := action.(type) {
	case *event.Create:
		r.Action = &event.Request_Create{Create: a}
	case *event.Update:
		r.Action = &event.Request_Update{Update: a}
	case *event.Delete:
		r.Action = &event.Request_Delete{Delete: a}
	case *event.Burn:
		r.Action = &event.Request_Burn{Burn: a}
	case *event.Expire:
		r.Action = &event.Request_Expire{Expire: a}
	}
	return r
}

func TestWhoMayChangeADocument(t *testing.T) {
	var (
		ok       = event.OutcomeStatus_OK
		missing  = event.OutcomeStatus_NOT_FOUND
		notOwner = event.OutcomeStatus_NOT_OWNER
		token    = event.OutcomeStatus_INVALID_MANAGE_TOKEN
		version  = event.OutcomeStatus_VERSION_MISMATCH
	)
	for name, c := range map[string]struct {
		policy  fold.Policy
		state   *event.Document
		account uint64
		token   string
		match   []uint64
		want    event.OutcomeStatus
	}{
		"the owner":                             {fold.Pastes(), storageOf(nil), owner, "", nil, ok},
		"the owner of a private one":            {fold.Pastes(), storageOf(private), owner, "", nil, ok},
		"another on what they may read":         {fold.Pastes(), storageOf(nil), other, "", nil, notOwner},
		"another on a private one":              {fold.Pastes(), storageOf(private), other, "", nil, missing},
		"anyone on a missing one":               {fold.Pastes(), nil, other, "", nil, missing},
		"the owner of an expired one":           {fold.Pastes(), storageOf(expired), owner, "", nil, missing},
		"the owner with the version":            {fold.Pastes(), storageOf(nil), owner, "", []uint64{1, 3}, ok},
		"the owner with another version":        {fold.Pastes(), storageOf(nil), owner, "", []uint64{2}, version},
		"another with another version":          {fold.Pastes(), storageOf(nil), other, "", []uint64{2}, notOwner},
		"the token's holder":                    {fold.QuickPastes(), storageOf(keyless), 0, "token", nil, ok},
		"the token's holder with other version": {fold.QuickPastes(), storageOf(keyless), 0, "token", []uint64{4}, version},
		"a wrong token":                         {fold.QuickPastes(), storageOf(keyless), 0, "tokeN", nil, token},
		"no token":                              {fold.QuickPastes(), storageOf(keyless), 0, "", nil, token},
		"a token on an account's":               {fold.QuickPastes(), storageOf(nil), 0, "token", nil, token},
		"a token on an account's private one":   {fold.QuickPastes(), storageOf(private), 0, "token", nil, missing},
		"a token on a missing one":              {fold.QuickPastes(), nil, 0, "token", nil, missing},
		"a token on an expired one":             {fold.QuickPastes(), storageOf(func(d *event.Document) { keyless(d); expired(d) }), 0, "token", nil, missing},
		"a key on nobody's, token or not":       {fold.QuickPastes(), storageOf(keyless), owner, "token", nil, notOwner},
		"a token where there are none":          {fold.Pastes(), storageOf(keyless), 0, "token", nil, token},
		"no token on one without":               {fold.QuickPastes(), storageOf(func(d *event.Document) { d.Owner = 0 }), 0, "", nil, token},
	} {
		t.Run(name, func(t *testing.T) {
			for _, action := range []any{
				&event.Update{Title: new("new"), IfMatch: c.match, ManageTokenHash: []byte(c.token)},
				&event.Delete{IfMatch: c.match, ManageTokenHash: []byte(c.token)},
			} {
				change, o := decide(c.policy, c.state, nil, request(c.account, action), at)
				if o.Status != c.want {
					t.Errorf("%T: %v, want %v", action, o.Status, c.want)
				}
				if changed := change.Put != nil || change.Delete; changed != (c.want == ok) {
					t.Errorf("%T: changed %v", action, changed)
				}
			}
		})
	}
}

func TestWhoMayRead(t *testing.T) {
	for name, c := range map[string]struct {
		doc    *event.Document
		reader fold.Reader
		want   bool
	}{
		"anyone, unlisted":            {storageOf(nil), fold.Reader{}, true},
		"another, public":             {storageOf(func(d *event.Document) { d.Visibility = uint32(event.Public) }), fold.Reader{Account: other}, true},
		"another, private":            {storageOf(private), fold.Reader{Account: other}, false},
		"keyless, private":            {storageOf(private), fold.Reader{}, false},
		"keyless, nobody's private":   {storageOf(func(d *event.Document) { keyless(d); private(d) }), fold.Reader{}, false},
		"owner, private":              {storageOf(private), fold.Reader{Account: owner}, true},
		"of no visibility":            {storageOf(func(d *event.Document) { d.Visibility = 0 }), fold.Reader{Account: other}, false},
		"a missing one":               {nil, fold.Reader{Account: owner}, false},
		"owner, at the expiry":        {storageOf(expired), fold.Reader{Account: owner, NowMS: nowMS}, false},
		"owner, before the expiry":    {storageOf(expired), fold.Reader{Account: owner, NowMS: nowMS - 1}, true},
		"owner, earlier version":      {storageOf(nil), fold.Reader{Account: owner, Version: 2}, true},
		"another, earlier version":    {storageOf(nil), fold.Reader{Account: other, Version: 2}, false},
		"another, the current by n":   {storageOf(nil), fold.Reader{Account: other, Version: 3}, true},
		"by a link, private":          {storageOf(private), fold.Reader{ByLink: true}, true},
		"by a link, expired":          {storageOf(expired), fold.Reader{ByLink: true, NowMS: nowMS}, false},
		"by a link, earlier version":  {storageOf(nil), fold.Reader{ByLink: true, Version: 2}, false},
		"by a link, a missing one":    {nil, fold.Reader{ByLink: true}, false},
		"owner, version not yet made": {storageOf(nil), fold.Reader{Account: owner, Version: 4}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fold.MayRead(c.doc, c.reader); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestCreate(t *testing.T) {
	given := &event.Document{Owner: owner, Title: "t", Visibility: uint32(event.Public), Content: &event.Content{Blob: "b", SizeBytes: 70_000}, Version: 99}
	for name, c := range map[string]struct {
		create  *event.Create
		expires int64
	}{
		"never":    {&event.Create{Document: given}, 0},
		"after":    {&event.Create{Document: given, ExpiresInMs: 60_000}, nowMS + 60_000},
		"at":       {&event.Create{Document: storageOf(func(d *event.Document) { d.ExpiresMs = 2_000_000 })}, 2_000_000},
		"in above": {&event.Create{Document: storageOf(func(d *event.Document) { d.ExpiresMs = 5 }), ExpiresInMs: 1}, nowMS + 1},
	} {
		t.Run(name, func(t *testing.T) {
			change, o := decide(fold.Pastes(), nil, nil, request(owner, c.create), at)
			d := change.Put
			if o.Status != event.OutcomeStatus_OK || d == nil {
				t.Fatalf("%v, put %v", o.Status, d)
			}
			if d.Id != theItem || d.Version != 1 || d.CreatedMs != nowMS || d.UpdatedMs != nowMS || d.ExpiresMs != c.expires || d.CreatedOrder != 9<<12|3 {
				t.Errorf("made %v", d)
			}
			if o.Version != 1 || o.CreatedMs != nowMS || o.ExpiresMs != c.expires || o.Owner != d.Owner || o.Index != 3 || o.Document != nil {
				t.Errorf("answered %v", o)
			}
		})
	}
	if given.Version != 99 || given.Id != "" {
		t.Error("the request was changed")
	}
	if _, o := decide(fold.Pastes(), storageOf(nil), nil, request(owner, &event.Create{Document: given}), at); o.Status != event.OutcomeStatus_ID_TAKEN {
		t.Errorf("on a taken id: %v", o.Status)
	}
}

func TestUpdateIsAMergeAndKeepsTheEarlierVersion(t *testing.T) {
	before := storageOf(func(d *event.Document) { d.ExpiresMs, d.PasswordHash = 5_000_000, []byte("hash") })
	same := proto.Clone(before).(*event.Document)
	for name, c := range map[string]struct {
		update *event.Update
		want   func(*event.Document)
	}{
		"nothing":        {&event.Update{}, func(*event.Document) {}},
		"title":          {&event.Update{Title: new("x")}, func(d *event.Document) { d.Title = "x" }},
		"empty title":    {&event.Update{Title: new("")}, func(d *event.Document) { d.Title = "" }},
		"language":       {&event.Update{Language: new("c")}, func(d *event.Document) { d.Language = "c" }},
		"visibility":     {&event.Update{Visibility: new(uint32(event.Private))}, private},
		"burn":           {&event.Update{BurnAfterRead: new(true)}, burning},
		"password":       {&event.Update{PasswordHash: []byte("other")}, func(d *event.Document) { d.PasswordHash = []byte("other") }},
		"no password":    {&event.Update{PasswordHash: []byte{}}, func(d *event.Document) { d.PasswordHash = nil }},
		"tags":           {&event.Update{Tags: &event.Tags{Values: []string{"b", "c"}}}, func(d *event.Document) { d.Tags = []string{"b", "c"} }},
		"no tags":        {&event.Update{Tags: &event.Tags{}}, func(d *event.Document) { d.Tags = nil }},
		"content":        {&event.Update{Content: &event.Content{Blob: "k", SizeBytes: 9}}, func(d *event.Document) { d.Content = &event.Content{Blob: "k", SizeBytes: 9} }},
		"expiry":         {&event.Update{ExpiresMs: new(int64(6_000_000))}, func(d *event.Document) { d.ExpiresMs = 6_000_000 }},
		"never":          {&event.Update{ExpiresMs: new(int64(0))}, func(d *event.Document) { d.ExpiresMs = 0 }},
		"expiry from it": {&event.Update{ExpiresInMs: new(int64(60_000))}, func(d *event.Document) { d.ExpiresMs = nowMS + 60_000 }},
		"never from it":  {&event.Update{ExpiresInMs: new(int64(0))}, func(d *event.Document) { d.ExpiresMs = 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			change, o := decide(fold.Pastes(), before, nil, request(owner, c.update), at)
			want := proto.Clone(before).(*event.Document)
			want.Version, want.UpdatedMs = 4, nowMS
			c.want(want)
			if !proto.Equal(change.Put, want) {
				t.Errorf("made %v\nwant %v", change.Put, want)
			}
			if change.Version != before || !proto.Equal(before, same) {
				t.Error("the earlier version is not kept as it was")
			}
			if o.Status != event.OutcomeStatus_OK || o.Version != 4 || o.UpdatedMs != nowMS || o.CreatedMs != 100 {
				t.Errorf("answered %v", o)
			}
		})
	}
}

func TestAKeylessPasteEndsInTimeWhateverItsUpdatesSay(t *testing.T) {
	const most, latest = nowMS + 900, 100 + nowMS + 900 // since its creation
	for name, c := range map[string]struct {
		before       int64 // its expiry
		update       *event.Update
		max, expires int64
	}{
		"no limit":                     {latest, &event.Update{ExpiresMs: new(int64(latest + 1))}, 0, latest + 1},
		"sooner":                       {latest, &event.Update{ExpiresMs: new(int64(latest - 1))}, most, latest - 1},
		"exactly then":                 {latest - 1, &event.Update{ExpiresMs: new(int64(latest))}, most, latest},
		"later":                        {latest, &event.Update{ExpiresMs: new(int64(latest + 1))}, most, latest},
		"never":                        {latest, &event.Update{ExpiresMs: new(int64(0))}, most, latest},
		"so long from now":             {latest, &event.Update{ExpiresInMs: new(int64(most))}, most, latest},
		"a minute from now":            {latest, &event.Update{ExpiresInMs: new(int64(60))}, most, nowMS + 60},
		"nothing of it":                {latest, &event.Update{Title: new("x")}, most, latest},
		"nothing, of one of long ago":  {latest + 5, &event.Update{Title: new("x")}, most, latest + 5},
		"later, of one of long ago":    {latest + 5, &event.Update{ExpiresMs: new(int64(latest + 9))}, most, latest + 5},
		"earlier, of one of long ago":  {latest + 5, &event.Update{ExpiresInMs: new(int64(60))}, most, nowMS + 60},
		"and one that never would end": {0, &event.Update{Title: new("x")}, most, latest},
	} {
		t.Run(name, func(t *testing.T) {
			before := storageOf(func(d *event.Document) { keyless(d); d.ExpiresMs = c.before })
			c.update.ManageTokenHash, c.update.MaxLifetimeMs = []byte("token"), c.max
			change, o := decide(fold.QuickPastes(), before, nil, request(0, c.update), at)
			if o.Status != event.OutcomeStatus_OK || change.Put.ExpiresMs != c.expires || o.ExpiresMs != c.expires {
				t.Errorf("%v: expires at %d, answered %d, want %d", o.Status, change.Put.GetExpiresMs(), o.ExpiresMs, c.expires)
			}
		})
	}
}

func TestDeadlineHasPassed(t *testing.T) {
	r := request(owner, &event.Delete{})
	r.IdempotencyId = []byte("0123456789abcdef")
	kept := &event.Outcome{Status: event.OutcomeStatus_OK, BodyHash: 5, DecidedMs: nowMS}
	late := at
	late.StoredMS = nowMS
	for deadline, want := range map[int64]event.OutcomeStatus{
		0: event.OutcomeStatus_OK, nowMS: event.OutcomeStatus_OK, nowMS - 1: event.OutcomeStatus_DEADLINE_EXCEEDED,
	} {
		r.DeadlineMs = deadline
		change, o := decide(fold.Pastes(), storageOf(nil), nil, r, late)
		if o.Status != want || change.Delete != (want == event.OutcomeStatus_OK) || fold.Keeps(r, o) != (want == event.OutcomeStatus_OK) {
			t.Errorf("deadline %d: %v, deleted %v, kept %v", deadline, o.Status, change.Delete, fold.Keeps(r, o))
		}
	}
	r.DeadlineMs = nowMS + 10
	ahead := late
	ahead.NowMS = nowMS + 10*24*60*60*1000
	if _, o := decide(fold.Pastes(), storageOf(nil), nil, r, ahead); o.Status != event.OutcomeStatus_OK {
		t.Errorf("in time by the journal's clock, while the fold's time is ahead: %v", o.Status)
	}
	r.DeadlineMs = nowMS - 1
	if _, o := decide(fold.Pastes(), nil, kept, r, late); o.Status != event.OutcomeStatus_DEADLINE_EXCEEDED {
		t.Errorf("with a kept outcome: %v", o.Status)
	}
}

func TestKeptOutcomeAnswersItsRequestAlone(t *testing.T) {
	r := request(owner, &event.Create{Document: storageOf(nil)})
	r.IdempotencyId = []byte("0123456789abcdef")
	r.Charge = &event.Charge{Account: owner, QuotaKey: 1, Remaining: 4}
	_, first := decide(fold.Pastes(), nil, nil, r, at)
	if !fold.Keeps(r, first) {
		t.Fatal("the first outcome is not kept")
	}
	r.RequestId = []byte("fedcba9876543210")
	r.Charge = &event.Charge{Account: owner, QuotaKey: 1, Remaining: 3}
	later := fold.Position{Sequence: 20, NowMS: nowMS + fold.KeepOutcomeMillis - 1}
	change, again := decide(fold.Pastes(), nil, first, r, later)
	if !again.Replayed || again.Status != event.OutcomeStatus_OK || again.CreatedMs != nowMS || again.Remaining != 4 || change.Put != nil {
		t.Errorf("again: %v, %+v", again, change)
	}
	if told := settlements(r, again, change, 20); len(told) != 1 || told[0].Result != event.Result_VOID || told[0].Failed {
		t.Errorf("settled %v", told)
	}
	if fold.Keeps(r, again) || first.Replayed {
		t.Error("the replay is kept, or the first outcome was changed")
	}
	other := request(owner, &event.Create{Document: storageOf(nil)})
	other.IdempotencyId, other.BodyHash = r.IdempotencyId, 6
	if change, o := decide(fold.Pastes(), nil, first, other, later); o.Status != event.OutcomeStatus_IDEMPOTENCY_MISMATCH || change.Put != nil || fold.Keeps(other, o) {
		t.Errorf("another body: %v", o)
	}
	later.NowMS++
	if _, o := decide(fold.Pastes(), nil, first, r, later); o.Replayed || o.CreatedMs != later.NowMS {
		t.Errorf("after 24 h: %v", o)
	}
	refused := request(other.Account, &event.Delete{})
	refused.IdempotencyId = r.IdempotencyId
	if _, o := decide(fold.Pastes(), nil, nil, refused, at); !fold.Keeps(refused, o) {
		t.Errorf("a refusal is not kept: %v", o)
	}
	if fold.IsKept(&event.Request{IdempotencyId: r.IdempotencyId, Action: &event.Request_Burn{}}) {
		t.Error("the outcome of a burn would be kept")
	}
}

func TestBurn(t *testing.T) {
	for name, c := range map[string]struct {
		state   *event.Document
		account uint64
		version uint64
		want    event.OutcomeStatus
		gone    bool
	}{
		"by another":              {storageOf(burning), other, 3, event.OutcomeStatus_OK, true},
		"by nobody":               {storageOf(burning), 0, 3, event.OutcomeStatus_OK, true},
		"by nobody, nobody's":     {storageOf(func(d *event.Document) { keyless(d); burning(d) }), 0, 3, event.OutcomeStatus_OK, true},
		"by its owner":            {storageOf(burning), owner, 3, event.OutcomeStatus_OK, false},
		"of another version":      {storageOf(burning), other, 2, event.OutcomeStatus_VERSION_MISMATCH, false},
		"of what does not burn":   {storageOf(nil), other, 3, event.OutcomeStatus_OK, false},
		"of what is burned":       {nil, other, 3, event.OutcomeStatus_NOT_FOUND, false},
		"of what is expired":      {storageOf(func(d *event.Document) { burning(d); expired(d) }), other, 3, event.OutcomeStatus_NOT_FOUND, false},
		"of what became private":  {storageOf(func(d *event.Document) { burning(d); private(d) }), other, 3, event.OutcomeStatus_NOT_FOUND, false},
		"of what became older, 0": {storageOf(burning), other, 0, event.OutcomeStatus_VERSION_MISMATCH, false},
	} {
		t.Run(name, func(t *testing.T) {
			change, o := decide(fold.QuickPastes(), c.state, nil, request(c.account, &event.Burn{Version: c.version}), at)
			if o.Status != c.want || change.Delete != c.gone || change.Burned != c.gone {
				t.Errorf("%v, %+v", o.Status, change)
			}
			if shown := o.Document != nil; shown != (c.want == event.OutcomeStatus_OK) {
				t.Errorf("document shown: %v", shown)
			}
		})
	}
}

func TestExpireRemovesOnlyWhatIsOver(t *testing.T) {
	for expires, gone := range map[int64]bool{0: false, nowMS - 1: true, nowMS: true, nowMS + 1: false} {
		d := storageOf(func(d *event.Document) { d.ExpiresMs, d.Content = expires, &event.Content{Blob: "k", SizeBytes: 10} })
		change, _ := decide(fold.Files(), d, nil, request(0, &event.Expire{}), at)
		if change.Delete != gone {
			t.Errorf("expires at %d: deleted %v", expires, change.Delete)
		}
		if gone && (change.Blob != "k" || change.FirstVersion != 1 || change.LastVersion != 2 || change.Storage != fold.Storage{Account: owner, DeltaBytes: -10, AtMS: expires}) {
			t.Errorf("leaves %+v", change)
		}
	}
	if change, _ := decide(fold.Files(), nil, nil, request(0, &event.Expire{}), at); change.Delete {
		t.Error("deleted what is not there")
	}
}

func TestSettlements(t *testing.T) {
	charge := &event.Charge{Account: owner, QuotaKey: 5, Remaining: 1}
	heard := &event.Charge{Account: owner, QuotaKey: 5, Announce: true}
	told := func(action event.ContentAction, version uint64, visibility event.Visibility) *event.ContentChange {
		return &event.ContentChange{Action: action, Item: theItem, Version: version, Visibility: uint32(visibility), SizeBytes: 4}
	}
	file := storageOf(func(d *event.Document) { d.Content = &event.Content{Blob: "k", SizeBytes: 10} })
	for name, c := range map[string]struct {
		policy fold.Policy
		state  *event.Document
		action any
		charge *event.Charge
		by     uint64
		want   []*event.Settlement
	}{
		"a served upload": {fold.Files(), nil, &event.Create{Document: file}, charge, owner, []*event.Settlement{
			{RequestId: []byte("0123456789abcdef"), Result: event.Result_SERVED, Account: owner, QuotaKey: 5, Sequence: 9, StorageDelta: 10, StorageAtMs: nowMS},
		}},
		"a served delete": {fold.Files(), file, &event.Delete{}, charge, owner, []*event.Settlement{
			{RequestId: []byte("0123456789abcdef"), Result: event.Result_SERVED, Account: owner, QuotaKey: 5, Sequence: 9, StorageDelta: -10, StorageAtMs: nowMS},
		}},
		"a refused delete": {fold.Files(), file, &event.Delete{}, &event.Charge{Account: other, QuotaKey: 5}, other, []*event.Settlement{
			{RequestId: []byte("0123456789abcdef"), Result: event.Result_VOID, Failed: true, Account: other, QuotaKey: 5, Sequence: 9},
		}},
		"an expiry": {fold.Files(), storageOf(func(d *event.Document) { d.Content, d.ExpiresMs = file.Content, 70 }), &event.Expire{}, nil, 0, []*event.Settlement{
			{Account: owner, Sequence: 9, StorageDelta: -10, StorageAtMs: 70},
		}},
		"a burn, paid by another": {fold.Files(), storageOf(func(d *event.Document) { d.Content = file.Content; burning(d) }), &event.Burn{Version: 3}, &event.Charge{Account: other, QuotaKey: 6}, other, []*event.Settlement{
			{RequestId: []byte("0123456789abcdef"), Result: event.Result_SERVED, Account: other, QuotaKey: 6, Sequence: 9},
			{Account: owner, Sequence: 9, StorageDelta: -10, StorageAtMs: nowMS, Content: &event.ContentChange{
				Action: event.ContentAction_CONTENT_BURNED, Item: theItem, Version: 3, Visibility: uint32(event.Unlisted), SizeBytes: 10,
			}},
		}},
		"a create to announce": {fold.Pastes(), nil, &event.Create{Document: storageOf(private)}, heard, owner, []*event.Settlement{
			{RequestId: []byte("0123456789abcdef"), Result: event.Result_SERVED, Account: owner, QuotaKey: 5, Sequence: 9, Content: told(event.ContentAction_CONTENT_CREATED, 1, event.Private)},
		}},
		"an update to announce": {fold.Pastes(), storageOf(nil), &event.Update{Visibility: new(uint32(event.Public))}, heard, owner, []*event.Settlement{
			{RequestId: []byte("0123456789abcdef"), Result: event.Result_SERVED, Account: owner, QuotaKey: 5, Sequence: 9, Content: told(event.ContentAction_CONTENT_UPDATED, 4, event.Public)},
		}},
		"a delete to announce": {fold.Pastes(), storageOf(nil), &event.Delete{}, heard, owner, []*event.Settlement{
			{RequestId: []byte("0123456789abcdef"), Result: event.Result_SERVED, Account: owner, QuotaKey: 5, Sequence: 9, Content: told(event.ContentAction_CONTENT_DELETED, 3, event.Unlisted)},
		}},
		"a refused update": {fold.Pastes(), storageOf(nil), &event.Update{IfMatch: []uint64{9}}, heard, owner, []*event.Settlement{
			{RequestId: []byte("0123456789abcdef"), Result: event.Result_VOID, Failed: true, Account: owner, QuotaKey: 5, Sequence: 9},
		}},
		"a burn by a reader without a key": {fold.QuickPastes(), storageOf(burning), &event.Burn{Version: 3}, nil, 0, []*event.Settlement{
			{Account: owner, Sequence: 9, Content: told(event.ContentAction_CONTENT_BURNED, 3, event.Unlisted)},
		}},
		"a burn of nobody's":         {fold.QuickPastes(), storageOf(func(d *event.Document) { keyless(d); burning(d) }), &event.Burn{Version: 3}, nil, 0, nil},
		"its owner's read":           {fold.Pastes(), storageOf(burning), &event.Burn{Version: 3}, heard, owner, []*event.Settlement{{RequestId: []byte("0123456789abcdef"), Result: event.Result_SERVED, Account: owner, QuotaKey: 5, Sequence: 9}}},
		"a served create of text":    {fold.Pastes(), nil, &event.Create{Document: file}, charge, owner, []*event.Settlement{{RequestId: []byte("0123456789abcdef"), Result: event.Result_SERVED, Account: owner, QuotaKey: 5, Sequence: 9}}},
		"a delete by token":          {fold.QuickPastes(), storageOf(keyless), &event.Delete{ManageTokenHash: []byte("token")}, nil, 0, nil},
		"an anonymous create":        {fold.QuickPastes(), nil, &event.Create{Document: storageOf(keyless)}, &event.Charge{Account: 77, QuotaKey: 8, Anonymous: true}, 0, []*event.Settlement{{RequestId: []byte("0123456789abcdef"), Result: event.Result_SERVED, Account: 77, QuotaKey: 8, Anonymous: true, Sequence: 9}}},
		"an update, there are none":  {fold.Files(), file, &event.Update{}, charge, owner, []*event.Settlement{{RequestId: []byte("0123456789abcdef"), Result: event.Result_VOID, Failed: true, Account: owner, QuotaKey: 5, Sequence: 9}}},
		"an expiry of nobody's file": {fold.Files(), storageOf(func(d *event.Document) { keyless(d); d.ExpiresMs = 70 }), &event.Expire{}, nil, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(c.by, c.action)
			r.Charge = c.charge
			change, o := decide(c.policy, c.state, nil, r, at)
			got := settlements(r, o, change, 9)
			if len(got) != len(c.want) {
				t.Fatalf("%v, want %v", got, c.want)
			}
			for i := range got {
				if !proto.Equal(got[i], c.want[i]) {
					t.Errorf("%v, want %v", got[i], c.want[i])
				}
			}
		})
	}
}

func TestLateRequestIsGivenBackWithoutBlame(t *testing.T) {
	r := request(owner, &event.Delete{})
	r.DeadlineMs, r.Charge = nowMS-1, &event.Charge{Account: owner, QuotaKey: 4}
	late := at
	late.StoredMS = nowMS
	change, o := decide(fold.Pastes(), storageOf(nil), nil, r, late)
	got := settlements(r, o, change, 9)
	if len(got) != 1 || got[0].Result != event.Result_VOID || got[0].Failed {
		t.Errorf("settled %v", got)
	}
}

func TestOutcomeOfAnUploadShowsTheFile(t *testing.T) {
	d := storageOf(func(d *event.Document) { d.ContentType = "text/plain" })
	_, o := decide(fold.Files(), nil, nil, request(owner, &event.Create{Document: d}), at)
	if o.Document.GetContentType() != "text/plain" || o.Document.GetContent().GetSizeBytes() != 4 || len(o.Document.Content.Inline) != 0 {
		t.Errorf("shows %v", o.Document)
	}
	if len(d.Content.Inline) == 0 {
		t.Error("the request was changed")
	}
}

func TestEarlierVersionHasTheDocumentsPasswordAndExpiry(t *testing.T) {
	current := storageOf(func(d *event.Document) { d.PasswordHash, d.ExpiresMs, d.Title = []byte("new"), 9, "new" })
	got := fold.Earlier(current, storageOf(nil))
	if string(got.PasswordHash) != "new" || got.ExpiresMs != 9 || got.Title != "title" {
		t.Errorf("reads %v", got)
	}
}

// TestDeletionOfADocumentWithoutAVersionNamesNoVersions: a range that wrapped round would never end.
func TestDeletionOfADocumentWithoutAVersionNamesNoVersions(t *testing.T) {
	for version, last := range map[uint64]uint64{0: 0, 1: 0, 2: 1} {
		d := storageOf(func(d *event.Document) { d.Version = version })
		change, _ := decide(fold.Pastes(), d, nil, request(owner, &event.Delete{}), at)
		if !change.Delete || change.FirstVersion != 1 || change.LastVersion != last {
			t.Errorf("at version %d: %+v, want the versions 1 to %d", version, change, last)
		}
	}
}

// TestCopiesAreWhole: a head, an earlier version and a replayed outcome are copies that lack no field
// of the schema.
func TestCopiesAreWhole(t *testing.T) {
	d := &event.Document{}
	o := &event.Outcome{}
	for _, m := range []proto.Message{d, o} {
		fillFields(m.ProtoReflect())
	}
	if got := fold.Earlier(d, d); !proto.Equal(got, d) || got == d {
		t.Errorf("an earlier version is %v\nof %v", got, d)
	}
	r := request(owner, &event.Delete{})
	r.IdempotencyId, r.BodyHash = []byte("0123456789abcdef"), o.BodyHash
	_, got := decide(fold.Pastes(), nil, o, r, fold.Position{Index: o.Index})
	if o.Replayed = true; !proto.Equal(got, o) || got == o {
		t.Errorf("replayed %v\nof %v", got, o)
	}
	head := fold.Whole(fold.Head(d), d.Content.Inline)
	if !proto.Equal(head, d) || head == d {
		t.Errorf("head and body make %v\nof %v", head, d)
	}
}

// TestACreateTakesOneAllocation: the document and its content.
func TestACreateTakesOneAllocation(t *testing.T) {
	r := request(owner, &event.Create{Document: storageOf(nil)})
	o := &event.Outcome{}
	each := testing.AllocsPerRun(100, func() {
		o.Reset()
		if change := fold.Decide(fold.QuickPastes(), nil, nil, r, at, o); change.Put == nil {
			t.Fatal(o.Status)
		}
	})
	if each != 1 {
		t.Errorf("%v allocations", each)
	}
}

// TestADocumentHoldsNothingElseOfItsBatch: it may be in memory for long, and the batch has up to a megabyte.
func TestADocumentHoldsNothingElseOfItsBatch(t *testing.T) {
	const creates = 3
	batch := &event.RequestBatch{}
	for range creates {
		made := storageOf(func(d *event.Document) { d.Content.Inline = make([]byte, 1024) })
		batch.Requests = append(batch.Requests, request(owner, &event.Create{Document: made}))
	}
	data, err := event.Encode(batch)
	if err != nil {
		t.Fatal(err)
	}
	kept, o := &event.Document{}, &event.Outcome{}
	var message weak.Pointer[byte]
	var requests []weak.Pointer[event.Request]
	var contents []weak.Pointer[byte]
	func() {
		data := append([]byte(nil), data...)
		message = weak.Make(&data[0])
		decoded := &event.RequestBatch{}
		if err := event.DecodeRequests(data, decoded); err != nil {
			t.Fatal(err)
		}
		for _, r := range decoded.Requests {
			requests = append(requests, weak.Make(r))
			contents = append(contents, weak.Make(&r.GetCreate().Document.Content.Inline[0]))
		}
		kept = fold.Decide(fold.QuickPastes(), nil, nil, decoded.Requests[0], at, o).Put
	}()
	runtime.GC()
	if message.Value() != nil {
		t.Error("the message is held")
	}
	for i := range creates {
		if requests[i].Value() != nil {
			t.Errorf("request %d is held", i)
		}
		if held := contents[i].Value() != nil; held != (i == 0) {
			t.Errorf("content %d is held: %v", i, held)
		}
	}
	if o.Item != theItem || len(kept.Content.Inline) != 1024 {
		t.Errorf("%v is kept with %v", kept, o)
	}
}

// TestDraftIsMergedWhole holds the merge to the schema: the new document and the updated one have every
// field of a draft, under its own name.
func TestDraftIsMergedWhole(t *testing.T) {
	draft := &event.Update{}
	fillFields(draft.ProtoReflect())
	draft.IfMatch, draft.ManageTokenHash, draft.ExpiresInMs, draft.MaxLifetimeMs = nil, nil, nil, 0 // conditions; a time is only the fold's to make
	made, _ := decide(fold.Pastes(), nil, nil, request(owner, fold.Create(&event.Document{Owner: owner}, draft)), at)
	updated, _ := decide(fold.Pastes(), storageOf(nil), nil, request(owner, draft), at)
	for name, d := range map[string]*event.Document{"created": made.Put, "updated": updated.Put} {
		draft.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, want protoreflect.Value) bool {
			of := d.ProtoReflect().Descriptor().Fields().ByName(f.Name())
			if of == nil {
				t.Errorf("a document has no %s", f.Name())
				return true
			}
			if f.Name() == "tags" { // a list can't tell empty from absent, so that a draft has it in a message
				want = want.Message().Get(f.Message().Fields().ByName("values"))
			}
			if got := d.ProtoReflect().Get(of); !got.Equal(want) {
				t.Errorf("%s with %s %v, want %v", name, f.Name(), got, want)
			}
			return true
		})
	}
}

func TestNewPasteHasTheDefaults(t *testing.T) {
	for name, c := range map[string]struct {
		draft *event.Update
		want  *event.Document
	}{
		"nothing said": {&event.Update{}, &event.Document{Language: "plaintext", Visibility: uint32(event.Unlisted)}},
		"reset": {
			&event.Update{Title: new(""), Tags: &event.Tags{}, PasswordHash: []byte{}, ExpiresMs: new(int64(0))},
			&event.Document{Language: "plaintext", Visibility: uint32(event.Unlisted)},
		},
		"a lifetime": {
			&event.Update{Language: new("go"), ExpiresInMs: new(int64(60_000))},
			&event.Document{Language: "go", Visibility: uint32(event.Unlisted), ExpiresMs: nowMS + 60_000},
		},
		"a time": {
			&event.Update{Visibility: new(uint32(event.Public)), ExpiresMs: new(int64(70))},
			&event.Document{Language: "plaintext", Visibility: uint32(event.Public), ExpiresMs: 70},
		},
	} {
		t.Run(name, func(t *testing.T) {
			made := &event.Document{Owner: owner, ManageTokenHash: []byte("token")}
			change, _ := decide(fold.QuickPastes(), nil, nil, request(owner, fold.Create(made, c.draft)), at)
			c.want.Id, c.want.Owner, c.want.ManageTokenHash = theItem, owner, []byte("token")
			c.want.Version, c.want.FirstVersionKept, c.want.CreatedOrder = 1, 1, 9<<12|3
			c.want.CreatedMs, c.want.UpdatedMs = nowMS, nowMS
			if !proto.Equal(change.Put, c.want) {
				t.Errorf("made %v\nwant %v", change.Put, c.want)
			}
		})
	}
}
