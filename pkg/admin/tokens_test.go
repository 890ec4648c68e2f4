package admin

import (
	"strings"
	"testing"
)

func TestAdminTokensHaveNames(t *testing.T) {
	long := strings.Repeat("x", MinTokenBytes)
	for _, tc := range []struct {
		text  string
		names []string // nil: refused
	}{
		{long, []string{DefaultName}},
		{"ann:" + long, []string{"ann"}},
		{"ann:" + long + ", bob.b-2_:y" + long, []string{"ann", "bob.b-2_"}},
		{long[1:], nil},
		{"ann:" + long[1:], nil},
		{"ann:" + long + ",", nil},
		{"ann:" + long + "," + long, nil},
		{"ann:" + long + ",bob:" + long, nil},
		{"ann:" + long + ",ann:y" + long, nil},
		{":" + long, nil},
		{"a n:" + long, nil},
		{"ann:" + long + ":z", nil},
		{"ann: " + long, nil},
		{strings.Repeat("a", 33) + ":" + long, nil},
		{strings.Repeat("a", 32) + ":" + long, []string{strings.Repeat("a", 32)}},
	} {
		tokens, err := ParseTokens(tc.text)
		if err != nil && strings.Contains(err.Error(), long[1:]) {
			t.Errorf("the error shows the token: %v", err)
		}
		if len(tokens) != len(tc.names) || (err == nil) != (tc.names != nil) {
			t.Errorf("%s: %v, %v", tc.text, tokens, err)
			continue
		}
		for i, name := range tc.names {
			if tokens[i].Name != name || tokens.Find(tokens[i].Secret) != name {
				t.Errorf("%s: token %d is of %s", tc.text, i, tokens[i].Name)
			}
		}
		if name := tokens.Find("y"); name != "" {
			t.Errorf("%s: a wrong token is of %s", tc.text, name)
		}
	}
	if tokens, err := ParseTokens(""); err != nil || tokens != nil || tokens.First() != "" || tokens.Find("") != "" {
		t.Errorf("%v, %v", tokens, err)
	}
}
