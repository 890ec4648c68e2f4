package input

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"
	"unicode/utf8"

	"quire.dev/services/edge/internal/httpin/httperr"
)

const (
	maxFormParts  = 16
	maxPartFields = 16 // in the header of a part
	maxPartHeader = 64 << 10
)

// Form parses a multipart/form-data body (RFC 7578). The body must end with its closing boundary, since a truncated one may
// have lost any part.
type Form struct {
	reader *multipart.Reader
	body   *headerLimit
	part   *multipart.Part // the current one
	parts  int
}

// NewForm parses body. The boundary must conform to RFC 2046, 5.1.1.
func NewForm(body io.Reader, boundary string) (*Form, error) {
	if err := CheckBoundary(boundary); err != nil {
		return nil, err
	}
	// The reader returns io.EOF after a closing boundary, which may lack its line end, but also for some truncated bodies.
	ended := io.MultiReader(body, strings.NewReader("\r\n"), cutOff{})
	limited := &headerLimit{Reader: ended}
	return &Form{reader: multipart.NewReader(limited, boundary), body: limited}, nil
}

// CheckBoundary rejects a malformed boundary.
func CheckBoundary(boundary string) error {
	if boundary == "" || len(boundary) > 70 || boundary[len(boundary)-1] == ' ' || strings.ContainsFunc(boundary, notOfBoundary) {
		return httperr.Malformed("The multipart body has no valid boundary.")
	}
	return nil
}

func notOfBoundary(r rune) bool {
	return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("'()+_,-./:=? ", r)
}

// Next returns the next part with its name and, for a file, the file's base name. It returns io.EOF after the closing
// boundary.
func (f *Form) Next() (part *multipart.Part, name, file string, err error) {
	if f.part != nil {
		_ = f.part.Close() // what remains is body; the next read fails as this does
	}
	f.body.left = maxPartHeader
	part, err = f.reader.NextRawPart()
	f.body.left = -1
	if errors.Is(err, errPartHeader) {
		return nil, "", "", httperr.Malformed("The header of a part of the multipart body is larger than %d bytes.", maxPartHeader)
	} else if err != nil {
		return nil, "", "", err
	}
	f.part = part
	if f.parts++; f.parts > maxFormParts {
		return nil, "", "", httperr.Malformed("The multipart body has more than %d parts.", maxFormParts)
	}
	fields := 0
	for _, values := range part.Header {
		fields += len(values)
	}
	disposition := part.Header.Values("Content-Disposition")
	if fields > maxPartFields || len(disposition) != 1 {
		return nil, "", "", httperr.Malformed("A part of the multipart body must have one Content-Disposition, and at most %d header fields.", maxPartFields)
	}
	kind, params, err := mime.ParseMediaType(disposition[0])
	name, named := params["name"]
	if err != nil || kind != "form-data" || !named {
		return nil, "", "", httperr.Malformed("The Content-Disposition of a part must be form-data with one name.")
	}
	file, sent := params["filename"]
	if !sent && strings.Contains(strings.ToLower(disposition[0]), "filename*") {
		return nil, "", "", httperr.InvalidField("filename*", "must be UTF-8, like UTF-8''na%C3%AFve.txt")
	}
	if err := CheckFileName("filename", file); err != nil {
		return nil, "", "", err
	}
	return part, name, file[strings.LastIndexAny(file, `/\`)+1:], nil
}

// CheckFileName rejects a file name that can't be shown reliably: not UTF-8, or with control characters.
func CheckFileName(field, name string) error {
	switch {
	case !utf8.ValidString(name):
		return httperr.InvalidField(field, "must be a file name in UTF-8: it has invalid bytes, as in Latin-1")
	case HasControl(name):
		return httperr.InvalidField(field, "must not contain control characters")
	}
	return nil
}

// FormEnded reports whether Next has read the closing boundary.
func FormEnded(err error) bool { return errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) }

// headerLimit stops reading after about left bytes, up to a buffer more; -1: no limit.
type headerLimit struct {
	io.Reader
	left int
}

var errPartHeader = errors.New("the header of a part is too large")

func (l *headerLimit) Read(to []byte) (int, error) {
	if l.left == 0 {
		return 0, errPartHeader
	}
	n, err := l.Reader.Read(to)
	if l.left > 0 {
		l.left = max(0, l.left-n)
	}
	return n, err
}

type cutOff struct{}

func (cutOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
