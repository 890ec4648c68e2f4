package console

import (
	"net/url"
	"strconv"

	"github.com/gofiber/fiber/v2"
)

const (
	// HealthPage is the number of partitions of each service on a page.
	HealthPage = 64
	// shownUnserved is the number of unserved partitions that are named.
	shownUnserved = 20
)

// AdminHealth is the health of the partitions of all services.
type AdminHealth struct {
	Admin    Admin
	First    int         // first partition of the page
	Count    int         // of the partitions of each service
	Rows     []HealthRow // of the page's partitions, in the order of services and partitions
	Unserved []string    // all partitions that no member serves, such as "billing 3"
	Silent   []string    // instances that did not answer, such as "billing abc"
}

// HealthRow is a member of a partition.
type HealthRow struct {
	Partition string  // such as "billing 3"
	Member    string  // name of the instance; empty: the partition has no member
	Serves    bool    // it answers requests
	Lag       *uint64 // messages of the journal that it has yet to fold; nil: unknown
	Holds     *int    // open holds; nil: unknown
	CanHold   bool    // partitions of the service have holds
}

// State names the member's state.
func (r HealthRow) State() string {
	switch {
	case r.Serves:
		return "serving"
	case r.Lag == nil:
		return "starting"
	case *r.Lag == 0:
		return "waiting to serve"
	}
	return "catching up"
}

// Behind is its lag as text.
func (r HealthRow) Behind() string {
	if r.Lag == nil {
		return "unknown"
	}
	return number(*r.Lag)
}

// Open is the number of its open holds as text.
func (r HealthRow) Open() string {
	switch {
	case !r.CanHold:
		return "–"
	case r.Holds == nil:
		return "unknown"
	}
	return number(*r.Holds)
}

// NamedUnserved are the unserved partitions that the page names.
func (h *AdminHealth) NamedUnserved() []string {
	return h.Unserved[:min(len(h.Unserved), shownUnserved)]
}

// MoreUnserved is the number of unserved partitions that it doesn't name.
func (h *AdminHealth) MoreUnserved() int { return len(h.Unserved) - len(h.NamedUnserved()) }

// Path is the address of the page.
func (h *AdminHealth) Path() string { return h.at(AdminHealthPath, h.First) }

// TablePath is the address of the live table.
func (h *AdminHealth) TablePath() string { return h.at(AdminHealthTable, h.First) }

// EarlierPath is the address of the previous page; empty on the first.
func (h *AdminHealth) EarlierPath() string {
	if h.First == 0 {
		return ""
	}
	return h.at(AdminHealthPath, max(h.First-HealthPage, 0))
}

// LaterPath is the address of the next page; empty on the last.
func (h *AdminHealth) LaterPath() string {
	if h.First+HealthPage >= h.Count {
		return ""
	}
	return h.at(AdminHealthPath, h.First+HealthPage)
}

func (h *AdminHealth) at(path string, first int) string {
	if first == 0 {
		return path
	}
	return withQuery(path, url.Values{"from": {strconv.Itoa(first)}})
}

// AdminHealth shows the health of the partitions.
func (c *Console) AdminHealth(ctx *fiber.Ctx, h *AdminHealth) error {
	return c.render(ctx, page{template: "admin-health", title: "Health", section: AdminHealthPath, admin: &h.Admin, live: true, data: h})
}

// HealthTable answers with the live table.
func (c *Console) HealthTable(ctx *fiber.Ctx, h *AdminHealth) error {
	return c.fragment(ctx, "health-table", h)
}
