package pages

import (
	"html/template"

	"quire.dev/pkg/plan"
)

// Functions are those that templates of other packages have in common with the ones here.
func Functions() template.FuncMap {
	return template.FuncMap{"size": sizeText, "date": dateText, "instant": instantText}
}

// Number is a whole number with commas between thousands.
func Number(n int64) string { return numberText(n) }

// AboutKey says in a few words what is counted under a quota key.
func AboutKey(key plan.QuotaKey) string { return aboutKey(key) }
