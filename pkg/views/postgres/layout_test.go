package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"quire.dev/pkg/views"
)

func TestServersBefore15AreRefused(t *testing.T) {
	if err := checkVersion(minServer-1, "14.22"); !errors.Is(err, ErrOld) || !strings.Contains(err.Error(), "14.22") {
		t.Error(err)
	}
	if err := checkVersion(minServer, "15.0"); err != nil {
		t.Error(err)
	}
}

// describe lists the tables and indexes of a schema, with the columns and definitions.
func describe(t *testing.T, s *Store, schema string) []string {
	t.Helper()
	rows, err := s.pool.Query(t.Context(), "SELECT c.relname || ' ' || coalesce(pg_get_indexdef(i.indexrelid), "+
		"(SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0))"+
		" FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid WHERE c.relnamespace = to_regnamespace($1) AND c.relkind IN ('r', 'i') ORDER BY 1", schema)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRefusedSchemasAreNotChanged(t *testing.T) {
	for name, c := range map[string]struct {
		prepare string
		want    error
	}{
		"newer layout":        {"UPDATE %s._layout SET version = 2", ErrNewer},
		"another application": {"DROP SCHEMA %[1]s CASCADE; CREATE SCHEMA %[1]s; CREATE TABLE %[1]s.theirs (a int)", ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			config := serverConfig(t)
			s := open(t, config)
			exec(t, s, fmt.Sprintf(c.prepare, s.name))
			before := describe(t, s, config.Schema)
			config.Collections = append(slices.Clone(config.Collections), views.Collection{Name: "another"})
			for range 2 {
				if _, err := Open(t.Context(), config); !errors.Is(err, c.want) || errors.Is(err, views.ErrUnavailable) || !strings.Contains(err.Error(), config.Schema) {
					t.Fatalf("open: %v, want %v", err, c.want)
				}
			}
			if after := describe(t, s, config.Schema); !slices.Equal(before, after) {
				t.Errorf("the schema has changed from %v to %v", before, after)
			}
		})
	}
}

func TestInstancesPrepareASchemaTogether(t *testing.T) {
	config := serverConfig(t)
	var wait sync.WaitGroup
	for range 6 {
		wait.Go(func() {
			s, err := Open(t.Context(), config)
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

// TestInstancesOfTwoVersions: the older one does not know a key of the newer one. A document that it writes leaves the newer
// one's index, as one without the key.
func TestInstancesOfTwoVersions(t *testing.T) {
	config := serverConfig(t)
	collection := func(indexes ...views.Index) []views.Collection {
		return []views.Collection{{Name: "items", Indexes: indexes}}
	}
	byOwner, byState := views.Index{Name: "by_owner", Keys: []string{"owner"}}, views.Index{Name: "by_state", Keys: []string{"state", "owner"}}
	config.Collections = collection(byOwner)
	older := open(t, config)
	config.Collections = collection(byOwner, byState)
	newer := open(t, config)

	put := func(s *Store, seq uint64, keys ...views.Key) {
		t.Helper()
		b := views.Batch{Puts: []views.Put{{Collection: "items", Doc: views.Doc{ID: "a", Seq: seq, Keys: keys}}}}
		if err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	listed := func(s *Store, index string, want int) {
		t.Helper()
		docs, err := s.List(t.Context(), "items", views.Query{Index: index, Limit: 10})
		if err != nil || len(docs) != want {
			t.Errorf("%s lists %v, %v; want %d", index, docs, err, want)
		}
	}
	owner, state := views.Key{Name: "owner", Value: views.String("ann")}, views.Key{Name: "state", Value: views.Int(1)}
	put(newer, 1, owner, state)
	listed(newer, "by_state", 1)
	listed(older, "by_owner", 1)
	put(older, 2, owner)
	listed(newer, "by_state", 0)
	listed(newer, "by_owner", 1)
	put(newer, 3, owner, state)
	listed(newer, "by_state", 1)

	// A version that declares the keys in another order, and no longer all of them, finds the same.
	config.Collections = collection(views.Index{Name: "by_state", Keys: []string{"state"}})
	latest := open(t, config)
	docs, err := latest.List(t.Context(), "items", views.Query{Index: "by_state", Equal: []views.Value{views.Int(1)}, Limit: 10})
	if err != nil || len(docs) != 1 || !slices.Equal(docs[0].Keys, views.Keys{state}) {
		t.Errorf("%v, %v", docs, err)
	}
}

// TestAnUnfinishedIndexIsBuiltAgain: a process was killed while it built one.
func TestAnUnfinishedIndexIsBuiltAgain(t *testing.T) {
	config := serverConfig(t)
	s := open(t, config)
	needSuperuser(t, s)
	if err := s.Commit(t.Context(), numbered(0, 1, 3)); err != nil {
		t.Fatal(err)
	}
	exec(t, s, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = $1::regclass", s.name+`."items.by_owner.owner.created"`)
	if docs, err := open(t, config).List(t.Context(), "items", views.Query{Index: "by_owner", Limit: 10}); err != nil || len(docs) != 3 {
		t.Errorf("%d documents, %v", len(docs), err)
	}
	var broken int
	if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_index WHERE NOT indisvalid").Scan(&broken); err != nil || broken > 0 {
		t.Errorf("%d unfinished indexes, %v", broken, err)
	}
}

// TestLongNamesStayDifferent: PostgreSQL cuts names of more than 63 bytes.
func TestLongNamesStayDifferent(t *testing.T) {
	config := serverConfig(t)
	long := strings.Repeat("c", 48)
	keys := func(last string) []string { return []string{strings.Repeat("k", 48), last} }
	config.Collections = []views.Collection{{Name: long, Indexes: []views.Index{
		{Name: strings.Repeat("i", 47) + "a", Keys: keys("a")}, {Name: strings.Repeat("i", 47) + "b", Keys: keys("b")},
	}}}
	s := open(t, config)
	d := views.Doc{ID: "a", Keys: views.Keys{{Name: keys("")[0], Value: views.Int(1)}, {Name: "b", Value: views.Int(1)}}}
	if err := s.Insert(t.Context(), long, d); err != nil {
		t.Fatal(err)
	}
	for _, index := range config.Collections[0].Indexes {
		docs, err := s.List(t.Context(), long, views.Query{Index: index.Name, Limit: 10})
		if want := strings.HasSuffix(index.Name, "b"); err != nil || (len(docs) == 1) != want {
			t.Errorf("%s lists %v, %v", index.Name, docs, err)
		}
	}
	count := 0
	for _, object := range describe(t, s, config.Schema) {
		if strings.Contains(object, "((keys[") {
			count++
		}
	}
	if count != 2 {
		t.Errorf("%d indexes: %v", count, describe(t, s, config.Schema))
	}
}

// TestEveryReadGoesByAnIndex, and none sorts, also in tables without statistics.
func TestEveryReadGoesByAnIndex(t *testing.T) {
	config := serverConfig(t)
	s := open(t, config)
	for _, analyzed := range []bool{false, true} {
		for _, c := range config.Collections {
			table := s.tables[c.Name]
			type query struct {
				text string
				args []any
			}
			queries := map[string]query{
				"one id":      {table.loads[views.Full], []any{[][]byte{[]byte("one")}}},
				"several ids": {table.loads[views.Heads], []any{[][]byte{[]byte("one"), []byte("two")}}},
				"deletions":   {"SELECT id FROM " + table.name + " WHERE gone < now() ORDER BY gone LIMIT 10", nil},
			}
			for _, index := range c.Indexes {
				for name, q := range map[string]views.Query{
					"first page": {Limit: 10}, "last page": {Limit: 10, Desc: true},
					"under a number": {Equal: []views.Value{views.Int(1)}, Limit: 10}, "under a text": {Equal: []views.Value{views.String("a")}, Limit: 1000},
					"after a position": {AfterID: "one", After: make([]views.Value, len(index.Keys)), Limit: 10},
					"within":           {Equal: make([]views.Value, 1), AfterID: "one", After: make([]views.Value, len(index.Keys)-1), Desc: true, Limit: 10},
				} {
					text, args := table.list(index, q)
					queries[index.Name+", "+name] = query{text, args}
				}
			}
			for name, q := range queries {
				rows, err := s.pool.Query(t.Context(), "EXPLAIN "+q.text, q.args...)
				if err != nil {
					t.Fatal(err)
				}
				lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
				if err != nil {
					t.Fatalf("%s, %s: %v", c.Name, name, err)
				}
				plan := strings.Join(lines, "\n")
				if !strings.Contains(plan, "Index Scan") || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Sort") {
					t.Errorf("%s, %s, statistics %t: %s", c.Name, name, analyzed, plan)
				}
			}
		}
		if err := s.Commit(t.Context(), numbered(0, 1, 2000)); err != nil && !analyzed {
			t.Fatal(err)
		}
		exec(t, s, "ANALYZE "+s.tables["items"].name)
	}
}

// TestAUserHasItsSchemaAlone: an administrator creates it, and the user may neither create another nor read a neighbour's.
func TestAUserHasItsSchemaAlone(t *testing.T) {
	config := serverConfig(t)
	neighbour := config
	neighbour.Schema += "_cleaner"
	s := open(t, neighbour)
	needSuperuser(t, s)
	role := config.Schema + "_user"
	exec(t, s, fmt.Sprintf("CREATE ROLE %[1]s LOGIN PASSWORD 'mine'; CREATE SCHEMA %[2]s AUTHORIZATION %[1]s; GRANT CONNECT ON DATABASE %[3]s TO %[1]s",
		quote(role), quote(config.Schema), quote(s.pool.Config().ConnConfig.Database)))
	t.Cleanup(func() {
		_, err := s.pool.Exec(context.WithoutCancel(t.Context()), fmt.Sprintf("DROP OWNED BY %[1]s CASCADE; DROP ROLE %[1]s", quote(role)))
		if err != nil {
			t.Error(err)
		}
	})
	at, err := url.Parse(config.URL)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword(role, "mine")
	config.URL, neighbour.URL = at.String(), at.String()
	mine := open(t, config)
	if err := mine.Commit(t.Context(), numbered(0, 1, 3)); err != nil {
		t.Error(err)
	}
	holds(t, mine, 1, 3)
	another := config
	another.Schema += "_more"
	for name, c := range map[string]Config{"a neighbour's schema": neighbour, "a new schema": another} {
		if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
