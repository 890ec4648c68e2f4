package datafolder

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// version is the content of the file VERSION: the number of the format on the first line, then lines with a name and a value.
type version struct {
	format  int
	secret  string   // fingerprint of the secret
	streams []string // sorted
	welcome bool     // the key of the first account was shown
}

func (v version) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d\nsecret %s\n", v.format, v.secret)
	for _, s := range v.streams {
		fmt.Fprintf(&b, "stream %s\n", s)
	}
	if v.welcome {
		fmt.Fprintf(&b, "welcomed yes\n")
	}
	return b.Bytes()
}

func decodeVersion(data []byte) (version, error) {
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	format, err := strconv.Atoi(lines[0])
	if err != nil || format < 1 {
		return version{}, fmt.Errorf("%.40q is not a version number", lines[0])
	}
	v := version{format: format}
	if format > Format {
		return v, nil // only a newer quire can read the other lines
	}
	for _, line := range lines[1:] {
		word, value, _ := strings.Cut(line, " ")
		switch {
		case word == "secret" && value != "" && v.secret == "":
			v.secret = value
		case word == "stream" && value != "":
			v.streams = append(v.streams, value)
		case word == "welcomed" && value == "yes":
			v.welcome = true
		default:
			return version{}, fmt.Errorf("line %.60q is unknown", line)
		}
	}
	if v.secret == "" {
		return version{}, errors.New("the line of the secret is missing")
	}
	return v, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
