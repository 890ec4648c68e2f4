// Package scrape reads the pages that a process has for its operators: health, metrics, NATS monitoring.
package scrape

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	timeout  = 10 * time.Second
	maxBytes = 64 << 20
)

// Get returns the page at url. An answer other than 200 is an error, and so is none within 10 seconds. Each call opens a
// new connection, since the process may have restarted since the last call.
func Get(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", url, response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxBytes))
}
