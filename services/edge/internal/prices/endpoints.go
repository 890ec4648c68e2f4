package prices

import (
	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
)

// Prices answers with price books. Safe for concurrent use.
type Prices struct{ *endpoint.Base }

// New returns the endpoints.
func New(base *endpoint.Base) *Prices { return &Prices{base} }

// Rows are the endpoints: everyone may read prices.
func (p *Prices) Rows() []endpoint.Row {
	row := endpoint.NewRow
	return []endpoint.Row{
		row("GET", "/api/prices", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Limited, p.all),
		row("GET", "/api/prices/:id", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Limited, p.one),
	}
}

type allView struct {
	endpoint.Success
	Current  Shown   `json:"current"`
	Upcoming []Shown `json:"upcoming"`
}

// all answers with the book in force and the upcoming ones.
func (p *Prices) all(c *endpoint.Call) error {
	list, err := p.Books()
	if list == nil {
		return err
	}
	return p.JSON(c.Ctx, fiber.StatusOK, allView{endpoint.Succeeded(), Show(Current(list)), ShowAll(list.Upcoming)})
}

type oneView struct {
	endpoint.Success
	Book Shown `json:"book"`
}

// one answers with a past, present or upcoming book.
func (p *Prices) one(c *endpoint.Call) error {
	list, err := p.Books()
	if list == nil {
		return err
	}
	return Answer(p.Base, c, list)
}

// Answer answers with the book whose id is in the path.
func Answer(s *endpoint.Base, c *endpoint.Call, list *event.PriceList) error {
	book := Find(list, c.Params("id"))
	if book == nil {
		return endpoint.NotFound()
	}
	return s.JSON(c.Ctx, fiber.StatusOK, oneView{endpoint.Succeeded(), Show(book)})
}
