package stripetest

import (
	"errors"
	"html/template"
	"net/http"
	"strings"
)

// portal is a session of the customer portal. https://docs.stripe.com/customer-management
type portal struct {
	id, returnURL string
	created       int64
	customer      *customer
}

func (p *portal) key() string      { return p.id }
func (p *portal) createdAt() int64 { return p.created }
func (p *portal) links() []string  { return nil }
func (p *portal) json(expand) props {
	return props{"id": p.id, "object": "billing_portal.session", "created": p.created, "customer": p.customer.id, "return_url": p.returnURL, "livemode": false}
}

func (s *Server) createPortal(r *call) (any, *failure) {
	c, fail := s.customers.get("customer", r.form.Get("customer"))
	if fail != nil {
		fail.status = http.StatusBadRequest
		return nil, fail
	}
	p := &portal{id: s.id("bps"), created: s.now().Unix(), customer: c, returnURL: r.form.Get("return_url")}
	s.portals.add(p)
	shown := p.json(nil)
	shown["url"] = s.URL + "/portal/" + p.id
	return shown, nil
}

// parsePages returns the templates of the pages.
func parsePages() *template.Template {
	return template.Must(template.New("").Parse(`
{{define "head"}}<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Stand-in for Stripe</title><style>body{font:16px sans-serif;max-width:28rem;margin:3rem auto}button{font:inherit;margin:.2rem}</style>{{end}}
{{define "checkout"}}{{template "head"}}<h1>{{.Name}}</h1>
<p id="total">{{.Total}} {{.Currency}}{{if .Monthly}} per month{{end}}</p>
{{if .Error}}<p id="error" role="alert">{{.Error}}</p>{{end}}
{{if .Open}}<form method="post">
<button name="card" value="visa" id="pay">Pay</button>
<button name="card" value="generic_decline" id="decline">Pay with a card that is declined</button>
{{if not .Monthly}}<button name="card" value="later" id="later">Pay by bank debit</button>{{end}}
</form><a href="{{.Cancel}}" id="cancel">Back</a>
{{else}}<p id="done">You're all done here.</p>{{end}}{{end}}
{{define "portal"}}{{template "head"}}<h1>Customer portal</h1>
<form method="post">
<p id="card">{{.Card}}</p>
<button name="action" value="visa" id="good">Save a good card</button>
<button name="action" value="generic_decline" id="bad">Save a card that is declined</button>
{{range .Subscriptions}}<p class="subscription">{{.ID}} {{.Status}}{{if .Ends}}, ends after this period{{end}}
<button name="{{if .Ends}}resume{{else}}cancel{{end}}" value="{{.ID}}">{{if .Ends}}Resume{{else}}Cancel{{end}}</button></p>{{end}}
</form><a href="{{.Return}}" id="return">Return</a>{{end}}`))
}

// checkoutPage shows a session's form, or that it is complete or expired.
func (s *Server) checkoutPage(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, fail := s.payable(r.PathValue("id"))
	s.showCheckout(w, o, o != nil && fail == nil, "")
}

func (s *Server) showCheckout(w http.ResponseWriter, o *session, open bool, message string) {
	if o == nil {
		http.Error(w, "no such page", http.StatusNotFound)
		return
	}
	s.show(w, "checkout", props{
		"Name": o.name, "Total": o.subtotal + o.tax, "Currency": strings.ToUpper(o.currency), "Monthly": o.mode == "subscription",
		"Open": open, "Cancel": template.URL(o.cancel), "Error": message,
	})
}

func (s *Server) show(w http.ResponseWriter, name string, data props) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_ = s.pages.ExecuteTemplate(w, name, data)
}

// checkoutAction pays with the chosen card and leads to the success URL. A second tab, or the back button, can't pay twice.
func (s *Server) checkoutAction(w http.ResponseWriter, r *http.Request) {
	id, card := r.PathValue("id"), r.FormValue("card")
	var err error
	if card == "later" {
		_, err = s.PayLater(id)
	} else {
		_, err = s.Pay(id, Card(card))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, fail := s.payable(id)
	if err != nil || o == nil {
		message := ""
		if refused := new(failure); errors.As(err, &refused) && refused.Type == cardError {
			message = refused.Message
		}
		s.showCheckout(w, o, fail == nil, message)
		return
	}
	// https://docs.stripe.com/payments/checkout/custom-success-page
	http.Redirect(w, r, strings.ReplaceAll(o.success, "{CHECKOUT_SESSION_ID}", o.id), http.StatusSeeOther)
}

func (s *Server) portalPage(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, fail := s.portals.get("portal", r.PathValue("id"))
	if fail != nil {
		http.Error(w, "no such page", http.StatusNotFound)
		return
	}
	card := "No card is saved."
	if m := p.customer.card(); m != nil {
		card = "Saved card: " + string(m.card)
	}
	type row struct {
		ID, Status string
		Ends       bool
	}
	var rows []row
	for _, u := range s.subs.byLink["customer="+p.customer.id] {
		if u.status != "canceled" {
			rows = append(rows, row{ID: u.id, Status: u.status, Ends: u.cancelAtEnd})
		}
	}
	s.show(w, "portal", props{"Card": card, "Subscriptions": rows, "Return": template.URL(p.returnURL)})
}

func (s *Server) portalAction(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	p, fail := s.portals.get("portal", r.PathValue("id"))
	s.mu.Unlock()
	if fail != nil {
		http.Error(w, "no such page", http.StatusNotFound)
		return
	}
	var err error
	switch {
	case r.FormValue("action") != "":
		err = s.SaveCard(p.customer.id, Card(r.FormValue("action")))
	case r.FormValue("cancel") != "":
		err = s.CancelAtPeriodEnd(r.FormValue("cancel"), true)
	case r.FormValue("resume") != "":
		err = s.CancelAtPeriodEnd(r.FormValue("resume"), false)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	http.Redirect(w, r, r.URL.Path, http.StatusSeeOther)
}
