package edge

import (
	"encoding/json"
	"fmt"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/prices"
)

// ReadPriceBook reads the document of a price book, as the admin API takes it (docs/price-book.md). A plan that is in the list keeps its
// number. The document must have all plans of the book in force.
func ReadPriceBook(document []byte, list *event.PriceList) (*plan.Book, error) {
	wrapped, err := json.Marshal(map[string]json.RawMessage{"book": document})
	if err != nil {
		return nil, fmt.Errorf("the price book is not JSON: %w", err)
	}
	var book *plan.Book
	if err := input.JSON(wrapped)(input.Fields{"book": func(name string, v input.Value) (err error) {
		book, err = prices.Read(name, v, prices.Tiers(list))
		return err
	}}.Set); err != nil {
		return nil, err
	}
	return book, prices.HasPlansOf(list, book)
}
