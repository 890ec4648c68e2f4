package stripetest

import (
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// object is what a table holds.
type object interface {
	key() string       // its ID
	createdAt() int64  // Unix seconds
	links() []string   // "field=value" of each field that lists can filter by
	json(expand) props // as the API shows it
}

type props = map[string]any

// table holds the objects of a kind in the order of their creation, with an index of their links.
type table[T object] struct {
	all    []T
	byID   map[string]T
	place  map[string]int // in all, by ID
	byLink map[string][]T
}

func (t *table[T]) add(o T) {
	if t.byID == nil {
		t.byID, t.byLink, t.place = make(map[string]T), make(map[string][]T), make(map[string]int)
	}
	t.place[o.key()] = len(t.all)
	t.all = append(t.all, o)
	t.byID[o.key()] = o
	for _, link := range o.links() {
		t.byLink[link] = append(t.byLink[link], o)
	}
}

// get returns an object, or the error of Stripe for one that doesn't exist.
func (t *table[T]) get(kind, id string) (T, *failure) {
	o, ok := t.byID[id]
	if !ok {
		return o, &failure{status: http.StatusNotFound, Type: invalidRequest, Code: "resource_missing", Message: "No such " + kind + ": '" + id + "'", Param: "id"}
	}
	return o, nil
}

// list answers a request for a list: filtered by links, the range of creation, and keep; newest first; in pages that begin
// after starting_after and have up to limit objects, 1 to 100 and 10 by default. https://docs.stripe.com/api/pagination
func (t *table[T]) list(r *call, links []string, keep func(T) bool) (any, *failure) {
	limit, fail := r.integer("limit", 10)
	if fail == nil && (limit < 1 || limit > 100) {
		fail = badRequest("limit", "parameter_invalid_integer", "limit must be from 1 to 100")
	}
	if fail != nil {
		return nil, fail
	}
	from := t.linked(r.form, links)
	newest := len(from)
	if after := r.form.Get("starting_after"); after != "" {
		place, known := t.place[after]
		if !known {
			return nil, badRequest("starting_after", "resource_missing", "No such object: '"+after+"'")
		}
		newest = sort.Search(len(from), func(i int) bool { return t.place[from[i].key()] >= place })
	}
	data, more := []props{}, false
	for i := newest - 1; i >= 0 && !more; i-- {
		o := from[i]
		if !r.inRange(o.createdAt()) || keep != nil && !keep(o) || !matches(o, r.form, links) {
			continue
		}
		if more = len(data) == int(limit); !more {
			data = append(data, o.json(r.expand.below("data")))
		}
	}
	return props{"object": "list", "url": r.path, "has_more": more, "data": data}, nil
}

// linked returns the objects with the first link that is asked for, or all.
func (t *table[T]) linked(form url.Values, links []string) []T {
	for _, link := range links {
		if value := form.Get(link); value != "" {
			return t.byLink[link+"="+value]
		}
	}
	return t.all
}

func matches(o object, form url.Values, links []string) bool {
	for _, link := range links {
		if value := form.Get(link); value != "" && !slices.Contains(o.links(), link+"="+value) {
			return false
		}
	}
	return true
}

// expand is the set of fields to show whole instead of their IDs. https://docs.stripe.com/api/expanding_objects
type expand []string

// has reports whether a field is to be expanded, by itself or for a field below it.
func (e expand) has(field string) bool {
	return slices.ContainsFunc(e, func(path string) bool { return path == field || strings.HasPrefix(path, field+".") })
}

// below returns the paths below a field.
func (e expand) below(field string) expand {
	var below expand
	for _, path := range e {
		if rest, ok := strings.CutPrefix(path, field+"."); ok {
			below = append(below, rest)
		}
	}
	return below
}

// inRange applies created[gte], created[gt], created[lte] and created[lt].
func (r *call) inRange(created int64) bool {
	bound := func(name string, missing int64) int64 {
		if value, err := strconv.ParseInt(r.form.Get("created["+name+"]"), 10, 64); err == nil {
			return value
		}
		return missing
	}
	const always = 1 << 62
	return created >= bound("gte", -always) && created > bound("gt", -always) && created <= bound("lte", always) && created < bound("lt", always)
}
