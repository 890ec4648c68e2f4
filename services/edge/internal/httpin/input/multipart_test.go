package input

import (
	"io"
	"strings"
	"testing"
)

func formError(body string) error {
	form, err := NewForm(strings.NewReader(body), "b")
	for err == nil {
		var part io.Reader
		if part, _, _, err = form.Next(); err == nil {
			_, err = io.Copy(io.Discard, part)
		}
	}
	if FormEnded(err) {
		return nil
	}
	return err
}

func TestAFormEndsWithItsClosingBoundary(t *testing.T) {
	const part = "--b\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\nx\r\n"
	whole := part + part + "--b--"
	for _, end := range []string{"", "\r\n", " \r\n", "\r\nepilogue", "\r\n" + part} {
		if err := formError("preamble\r\n" + whole + end); err != nil {
			t.Errorf("%q behind the end: %v", end, err)
		}
	}
	for n := range len(whole) {
		if formError(whole[:n]) == nil {
			t.Errorf("%q is taken", whole[:n])
		}
	}
}

func TestThePartsOfAFormAreHeldToTheirForm(t *testing.T) {
	const plain = "Content-Disposition: form-data; name=f"
	for header, taken := range map[string]bool{
		plain: true, plain + "; filename=a.txt": true, plain + "; filename=\"n\u00e4.txt\"": true, plain + "; filename*=UTF-8''n%C3%A4.txt": true,
		plain + "; filename=\"n\xe4.txt\"": false, plain + "; filename*=ISO-8859-1''n%E4.txt": false, plain + "; filename*=UTF-8''n%E4.txt": false,
		plain + "\r\n" + plain: false, plain + "; name=g": false, "Content-Disposition: form-data": false, "Content-Disposition: attachment; name=f": false,
		"X: y": false, plain + strings.Repeat("\r\nX: y", 15): true, plain + strings.Repeat("\r\nX: y", 16): false,
	} {
		if err := formError("--b\r\n" + header + "\r\n\r\nx\r\n--b--\r\n"); (err == nil) != taken {
			t.Errorf("%q: %v", header, err)
		}
	}
	for size, taken := range map[int]bool{maxPartHeader - 8<<10: true, maxPartHeader + 8<<10: false, 8 << 20: false} { // about, by a buffer
		first := "--b\r\n" + plain + "\r\n\r\n" + strings.Repeat("x", 1<<20) + "\r\n"
		err := formError(first + "--b\r\nX: " + strings.Repeat("y", size) + "\r\n" + plain + "\r\n\r\nx\r\n--b--")
		if (err == nil) != taken {
			t.Errorf("a header of %d bytes: %v", size, err)
		}
	}
	part := "--b\r\n" + plain + "\r\n\r\nx\r\n"
	if err := formError(strings.Repeat(part, maxFormParts) + "--b--"); err != nil {
		t.Error(err)
	}
	if formError(strings.Repeat(part, maxFormParts+1)+"--b--") == nil {
		t.Error("one part too many is taken")
	}
	for boundary, valid := range map[string]bool{"": false, "a b": true, "a ": false, "a\"": false, "ä": false, strings.Repeat("b", 70): true, strings.Repeat("b", 71): false} {
		if _, err := NewForm(strings.NewReader(""), boundary); (err == nil) != valid {
			t.Errorf("boundary %q: %v", boundary, err)
		}
	}
}

func FuzzForm(f *testing.F) {
	f.Add("--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a\"\r\n\r\nx\r\n--b--")
	f.Add("preamble\r\n--b \t\r\n\r\n\r\n--b\n--b--\r\nepilogue")
	f.Fuzz(func(t *testing.T, body string) {
		if formError(body) == nil && !strings.Contains(body, "--b--") {
			t.Errorf("%q is taken without its closing boundary", body)
		}
	})
}
