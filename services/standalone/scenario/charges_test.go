package scenario

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"quire.dev/pkg/eventually"
)

var faultSeed = flag.Uint64("faults.seed", 13, "seed of the faults between the clients and the edges")

// clientScenario is one logical call of a client: its arguments, and its expected effects.
type clientScenario struct {
	op, quotaKey string // quotaKey is empty where the call is not metered
	// prepare creates what the call needs, and returns its arguments and a check of its result.
	prepare func(t *testing.T, a account, n int) (args object, check func(t *testing.T, result object))
}

func sha256Of(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// binary is the content of an uploaded file.
func binary(n int) []byte {
	content := make([]byte, 96<<10)
	for k := range content {
		content[k] = byte(k*7 + k>>8 + n)
	}
	return content
}

func clientScenarios() []clientScenario {
	var list []clientScenario
	for _, k := range []struct {
		op, path, quota string
		make            func(account, testing.TB, object) string
	}{
		{"Paste", "/api/dev/pastes/", "pastes.", account.paste},
		{"QuickPaste", "/api/dev/paste-lite/", "pasteLite.", account.quick},
	} {
		list = append(list,
			clientScenario{"create" + k.op, k.quota + "create", func(t *testing.T, a account, n int) (object, func(*testing.T, object)) {
				title := fmt.Sprintf("created %d end", n)
				return object{"content": "hello\n", "title": title}, func(t *testing.T, result object) {
					list := a.do(t, "GET", k.path+"list?q="+fmt.Sprintf("created+%d+end", n), nil).ok(t, http.StatusOK)
					made := at(t, list, "pastes").([]any)
					if len(made) != 1 || made[0].(object)["id"] != result["id"] {
						t.Errorf("%d were made, the answer is %v", len(made), result)
					}
				}
			}},
			clientScenario{"get" + k.op, k.quota + "get", func(t *testing.T, a account, n int) (object, func(*testing.T, object)) {
				content := fmt.Sprint("content ", n)
				return object{"id": k.make(a, t, object{"content": content})}, func(t *testing.T, result object) {
					if result["content"] != content {
						t.Errorf("content %v, want %q", result["content"], content)
					}
				}
			}},
			clientScenario{"update" + k.op, k.quota + "update", func(t *testing.T, a account, n int) (object, func(*testing.T, object)) {
				return object{"id": k.make(a, t, nil), "title": fmt.Sprint("changed ", n)}, func(t *testing.T, result object) {
					if fmt.Sprint(result["version"]) != "2" {
						t.Errorf("the update made %v", result)
					}
				}
			}},
			clientScenario{"delete" + k.op, k.quota + "delete", func(t *testing.T, a account, _ int) (object, func(*testing.T, object)) {
				id := k.make(a, t, nil)
				return object{"id": id}, func(t *testing.T, result object) {
					if result["id"] != id {
						t.Errorf("deleted %v", result)
					}
				}
			}},
			clientScenario{"list" + k.op + "s", "", func(t *testing.T, a account, n int) (object, func(*testing.T, object)) {
				title := fmt.Sprintf("listed %d end", n)
				want := make(map[any]bool)
				for range 5 {
					want[k.make(a, t, object{"title": title})] = true
				}
				return object{"q": title}, func(t *testing.T, result object) {
					ids, _ := result["ids"].([]any)
					for _, id := range ids {
						delete(want, id)
					}
					if len(ids) != 5 || len(want) != 0 {
						t.Errorf("listed %v", ids)
					}
				}
			}},
		)
	}
	return append(list,
		clientScenario{"uploadFile", "files.upload", func(t *testing.T, a account, n int) (object, func(*testing.T, object)) {
			name, path := fmt.Sprintf("uploaded %d end", n), filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, binary(n), 0o600); err != nil {
				t.Fatal(err)
			}
			return object{"name": name, "path": path}, func(t *testing.T, result object) {
				list := a.do(t, "GET", fmt.Sprintf("/api/dev/files/list?q=uploaded+%d+end", n), nil).ok(t, http.StatusOK)
				made := at(t, list, "files").([]any)
				if len(made) != 1 || made[0].(object)["id"] != result["id"] || made[0].(object)["sha256"] != sha256Of(binary(n)) {
					t.Errorf("%d were made, the answer is %v", len(made), result)
				}
			}
		}},
		clientScenario{"getFile", "files.get", func(t *testing.T, a account, n int) (object, func(*testing.T, object)) {
			id := a.upload(t, "f", binary(n))
			return object{"id": id}, func(t *testing.T, result object) {
				if result["id"] != id || result["sha256"] != sha256Of(binary(n)) {
					t.Errorf("file %v", result)
				}
			}
		}},
		clientScenario{"downloadFile", "files.get", func(t *testing.T, a account, n int) (object, func(*testing.T, object)) {
			path := filepath.Join(t.TempDir(), "file")
			return object{"id": a.upload(t, "f", binary(n)), "path": path}, func(t *testing.T, result object) {
				got, err := os.ReadFile(path)
				if err != nil || !bytes.Equal(got, binary(n)) || result["sha256"] != sha256Of(binary(n)) {
					t.Errorf("%d bytes, %v, %v", len(got), result, err)
				}
			}
		}},
		clientScenario{"deleteFile", "files.delete", func(t *testing.T, a account, n int) (object, func(*testing.T, object)) {
			id := a.upload(t, "f", binary(n))
			return object{"id": id}, func(t *testing.T, result object) {
				if result["id"] != id {
					t.Errorf("deleted %v", result)
				}
			}
		}},
	)
}

// TestEachLogicalCallIsChargedOnce makes each call under each fault between the client and the service. However often the
// client sends it, it is executed and charged once.
func TestEachLogicalCallIsChargedOnce(t *testing.T) {
	i := common(t)
	for _, kind := range driverKinds() {
		t.Run(kind.name, func(t *testing.T) {
			var group sync.WaitGroup
			for n, s := range clientScenarios() {
				if s.op == kind.without {
					continue
				}
				group.Go(func() { // not t.Parallel: the clients mostly wait, so that more of them than cores may run
					t.Run(s.op, func(t *testing.T) {
						rng := rand.New(rand.NewPCG(*faultSeed, uint64(n)))
						a, proxy := i.account(t, "pro"), newInjector(t, i)
						d := kind.make(t, proxy.server.URL, a.key)
						for k, first := range faultKinds() {
							second := append(faultKinds(), noFault)[rng.IntN(len(faultKinds())+1)]
							callOnce(t, clientRun{a, proxy, d, s, k}, first, second)
						}
					})
				})
			}
			group.Wait()
		})
	}
	i.audit(t)
}

// clientRun is a driver making the nth call of a scenario.
type clientRun struct {
	account  account
	proxy    *injector
	driver   driver
	scenario clientScenario
	number   int
}

func callOnce(t *testing.T, r clientRun, plan ...fault) {
	t.Helper()
	s, a := r.scenario, r.account
	args, check := s.prepare(t, a, r.number)
	before := int64(0)
	if s.quotaKey != "" {
		before = a.used(t, s.quotaKey)
	}
	r.proxy.inject(plan...)
	result, err := r.driver.call(t.Context(), s.op, args)
	injected, beside := r.proxy.injected()
	r.proxy.inject()
	if err != nil || beside != nil || len(injected) == 0 {
		t.Errorf("seed %d, faults %q of %q: %v; beside them: %v", *faultSeed, injected, plan, err, beside)
		return
	}
	check(t, result)
	if s.quotaKey == "" {
		return
	}
	// An interrupted call may be refunded a moment later.
	eventually.NoError(t, fmt.Sprintf("one charge after %q, seed %d", injected, *faultSeed), func() error {
		if used := a.used(t, s.quotaKey); used != before+1 {
			return fmt.Errorf("%d charges", used-before)
		}
		return nil
	})
}

// TestEachLogicalCallIsPaidOnce does the same with calls that credits pay. The ledger has one charge for each.
func TestEachLogicalCallIsPaidOnce(t *testing.T) {
	i := common(t)
	for _, kind := range driverKinds() {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			a, proxy := i.account(t, "pro"), newInjector(t, i)
			d := kind.make(t, proxy.server.URL, a.key)
			m := &material{}
			uploads := a.hammer(t, 100, func(n int) operation { return m.operation("files.upload", n) })
			a.hammer(t, 500, func(int) operation {
				return operation{method: "GET", path: "/api/dev/files/get/" + uploads[0], status: http.StatusOK}
			})
			a.grant(t, "1")
			prices := map[string]int64{"files.upload": 5_000, "files.get": 1_000}
			calls := make(map[string]int)
			for _, s := range clientScenarios() {
				if prices[s.quotaKey] == 0 || s.op == kind.without {
					continue
				}
				for _, f := range []fault{dropAfter, timeoutAfter, cutAnswer} {
					calls[s.quotaKey]++
					prepared := s
					prepared.prepare = func(t *testing.T, a account, n int) (object, func(*testing.T, object)) {
						if s.quotaKey == "files.get" { // uploads for the preparation would be charged too
							return object{"id": uploads[1], "path": filepath.Join(t.TempDir(), "file")}, func(*testing.T, object) {}
						}
						return s.prepare(t, a, n)
					}
					callOnce(t, clientRun{a, proxy, d, prepared, 100 + calls[s.quotaKey]}, f)
				}
			}
			eventually.NoError(t, "the ledger has one charge for each call", func() error {
				charges := make(map[string]int)
				requests := make(map[string]bool)
				for _, e := range ledger(t, a, 100) {
					if e.kind != "charge" {
						continue
					}
					charges[e.quotaKey]++
					if requests[e.requestID] {
						return fmt.Errorf("request %s was charged twice", e.requestID)
					}
					requests[e.requestID] = true
				}
				for key, want := range calls {
					if charges[key] != want {
						return fmt.Errorf("%s: %d charges for %d calls", key, charges[key], want)
					}
				}
				return nil
			})
			checkLedger(t, a)
		})
	}
}
