package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"quire.dev/cli"
)

// correct sends a command about an account's credits, and prints the balance after it.
func (a *adminCommands) correct(ctx context.Context, account, path string, body any) error {
	var after struct{ Balance string }
	return a.callOn(ctx, http.MethodPost, account, path, body, &after, func() {
		fmt.Fprintf(a.stdout, "balance: %s credits\n", short(after.Balance))
	})
}

func (a *adminCommands) refund() *cobra.Command {
	var request, period, quotaKey, amount, reason string
	var takeBack bool
	cmd := &cobra.Command{
		Use: "refund <account> --request <id> --reason <text>", Short: "Refund requests that were paid with credits", Args: cli.Exactly(1),
		Long: `Refund a request's whole price, or an amount of what this or last month has spent for a quota key. Quotas and
counters stay, and the ledger and the statement show the refund. --take-back, or a negative amount, takes a refund back.`,
		Example: `  quire account refund a@example.org --request 01a1fff9-83d3-743f-9a6d-5290a1beb664 --reason "our mistake"
  quire account refund a@example.org --period 2026-11 --quota-key pastes.create --amount 0.5 --reason "slow answers"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			line := period != "" && quotaKey != "" && amount != ""
			if reason == "" || (request == "") != line || request != "" && period+quotaKey+amount != "" {
				return cli.Usage("set --request, or --period, --quota-key and --amount; and --reason")
			}
			body := map[string]any{"reason": reason}
			if line {
				body["period"], body["quotaKey"], body["amount"] = period, quotaKey, amount
			} else {
				body["requestId"], body["takeBack"] = request, takeBack
			}
			return a.correct(cmd.Context(), args[0], "/refunds", body)
		},
	}
	cmd.Flags().StringVar(&request, "request", "", "id of the request (X-Request-Id)")
	cmd.Flags().BoolVar(&takeBack, "take-back", false, "with --request: take its refund back")
	cmd.Flags().StringVar(&period, "period", "", "this or last month, such as 2026-11")
	cmd.Flags().StringVar(&quotaKey, "quota-key", "", "quota key, such as pastes.create")
	cmd.Flags().StringVar(&amount, "amount", "", "credits to refund, or negative to take back")
	cmd.Flags().StringVar(&reason, "reason", "", "reason, for the ledger: 1 to 200 characters")
	return cmd
}

func (a *adminCommands) payment() *cobra.Command {
	var credits, amount, tax, reason string
	cmd := &cobra.Command{
		Use: "payment <account> <invoice> --credits <credits>", Short: "Add the credits of an invoice that was paid", Args: cli.Exactly(2),
		Long: "Add the credits of an invoice that was paid. The number of an invoice counts once for an account, so this is safe to repeat.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if credits == "" {
				return cli.Usage("set --credits")
			}
			body := map[string]string{"payment": args[1], "credits": credits, "reason": reason}
			if amount != "" {
				body["amountUsd"] = amount
			}
			if tax != "" {
				body["taxUsd"] = tax
			}
			return a.correct(cmd.Context(), args[0], "/payments", body)
		},
	}
	cmd.Flags().StringVar(&credits, "credits", "", "credits that were paid for")
	cmd.Flags().StringVar(&amount, "amount", "", "what was paid in US dollars with tax, for the receipt, such as 11.90")
	cmd.Flags().StringVar(&tax, "tax", "", "part of it that is tax")
	cmd.Flags().StringVar(&reason, "reason", "", "reason, for the ledger: up to 200 characters")
	return cmd
}

func (a *adminCommands) reverse() *cobra.Command {
	var credits, reason string
	var chargeback bool
	cmd := &cobra.Command{
		Use: "reverse <account> <invoice> --credits <credits> --reason <text>", Short: "Take back credits of a payment that was refunded or charged back",
		Args: cli.Exactly(2),
		Long: `Take back credits of a payment that was refunded or charged back. --credits is how many are reversed in all, so this is
safe to repeat; 0 gives all back. Credits that were spent are owed: the balance is then below zero.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if credits == "" || reason == "" {
				return cli.Usage("set --credits and --reason")
			}
			return a.correct(cmd.Context(), args[0], "/reversals",
				map[string]any{"payment": args[1], "credits": credits, "reason": reason, "chargeback": chargeback})
		},
	}
	cmd.Flags().StringVar(&credits, "credits", "", "how many of the payment's credits are reversed in all")
	cmd.Flags().BoolVar(&chargeback, "chargeback", false, "the holder's bank took the money back")
	cmd.Flags().StringVar(&reason, "reason", "", "reason, for the ledger: 1 to 200 characters")
	return cmd
}
