package webhooks

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"quire.dev/pkg/alert"
	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
)

const (
	attemptTime   = 10 * time.Second
	dialTime      = 5 * time.Second
	excerptBytes  = 1024     // of the response, kept
	drainedBytes  = 16 << 10 // of the response, read so that the connection can be reused
	headerBytes   = 16 << 10 // of the response header
	idleConns     = 16       // over all hosts
	idleTime      = time.Minute
	statusGone    = http.StatusGone
	userAgent     = "Quire-Webhooks/1"
	errNotAllowed = "the address is not on the public internet"
)

// poster posts signed alerts.
type poster struct {
	store  *Store
	client *http.Client
	limit  time.Duration // per attempt
}

func newPoster(store *Store) *poster {
	dialer := &net.Dialer{Timeout: dialTime, KeepAlive: 30 * time.Second}
	if !store.allowPrivate {
		dialer.Control = dialPublic // after name resolution, for each address
	}
	return &poster{store: store, limit: attemptTime, client: &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTime,
			MaxResponseHeaderBytes: headerBytes, MaxIdleConns: idleConns, MaxIdleConnsPerHost: 1, IdleConnTimeout: idleTime,
			DisableCompression: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// attempt posts an alert once. A response other than 2xx is a failure, including redirects.
func (p *poster) attempt(ctx context.Context, a *event.Alert, address *event.WebhookAddress) *event.DeliveryAttempt {
	began := time.Now()
	now := p.store.clock()
	out := &event.DeliveryAttempt{TimeMs: now.UnixMilli()}
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	request, err := p.request(ctx, a, address, now)
	if err != nil {
		out.Error = plain(err)
		return out
	}
	response, err := p.client.Do(request)
	if err == nil {
		defer response.Body.Close()
		out.Status = num.Uint32(response.StatusCode)
		out.Answer = excerpt(response.Body)
		if response.StatusCode/100 != 2 {
			out.Error = "the HTTP status was " + strconv.Itoa(response.StatusCode)
		}
	} else {
		out.Error = plain(err)
	}
	out.DurationMs = num.Uint32(time.Since(began).Milliseconds())
	return out
}

// request builds an attempt's request, signed with all valid secrets.
func (p *poster) request(ctx context.Context, a *event.Alert, address *event.WebhookAddress, now time.Time) (*http.Request, error) {
	body, err := alert.Encode(a)
	if err != nil {
		return nil, err
	}
	var signatures []string
	for _, secret := range address.Secrets {
		if secret.UntilMs != 0 && secret.UntilMs <= now.UnixMilli() {
			continue
		}
		raw, err := p.store.sealer.open(secret.Sealed, addressID(event.AccountID(address.Account), address.Webhook))
		if err != nil {
			return nil, err
		}
		signer, err := standardwebhooks.NewWebhookRaw(raw)
		if err != nil {
			return nil, err
		}
		signature, err := signer.Sign(a.Id, now, body)
		if err != nil {
			return nil, err
		}
		signatures = append(signatures, signature)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address.Url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", userAgent)
	request.Header.Set(standardwebhooks.HeaderWebhookID, a.Id)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	return request, nil
}

// excerpt is the beginning of a response as text.
func excerpt(body io.Reader) string {
	data, _ := io.ReadAll(io.LimitReader(body, excerptBytes)) // an error keeps what was read
	io.Copy(io.Discard, io.LimitReader(body, drainedBytes))   //nolint:errcheck // only so that the connection can be used again
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(data), "\uFFFD"))
}

// plain tells the webhook's owner why there was no response, without naming the address or anything of our own network.
func plain(err error) string {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, errProhibited):
		return errNotAllowed
	case errors.Is(err, errSealed):
		return "the signing secret can't be decrypted: rotate it"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "the request timed out"
	case errors.As(err, new(*net.DNSError)):
		return "the host name was not found"
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "the certificate is not valid for the host"
	case errors.As(err, new(*net.OpError)):
		return "the connection failed"
	}
	return "the request failed"
}
