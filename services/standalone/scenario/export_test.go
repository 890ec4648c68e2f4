package scenario

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
)

// exported waits until the person's export is ready, and returns it.
func (p *person) exported(t testing.TB) (e object) {
	t.Helper()
	eventually.NoError(t, "the export is ready", func() error {
		e = at(t, p.do(t, "GET", "/api/users/user/export", nil).ok(t, http.StatusOK), "export").(object)
		if e["status"] != "ready" {
			return fmt.Errorf("%v", e)
		}
		return nil
	})
	return e
}

// archivePath is the link to an export, without the address, which may change with a restart.
func archivePath(t testing.TB, e object) string {
	t.Helper()
	_, rest, found := strings.Cut(text(t, e, "url"), "/exports/")
	if !found {
		t.Fatalf("the link of %v", e)
	}
	return "/exports/" + rest
}

// archive downloads an export without a session.
func (i *instance) archive(t testing.TB, e object) map[string]string {
	t.Helper()
	got := i.do(t, "GET", archivePath(t, e), request{})
	if got.status != http.StatusOK || int64(len(got.body)) != number(t, e, "sizeBytes") {
		t.Fatalf("%d with %d bytes, want %v", got.status, len(got.body), e["sizeBytes"])
	}
	got.hasHeader(t, "Content-Type", "application/zip")
	in, err := zip.NewReader(bytes.NewReader(got.body), int64(len(got.body)))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range in.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		out[f.Name] = string(data)
	}
	return out
}

func TestAnExportHasEverythingThatTheAccountOwns(t *testing.T) {
	i := common(t)
	p, other := i.person(t), i.account(t, "pro")
	a := p.key(t)
	a.setTier(t, "pro")
	a.grant(t, "3")
	other.paste(t, object{"content": "of somebody else"})
	p.do(t, "GET", "/api/users/user/export", nil).fails(t, http.StatusNotFound, "not_found", "")
	for _, r := range []request{{}, {key: a.key}} {
		i.do(t, "POST", "/api/users/user/export", r).fails(t, http.StatusUnauthorized, "session_required", "")
		i.do(t, "GET", "/api/users/user/export", r).fails(t, http.StatusUnauthorized, "session_required", "")
	}
	i.do(t, "POST", "/api/users/user/export", request{cookies: p.cookies, header: map[string]string{"Sec-Fetch-Site": "cross-site"}}).
		fails(t, http.StatusForbidden, "cross_origin", "")
	large := strings.Repeat("a line of a large text\n", 5000)
	want := map[string]string{}
	paste := a.paste(t, object{"content": "first", "title": "versions", "visibility": "private", "password": "secret"})
	a.do(t, "PUT", "/api/dev/pastes/update/"+paste, object{"content": large}).ok(t, http.StatusOK)
	want["pastes/"+paste+"/versions/1.txt"], want["pastes/"+paste+"/versions/2.txt"] = "first", large
	quick := a.quick(t, object{"content": "burns", "burnAfterRead": true})
	want["quick-pastes/"+quick+"/versions/1.txt"] = "burns"
	file := a.upload(t, "a: b.bin", []byte{0, 1, 2, 255})
	want["files/"+file+"/content/a_ b.bin"] = string([]byte{0, 1, 2, 255})

	p.do(t, "POST", "/api/users/user/export", object{"all": true}).fails(t, http.StatusBadRequest, "unknown_field", "")
	begun := p.do(t, "POST", "/api/users/user/export", nil)
	begun.ok(t, http.StatusAccepted)
	begun.hasHeader(t, "Location", "/api/users/user/export")
	e := p.exported(t)
	if number(t, e, "done") != 3 || number(t, e, "total") != 3 {
		t.Errorf("%v", e)
	}
	files := i.archive(t, e)
	for name, content := range want {
		if files[name] != content {
			t.Errorf("%s has %.100q", name, files[name])
		}
	}
	for _, name := range []string{"pastes/" + paste + "/paste.json", "quick-pastes/" + quick + "/paste.json", "files/" + file + "/file.json", "account.json"} {
		if !json.Valid([]byte(files[name])) {
			t.Errorf("%s is %.100q", name, files[name])
		}
	}
	if !strings.Contains(files["account.json"], p.email) || files["statements/"+i.now().Format("2006-01")+".json"] == "" {
		t.Errorf("account %s; files %d", files["account.json"], len(files))
	}
	for _, name := range []string{"1.json", "2.json"} {
		var version object
		if err := json.Unmarshal([]byte(files["pastes/"+paste+"/versions/"+name]), &version); err != nil || version["title"] != "versions" {
			t.Errorf("version %s is %v, %v", name, version, err)
		}
	}
	var keys struct{ Keys []object }
	if err := json.Unmarshal([]byte(files["keys.json"]), &keys); err != nil || len(keys.Keys) != 1 || keys.Keys[0]["id"] != "default" {
		t.Errorf("keys %v, %v", keys, err)
	}
	used := map[any]any{}
	var usage struct{ Days []object }
	err := json.Unmarshal([]byte(files["usage.json"]), &usage)
	for _, d := range usage.Days {
		used[d["quotaKey"]] = d["used"]
	}
	if err != nil || used["pastes.create"] != 1.0 || used["pastes.update"] != 1.0 || used["pasteLite.create"] != 1.0 || used["files.upload"] != 1.0 {
		t.Errorf("usage %v, %v", usage, err)
	}
	var ledger []object
	if err := json.Unmarshal([]byte(files["ledger.json"]), &ledger); err != nil || len(ledger) != 1 || ledger[0]["amount"] != "3.000000" {
		t.Errorf("ledger %v, %v", ledger, err)
	}
	for name, content := range files {
		if strings.Contains(content, "of somebody else") || strings.Contains(content, "argon2") || strings.Contains(content, a.key) {
			t.Errorf("%s: %.100s", name, content)
		}
	}
	a.do(t, "GET", "/api/dev/paste-lite/get/"+quick, nil).ok(t, http.StatusOK) // it has not burned

	link := archivePath(t, e)
	for _, wrong := range []string{strings.Replace(link, "expires=1", "expires=2", 1), strings.Replace(link, a.id, other.id, 1), link[:strings.Index(link, "?")]} {
		i.do(t, "GET", wrong, request{}).fails(t, http.StatusNotFound, "not_found", "")
	}
	keyed := request{cookies: p.cookies, header: map[string]string{"Sec-Fetch-Site": "same-origin", "Idempotency-Key": "once"}}
	i.do(t, "POST", "/api/users/user/export", keyed).ok(t, http.StatusAccepted)
	for n := 2; n < 5; n++ {
		again := i.do(t, "POST", "/api/users/user/export", keyed) // also when another export was begun meanwhile
		again.ok(t, http.StatusAccepted)
		again.hasHeader(t, "Idempotency-Replayed", "true")
		p.exported(t)
		p.do(t, "POST", "/api/users/user/export", nil).ok(t, http.StatusAccepted)
	}
	p.exported(t)
	limited := p.do(t, "POST", "/api/users/user/export", nil)
	limited.fails(t, http.StatusTooManyRequests, "rate_limited", "")
	if limited.header.Get("Retry-After") == "" || limited.json(t)["limit"] != json.Number("5") {
		t.Errorf("%v %s", limited.header, limited.body)
	}
}

// TestAnArchiveIsDeletedAfterADay, whatever restarts there are.
func TestAnArchiveIsDeletedAfterADay(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	i := start(t, in(folder))
	p := i.person(t)
	a := p.key(t)
	for n := range 20 {
		a.quick(t, object{"content": fmt.Sprint("text ", n)})
	}
	p.do(t, "POST", "/api/users/user/export", nil).ok(t, http.StatusAccepted)
	i.restart(t)
	e := p.exported(t)
	if files := i.archive(t, e); len(files) < 60 {
		t.Errorf("%d files", len(files))
	}
	i.travel(t, day-5*time.Minute)
	p.exported(t)
	i.do(t, "GET", archivePath(t, e), request{}).fails(t, http.StatusNotFound, "not_found", "") // the link of then
	i.travel(t, 5*time.Minute)
	p.do(t, "GET", "/api/users/user/export", nil).fails(t, http.StatusNotFound, "not_found", "")
	if *processes == "many" {
		return
	}
	eventually.NoError(t, "the archive is deleted", func() error {
		left := 0
		err := filepath.WalkDir(filepath.Join(folder, "data", "blobs"), func(path string, entry os.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".zip") {
				left++
			}
			return nil
		})
		if left > 0 {
			return fmt.Errorf("%d archives are left", left)
		}
		return err
	})
}

// TestAnExportIsTakenOverByAnotherEdge: while each of two edges makes an archive, one is killed, and the other makes both.
func TestAnExportIsTakenOverByAnotherEdge(t *testing.T) {
	if *processes != "many" {
		t.Skip("one process has one edge: TestAnExportThatAKillCutOffIsMadeByTheNextEdge is for it")
	}
	t.Parallel()
	i := start(t)
	persons, files := []*person{i.person(t), i.person(t)}, map[string][]byte{}
	for _, p := range persons {
		a := p.key(t)
		a.setTier(t, "admin")
		for range 3 {
			content := randomBytes(30 << 20)
			files[a.upload(t, "large.bin", content)] = content
		}
	}
	running := func(p *person) bool {
		e := at(t, p.do(t, "GET", "/api/users/user/export", nil).ok(t, http.StatusOK), "export").(object)
		return e["status"] == "running"
	}
	eventually.NoError(t, "both edges work at the same time", func() error {
		for _, p := range persons {
			p.do(t, "POST", "/api/users/user/export", nil).ok(t, http.StatusAccepted) // returns the one in progress
		}
		if !running(persons[0]) || !running(persons[1]) {
			return errors.New("not yet")
		}
		return nil
	})
	edges := i.quire.(*manyProcesses).c.Processes("edge")
	if err := edges[0].Kill(); err != nil {
		t.Fatal(err)
	}
	killed := i.now()
	i.bases = i.bases[1:]
	for _, p := range persons {
		e := p.exported(t)
		if ended, err := time.Parse(time.RFC3339, text(t, e, "endedAt")); err != nil || ended.Before(killed) {
			t.Errorf("ended at %v before the kill at %v: %v", ended, killed, err)
		}
		found := 0
		for name, content := range i.archive(t, e) {
			if id, _, ok := strings.Cut(strings.TrimPrefix(name, "files/"), "/content/"); ok {
				found++
				if content != string(files[id]) {
					t.Errorf("%s has other bytes", name)
				}
			}
		}
		if found != 3 {
			t.Errorf("%d files", found)
		}
	}
}
