package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"quire.dev/cli/internal/terminal"
	"quire.dev/client"
)

// Exit statuses of the commands below paste. docs/guides/command-line.md lists them: they stay as they are.
const (
	ExitOK          = 0
	ExitFailed      = 1   // anything else, on this machine or by a mistake of the service
	ExitUsage       = 2   // the command or its input is wrong
	ExitKey         = 3   // the API key, or the management token, is missing or wrong
	ExitForbidden   = 4   // the caller is known and may not do that
	ExitNotFound    = 5   // there is no such document
	ExitQuota       = 6   // the plan, the quota, the credits or a spending cap do not allow it
	ExitConflict    = 7   // the document was changed by somebody else
	ExitUnavailable = 8   // the service can't be reached or can't answer now; the same command may succeed later
	ExitUnknown     = 9   // the service could not confirm it in time: it may have been done
	ExitInterrupted = 130 // by Ctrl-C
)

// UsageError is a mistake in a command or its input.
type UsageError struct{ error }

// Unwrap is the mistake.
func (e UsageError) Unwrap() error { return e.error }

// Usage makes a UsageError.
func Usage(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// fileError is the failure of one file of several. The error names the file, where its reader needs it.
type fileError struct {
	file string
	error
}

// Unwrap is the failure.
func (e *fileError) Unwrap() error { return e.error }

// failures are the failures of several files. Each is reported, and the first one decides the exit status.
type failures []error

// Error has a line for each.
func (f failures) Error() string { return errors.Join(f...).Error() }

// err is nil without a failure.
func (f failures) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Report prints the error of a command that ran, and gives the exit status.
func Report(ctx context.Context, streams Streams, ran *cobra.Command, err error) int {
	if err == nil || errors.Is(err, pflag.ErrHelp) {
		return ExitOK
	}
	status := Status(ctx, err)
	asJSON := false
	if ran != nil {
		asJSON, _ = ran.Flags().GetBool("json") // false where the command does not have it
	}
	term := terminal.New(streams.In, streams.Out, streams.Err, streams.Environ)
	each := failures{err}
	errors.As(err, &each)
	for _, err := range each {
		if asJSON {
			printFailureJSON(streams.Err, err, Status(ctx, err))
		} else {
			printFailure(term, err, Status(ctx, err))
		}
	}
	return status
}

// IsPaste tells whether a command is one below `paste`, whose errors Report is for.
func IsPaste(cmd *cobra.Command) bool {
	for ; cmd != nil; cmd = cmd.Parent() {
		if _, ok := cmd.Annotations[annotation]; ok {
			return true
		}
	}
	return false
}

// Status is the exit status of an error.
func Status(ctx context.Context, err error) int {
	if several := failures(nil); errors.As(err, &several) {
		return Status(ctx, several[0])
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil || errors.Is(err, terminal.ErrInterrupted) {
		return ExitInterrupted
	}
	var failed *client.APIError
	if errors.As(err, &failed) {
		return statusOf(failed)
	}
	var connection *net.OpError
	switch {
	case errors.As(err, new(UsageError)):
		return ExitUsage
	case errors.As(err, &connection) && connection.Op == "dial", errors.As(err, new(*net.DNSError)):
		return ExitUnavailable
	case errors.As(err, &connection), errors.Is(err, syscall.ECONNRESET), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, new(*url.Error)) && errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ExitUnknown // a connection that broke after something was sent
	}
	return ExitFailed
}

func statusOf(failed *client.APIError) int {
	switch failed.Code {
	case "quota_exhausted", "key_quota_exhausted", "spending_cap_reached", "plan_upgrade_required", "anonymous_limit", "insufficient_credits":
		return ExitQuota
	}
	switch failed.Status {
	case http.StatusUnauthorized:
		return ExitKey
	case http.StatusForbidden:
		return ExitForbidden
	case http.StatusNotFound:
		return ExitNotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return ExitConflict
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
		http.StatusRequestHeaderFieldsTooLarge, http.StatusMethodNotAllowed:
		return ExitUsage
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusBadGateway, http.StatusServiceUnavailable:
		return ExitUnavailable
	case http.StatusGatewayTimeout:
		return ExitUnknown
	}
	return ExitFailed
}

func printFailure(term *terminal.Terminal, err error, status int) {
	if status == ExitInterrupted {
		fmt.Fprintln(term.Err, "quire: interrupted")
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", term.Paint(term.Err, terminal.Red, "quire:"), terminal.Visible(reason(err), true))
	for _, hint := range hints(err, status) {
		fmt.Fprintf(&b, "  %s\n", terminal.Visible(hint, false))
	}
	fmt.Fprint(term.Err, b.String())
}

// reason is an error's text without what only programs need.
func reason(err error) string {
	text := strings.TrimPrefix(err.Error(), "quire: ")
	var failed *client.APIError
	if errors.As(err, &failed) {
		text = strings.Replace(text, failed.Error(), failed.Reason, 1) // of an error around the failure
		text = strings.Replace(text, strings.TrimPrefix(failed.Error(), "quire: "), failed.Reason, 1)
	}
	return text
}

// hints say what the user can do.
func hints(err error, status int) []string {
	var out []string
	var hinted *hintedError
	if errors.As(err, &hinted) {
		out = append(out, hinted.hint)
	}
	var failed *client.APIError
	if !errors.As(err, &failed) {
		if status == ExitUnknown {
			out = append(out, "It may have been carried out.")
		}
		return out
	}
	if failed.Suggestion != "" {
		out = append(out, failed.Suggestion)
	}
	var key *keyError
	switch {
	case errors.As(err, &key):
		out = append(out, key.hint())
	case failed.Code == "manage_token_required":
		out = append(out, "Log in with quire paste login, or set QUIRE_MANAGE_TOKEN to the paste's management token.")
	case failed.Code == "wrong_password":
		out = append(out, "Use --password, which prompts for it, or set QUIRE_PASSWORD.")
	case status == ExitUnknown:
		out = append(out, "It may have been carried out.")
	}
	if !failed.ResetAt.IsZero() {
		out = append(out, "Retry after "+clock(failed.ResetAt)+".")
	} else if failed.RetryAfter > 0 {
		out = append(out, "Retry in "+count(int(failed.RetryAfter.Seconds()), "second")+".")
	}
	if failed.UpgradeURL != "" && status == ExitQuota {
		out = append(out, "Plans: "+failed.UpgradeURL)
	}
	if failed.RequestID != "" {
		out = append(out, "Request: "+failed.RequestID)
	}
	return out
}

// failureJSON is how an error is printed with --json.
type failureJSON struct {
	Code              string     `json:"code"`
	Reason            string     `json:"reason"`
	ExitStatus        int        `json:"exitStatus"`
	Status            int        `json:"status,omitempty"` // of HTTP
	Field             string     `json:"field,omitempty"`
	Suggestion        string     `json:"suggestion,omitempty"`
	QuotaKey          string     `json:"quotaKey,omitempty"`
	Limit             *int64     `json:"limit,omitempty"`
	ResetAt           *time.Time `json:"resetAt,omitempty"`
	RetryAfterSeconds int        `json:"retryAfterSeconds,omitempty"`
	UpgradeURL        string     `json:"upgradeUrl,omitempty"`
	Docs              string     `json:"docs,omitempty"`
	RequestID         string     `json:"requestId,omitempty"`
	File              string     `json:"file,omitempty"` // of several
}

func printFailureJSON(to *os.File, err error, status int) {
	out := failureJSON{Code: localCode(status), Reason: strings.TrimPrefix(err.Error(), "quire: "), ExitStatus: status}
	var failed *client.APIError
	if errors.As(err, &failed) {
		out = failureJSON{
			Code: failed.Code, Reason: failed.Reason, ExitStatus: status, Status: failed.Status, Field: failed.Field,
			Suggestion: failed.Suggestion, QuotaKey: failed.QuotaKey, RetryAfterSeconds: int(failed.RetryAfter.Seconds()),
			UpgradeURL: failed.UpgradeURL, Docs: failed.Docs, RequestID: failed.RequestID, ResetAt: orNull(failed.ResetAt),
		}
		if failed.Limit > 0 {
			out.Limit = &failed.Limit
		}
	}
	if hinted := (*hintedError)(nil); errors.As(err, &hinted) {
		out.Code, out.Reason, out.Suggestion = hinted.code, reason(hinted), hinted.hint
	}
	if of := (*fileError)(nil); errors.As(err, &of) {
		out.File = of.file
	}
	_ = json.NewEncoder(to).Encode(map[string]failureJSON{"error": out}) // there is nobody to tell
}

// localCode is the code of a failure that the service has not answered.
func localCode(status int) string {
	switch status {
	case ExitUsage:
		return "usage"
	case ExitUnavailable:
		return "unreachable"
	case ExitUnknown:
		return "connection_broken"
	case ExitConflict:
		return "conflict"
	case ExitInterrupted:
		return "interrupted"
	}
	return "failed"
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// clock is a time for people, in their own zone.
func clock(t time.Time) string { return t.Local().Format("2006-01-02 15:04 MST") }
