// Package client calls the Quire API: pastes, quick pastes, files and their cost.
//
//	c, err := client.New(os.Getenv("QUIRE_API_KEY"), client.WithBaseURL("http://127.0.0.1:8080"))
//	if err != nil { … }
//	paste, err := c.QuickPastes.Create(ctx, client.NewPaste{Content: "hello"})
//
// Each method is one operation of the API, charged at most once. Each write and each metered read gets an Idempotency-Key,
// under which it is retried when the connection breaks or the service is unavailable: the service carries it out, and
// charges it, once. See WithRetries.
//
// Every result has a Meta: the request id, the remaining quota, and the cost. Errors of the service are *APIError, and
// common ones have their own types, such as *QuotaExhaustedError: use errors.As.
//
// A Client is safe for concurrent use. All times are in UTC, all sizes in bytes, and money is in Credits.
package client
