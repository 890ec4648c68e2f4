// Package client calls the Quire API: pastes, quick pastes and files, and what they cost.
//
//	c, err := client.New(os.Getenv("QUIRE_API_KEY"), client.WithBaseURL("http://127.0.0.1:8080"))
//	if err != nil { … }
//	paste, err := c.QuickPastes.Create(ctx, client.NewPaste{Content: "hello"})
//
// One method is one operation of the API, and at most one charge. Each write and each metered read gets an Idempotency-Key
// of its own, under which it is repeated when the connection breaks or the service can't answer: the service carries it
// out, and charges it, once. See WithRetries for the calls that are repeated.
//
// Every result has a Meta: the request's id, what is left of the month's quota, and what the call cost. Errors of the
// service are of type *APIError, and the common ones are of a type of their own, such as *QuotaExhausted: use errors.As.
//
// A Client is safe for concurrent use. All times are in UTC, all sizes in bytes, and money is in Credits.
package client
