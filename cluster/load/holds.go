package load

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
)

var holdsLine = regexp.MustCompile(`(?m)^quire_billing_state\{.*of="open_holds".*\} (\S+)$`)

// OpenHolds is how many holds are open, as Settled wants to know it: the sum over all partitions that the billing
// processes fold which serve /metrics at these base URLs. Where two fold a partition its holds count twice. It is an
// error where one of them says nothing of holds.
func OpenHolds(ctx context.Context, bases ...string) (int64, error) {
	var open int64
	for _, base := range bases {
		metrics, err := read(ctx, base+"/metrics")
		if err != nil {
			return 0, err
		}
		lines := holdsLine.FindAllSubmatch(metrics, -1)
		if len(lines) == 0 {
			return 0, fmt.Errorf("%s exports no open holds", base)
		}
		for _, line := range lines {
			n, err := strconv.ParseFloat(string(line[1]), 64)
			if err != nil {
				return 0, err
			}
			open += int64(n)
		}
	}
	return open, nil
}

func read(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}
