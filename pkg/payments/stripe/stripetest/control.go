package stripetest

import (
	"fmt"
	"net/http"
	"strconv"
)

// control is POST /test/{action}?id=<id>: what a test in another process does to the account. It answers with the ID that the
// action returns, if any, or with a status of 400 and what is wrong.
//
//	refund id=<payment> amount=<minor>   failrefund id=<refund>
//	dispute, inquire id=<payment>        escalate, win, lose id=<dispute>
//	settle, bounce id=<payment>          (of a bank debit)
//	renew, retry, cancel id=<subscription>
func (s *Server) control(w http.ResponseWriter, r *http.Request) {
	id, result := r.FormValue("id"), ""
	amount, err := strconv.ParseInt(r.FormValue("amount"), 10, 64)
	switch action := r.PathValue("action"); action {
	case "refund":
		if err == nil {
			result, err = s.Refund(id, amount)
		}
	case "failrefund":
		err = s.FailRefund(id)
	case "dispute":
		result, err = s.Dispute(id)
	case "inquire":
		result, err = s.Inquire(id)
	case "escalate":
		err = s.Escalate(id)
	case "win":
		err = s.WinDispute(id)
	case "lose":
		err = s.LoseDispute(id)
	case "settle", "bounce":
		err = s.Settle(id, action == "settle")
	case "renew":
		err = s.Renew(id)
	case "retry":
		err = s.Retry(id)
	case "cancel":
		err = s.CancelNow(id)
	default:
		err = fmt.Errorf("no action %q", action)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = fmt.Fprintln(w, result)
}
