package stripetest

// product is what a price is for. https://docs.stripe.com/api/products/object
type product struct {
	id, name string
	created  int64
}

func (p *product) key() string      { return p.id }
func (p *product) createdAt() int64 { return p.created }
func (p *product) links() []string  { return nil }
func (p *product) json(expand) props {
	return props{"id": p.id, "object": "product", "created": p.created, "name": p.name, "active": true, "livemode": false, "metadata": props{}}
}

// createProduct creates a product, whose ID the caller may choose once.
func (s *Server) createProduct(r *call) (any, *failure) {
	name, fail := r.required("name")
	if fail != nil {
		return nil, fail
	}
	p := &product{id: r.form.Get("id"), name: name, created: s.now().Unix()}
	if p.id == "" {
		p.id = s.id("prod")
	}
	if _, missing := s.products.get("product", p.id); missing == nil {
		return nil, badRequest("id", "resource_already_exists", "Product already exists.")
	}
	s.products.add(p)
	return p.json(r.expand), nil
}
