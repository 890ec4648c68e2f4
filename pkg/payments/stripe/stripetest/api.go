package stripetest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Types of errors. https://docs.stripe.com/api/errors
const (
	invalidRequest   = "invalid_request_error"
	cardError        = "card_error"
	apiError         = "api_error"
	idempotencyError = "idempotency_error"
)

// failure is an error of the API.
type failure struct {
	status      int
	Type        string `json:"type"`
	Code        string `json:"code,omitempty"`
	DeclineCode string `json:"decline_code,omitempty"`
	Message     string `json:"message"`
	Param       string `json:"param,omitempty"`
	Intent      props  `json:"payment_intent,omitempty"`
}

func badRequest(param, code, message string) *failure {
	return &failure{status: http.StatusBadRequest, Type: invalidRequest, Code: code, Message: message, Param: param}
}

// call is a request to the API.
type call struct {
	path   string
	id     string // of the path
	form   url.Values
	expand expand
}

// required returns a parameter, or Stripe's error if it is missing.
func (r *call) required(name string) (string, *failure) {
	value := r.form.Get(name)
	if value == "" {
		return "", badRequest(name, "parameter_missing", "Missing required param: "+name+".")
	}
	return value, nil
}

func (r *call) integer(name string, missing int64) (int64, *failure) {
	text := r.form.Get(name)
	if text == "" {
		return missing, nil
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, badRequest(name, "parameter_invalid_integer", "Invalid integer: "+text)
	}
	return value, nil
}

// amount returns an amount in minor units, which must be positive.
func (r *call) amount(name string) (int64, *failure) {
	if _, fail := r.required(name); fail != nil {
		return 0, fail
	}
	value, fail := r.integer(name, 0)
	if fail == nil && value < 1 {
		fail = badRequest(name, "parameter_invalid_integer", "This value must be greater than or equal to 1.")
	}
	return value, fail
}

// dictionary returns the parameters name[key].
func (r *call) dictionary(name string) map[string]string {
	m := make(map[string]string)
	for key, values := range r.form {
		if inner, ok := strings.CutPrefix(key, name+"["); ok && strings.HasSuffix(inner, "]") {
			m[strings.TrimSuffix(inner, "]")] = values[0]
		}
	}
	return m
}

// endpoint answers a call, with the server locked.
type endpoint func(*call) (any, *failure)

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, e := range map[string]endpoint{
		"POST /v1/customers":                     s.createCustomer,
		"GET /v1/customers/search":               s.searchCustomers,
		"GET /v1/customers/{id}":                 s.getCustomer,
		"POST /v1/customers/{id}":                s.updateCustomer,
		"GET /v1/customers/{id}/payment_methods": s.listMethods,
		"POST /v1/checkout/sessions":             s.createSession,
		"GET /v1/checkout/sessions":              s.listSessions,
		"GET /v1/checkout/sessions/{id}":         s.getSession,
		"POST /v1/billing_portal/sessions":       s.createPortal,
		"POST /v1/payment_intents":               s.createIntent,
		"GET /v1/payment_intents":                s.listIntents,
		"GET /v1/payment_intents/{id}":           s.getIntent,
		"POST /v1/products":                      s.createProduct,
		"GET /v1/refunds":                        s.listRefunds,
		"GET /v1/disputes":                       s.listDisputes,
		"GET /v1/subscriptions":                  s.listSubscriptions,
		"GET /v1/subscriptions/{id}":             s.getSubscription,
		"POST /v1/subscriptions/{id}":            s.updateSubscription,
		"DELETE /v1/subscriptions/{id}":          s.cancelSubscription,
		"GET /v1/invoice_payments":               s.listInvoicePayments,
		"GET /v1/events":                         s.listEvents,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, e) })
	}
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		answer(w, &failure{status: http.StatusNotFound, Type: invalidRequest, Message: "Unrecognized request URL (" + r.Method + ": " + r.URL.Path + ")."})
	})
	mux.HandleFunc("POST /test/{action}", s.control)
	mux.HandleFunc("GET /checkout/{id}", s.checkoutPage)
	mux.HandleFunc("POST /checkout/{id}", s.checkoutAction)
	mux.HandleFunc("GET /portal/{id}", s.portalPage)
	mux.HandleFunc("POST /portal/{id}", s.portalAction)
	return mux
}

// serve authenticates and parses a request, applies a planned break, and answers.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, e endpoint) {
	// https://docs.stripe.com/api/authentication
	if r.Header.Get("Authorization") != "Bearer "+s.config.Key {
		answer(w, &failure{status: http.StatusUnauthorized, Type: invalidRequest, Message: "Invalid API Key provided"})
		return
	}
	form, err := parse(r)
	if err != nil {
		answer(w, badRequest("", "", err.Error()))
		return
	}
	c := &call{path: r.URL.Path, id: r.PathValue("id"), form: form}
	for key, values := range form {
		if key == "expand" || strings.HasPrefix(key, "expand[") {
			c.expand = append(c.expand, values...)
		}
	}
	broken := s.takeBreak(r.Method, r.URL.Path)
	if broken != nil && broken.fault.before(w) {
		broken.close()
		return
	}
	status, body, replayed := s.perform(r, c, e, broken)
	if broken != nil && broken.fault.after() {
		broken.close()
		s.withhold(w, r, broken.fault)
		return
	}
	if broken != nil {
		broken.close()
	}
	if replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	write(w, status, body)
}

func parse(r *http.Request) (url.Values, error) {
	if r.Method == http.MethodGet {
		return r.URL.Query(), nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	return url.ParseQuery(string(body))
}

// kept is the result of an idempotency key.
type kept struct {
	request [sha256.Size]byte // hash of the method, path and parameters
	status  int
	body    []byte
	at      time.Time
}

// perform runs an endpoint, or repeats the result of its idempotency key.
//
// https://docs.stripe.com/api/idempotent_requests: the status and body of the first request are kept, whether it succeeded or
// failed, including 500 errors. Other parameters are an error. Nothing is kept if the parameters fail validation. Keys are
// removed after at least 24 hours. Keys have no effect on GET and DELETE.
func (s *Server) perform(r *http.Request, c *call, e endpoint, broken *planned) (status int, body []byte, replayed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	if r.Method != http.MethodPost {
		key = ""
	}
	request := sha256.Sum256([]byte(r.Method + " " + c.path + "?" + c.form.Encode()))
	if len(key) > 255 {
		return encode(badRequest("", "", "Idempotency keys have up to 255 characters."))
	}
	if known := s.keys[key]; key != "" && known != nil && s.now().Sub(known.at) < 24*time.Hour {
		if known.request != request {
			return encode(&failure{
				status: http.StatusBadRequest, Type: idempotencyError,
				Message: "Keys for idempotent requests can only be used with the same parameters they were first used with.",
			})
		}
		return known.status, known.body, true
	}
	if broken != nil && broken.fault == Fail {
		status, body, _ = encode(&failure{status: http.StatusInternalServerError, Type: apiError, Message: "Something went wrong on Stripe's end."})
	} else {
		result, fail := e(c)
		if fail != nil {
			status, body, _ = encode(fail)
		} else {
			status, body, _ = encode(result)
		}
	}
	if key != "" && status != http.StatusBadRequest {
		s.keys[key] = &kept{request: request, status: status, body: body, at: s.now()}
	}
	return status, body, false
}

// encode returns an answer, or an error as Stripe shows it.
func encode(result any) (status int, body []byte, replayed bool) {
	status = http.StatusOK
	if fail, ok := result.(*failure); ok {
		status, result = fail.status, props{"error": fail}
	}
	body, err := json.Marshal(result)
	if err != nil {
		panic(fmt.Sprintf("stripetest: encode an answer: %v", err)) // all answers are made of maps, texts and numbers
	}
	return status, body, false
}

func answer(w http.ResponseWriter, fail *failure) {
	status, body, _ := encode(fail)
	write(w, status, body)
}

func write(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Request-Id", "req_standin")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// Fault is what goes wrong with a request to the API.
type Fault int

// The faults. In those after Fail the request has its effect, but the caller doesn't learn of it.
const (
	Cut   Fault = iota // the connection ends, and nothing happens
	Busy               // 429, and nothing happens: https://docs.stripe.com/rate-limits
	InUse              // 409, as while the same key is in use: https://docs.stripe.com/error-low-level; nothing happens
	Fail               // 500, and nothing happens; a retry with the same key gets the same answer
	Lose               // it happens, and then the connection ends
	Hold               // it happens, and then no answer comes until the caller gives up
)

// before carries out the faults that let nothing happen.
func (f Fault) before(w http.ResponseWriter) bool {
	switch f {
	case Cut:
		abort(w)
		return true
	case InUse:
		answer(w, &failure{
			status: http.StatusConflict, Type: idempotencyError, Code: "idempotency_key_in_use",
			Message: "There is currently another in-progress request using this Idempotent Key.",
		})
		return true
	case Busy:
		answer(w, &failure{status: http.StatusTooManyRequests, Type: invalidRequest, Code: "rate_limit", Message: "Too many requests"})
		return true
	}
	return false
}

func (f Fault) after() bool { return f == Lose || f == Hold }

// abort ends the connection in the middle of an answer. Go's HTTP client would silently repeat a request that got none of it.
func abort(w http.ResponseWriter) {
	if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_, _ = connection.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"))
		_ = connection.Close()
	}
}

// withhold doesn't answer a request that had its effect.
func (s *Server) withhold(w http.ResponseWriter, r *http.Request, f Fault) {
	if f == Hold {
		select {
		case <-r.Context().Done():
		case <-s.ended:
		}
	}
	abort(w)
}

// planned is a fault for the next request to a path.
type planned struct {
	method, path string
	fault        Fault
	done         chan struct{}
}

func (p *planned) close() {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
}

// Break lets the next request with a method and path fail, such as POST and /v1/payment_intents. The channel is closed once it
// has: for Lose and Hold that is after its effect.
func (s *Server) Break(method, path string, f Fault) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &planned{method: method, path: path, fault: f, done: make(chan struct{})}
	s.breaks = append(s.breaks, p)
	return p.done
}

func (s *Server) takeBreak(method, path string) *planned {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.breaks, func(p *planned) bool { return p.method == method && p.path == path })
	if i < 0 {
		return nil
	}
	p := s.breaks[i]
	s.breaks = slices.Delete(s.breaks, i, i+1)
	return p
}
