package config_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/config"
)

// read reads one setting as a value of a kind, with a default that no test sets.
func read(r *config.Reader, kind, name string) any {
	switch kind {
	case "text":
		return as(r, name, "default", config.Text)
	case "choice":
		return as(r, name, "json", func(v *string) config.Value { return config.Choice(v, "json", "text") })
	case "level":
		return as(r, name, "info", config.Level)
	case "int":
		return as(r, name, "3", func(v *int) config.Value { return config.Int(v, 1, 16) })
	case "any int":
		return as(r, name, "3", func(v *int) config.Value { return config.Int(v, math.MinInt, math.MaxInt) })
	case "ints":
		return fmt.Sprint(as(r, name, "3", func(v *[]int) config.Value { return config.Ints(v, 15) }))
	case "bool":
		return as(r, name, "true", config.Bool)
	case "duration":
		return as(r, name, "1s", func(v *time.Duration) config.Value { return config.Duration(v, "-3650d", "3650d") })
	case "bytes":
		return as(r, name, "7", func(v *int64) config.Value { return config.Bytes(v, "0", "1TiB") })
	case "address":
		return as(r, name, "127.0.0.1:8080", config.Address)
	case "networks":
		return fmt.Sprint(as(r, name, "", config.Networks))
	case "url":
		return as(r, name, "", func(v *string) config.Value { return config.URL(v, "nats", "tls", "mongodb", "http") })
	case "secret":
		return as(r, name, "", func(v *config.Secret) config.Value { return config.SecretText(v, 8) }).Reveal()
	}
	panic("no kind " + kind)
}

func as[T any](r *config.Reader, name, fallback string, kind func(*T) config.Value) (value T) {
	r.Read(name, fallback, kind(&value))
	return value
}

func TestASettingIsReadAsWritten(t *testing.T) {
	networks := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::1/128")}
	tests := []struct {
		kind, value string
		want        any
	}{
		{"text", "any text", "any text"},
		{"choice", "text", "text"},
		{"level", "debug", slog.LevelDebug},
		{"level", "error", slog.LevelError},
		{"int", "16", 16},
		{"int", " 1 ", 1},
		{"any int", "-5", -5},
		{"ints", "0-2, 7,1", "[0 1 2 7]"},
		{"ints", "15", "[15]"},
		{"bool", "false", false},
		{"bool", "0", false},
		{"duration", "1h30m", 90 * time.Minute},
		{"duration", "-5s", -5 * time.Second},
		{"duration", "7d", 7 * 24 * time.Hour},
		{"bytes", "0", int64(0)},
		{"bytes", "64KiB", int64(64 << 10)},
		{"bytes", "4MB", int64(4 << 20)},
		{"bytes", "4 M", int64(4 << 20)},
		{"bytes", "2G", int64(2 << 30)},
		{"address", ":0", ":0"},
		{"address", "[::1]:8080", "[::1]:8080"},
		{"address", "nats.example.org:65535", "nats.example.org:65535"},
		{"networks", "10.0.0.0/8, fd00::1", fmt.Sprint(networks)},
		{"url", "nats://user:pass@host:4222", "nats://user:pass@host:4222"},
		{"url", "nats://a:4222,nats://b:4222", "nats://a:4222,nats://b:4222"},
		{"url", "mongodb://u:p@a:27017,b:27017,c/db?replicaSet=rs", "mongodb://u:p@a:27017,b:27017,c/db?replicaSet=rs"},
		{"url", "http://k:s@[::1]:9000/bucket?region=x", "http://k:s@[::1]:9000/bucket?region=x"},
		{"secret", "12345678", "12345678"},
	}
	for _, test := range tests {
		r := config.New([]string{"QUIRE_X=" + test.value})
		if got := read(r, test.kind, "QUIRE_X"); got != test.want {
			t.Errorf("%s of %q is %v, want %v", test.kind, test.value, got, test.want)
		}
		if err := r.Err(); err != nil {
			t.Errorf("%s of %q: %v", test.kind, test.value, err)
		}
	}
}

func TestASettingThatIsUnsetOrEmptyHasItsDefault(t *testing.T) {
	want := map[string]any{
		"text": "default", "choice": "json", "level": slog.LevelInfo, "int": 3, "any int": 3, "ints": "[3]", "bool": true, "duration": time.Second,
		"bytes": int64(7), "address": "127.0.0.1:8080", "networks": "[]", "url": "", "secret": "",
	}
	for _, environ := range [][]string{nil, {"QUIRE_X="}, {"QUIRE_X= "}} {
		r := config.New(environ)
		for kind, want := range want {
			if got := read(r, kind, "QUIRE_X"); got != want {
				t.Errorf("%s in %q is %v, want %v", kind, environ, got, want)
			}
		}
		if err := r.Err(); err != nil {
			t.Errorf("%q: %v", environ, err)
		}
	}
}

func TestAWrongSettingIsNamedWithItsValueAndWhatIsAllowed(t *testing.T) {
	tests := []struct{ kind, value, allowed string }{
		{"choice", "xml", "one of json, text"},
		{"level", "loud", "one of debug, info, warn, error"},
		{"level", "INFO", "one of debug, info, warn, error"},
		{"int", "17", "a whole number from 1 to 16"},
		{"int", "0", "a whole number from 1 to 16"},
		{"int", "four", "a whole number from 1 to 16"},
		{"any int", "1.5", "a whole number"},
		{"any int", "99999999999999999999", "a whole number"},
		{"ints", "3-16", "whole numbers from 0 to 15"},
		{"ints", "0-99999999999", "whole numbers from 0 to 15"},
		{"ints", "2-1", "whole numbers"},
		{"ints", "-1", "whole numbers"},
		{"ints", "1,", "whole numbers"},
		{"bool", "yes", "true, false, 1 or 0"},
		{"duration", "7", "a duration"},
		{"duration", "3651d", "from -3650d to 3650d"},
		{"duration", "d", "a duration"},
		{"duration", fmt.Sprintf("%dd", math.MaxInt64), "a duration"},
		{"duration", fmt.Sprintf("%dd", math.MinInt64), "a duration"},
		{"bytes", "MiB", "a number of bytes"},
		{"bytes", "-1", "a number of bytes"},
		{"bytes", "2TiB", "from 0 to 1TiB"},
		{"bytes", "1.5G", "a number of bytes"},
		{"bytes", "9999999999G", "a number of bytes"},
		{"address", "8080", "an address"},
		{"address", "host:65536", "an address"},
		{"address", "host:http", "an address"},
		{"address", "http://host:80", "an address"},
		{"networks", "10.0.0.0/33", "networks"},
		{"networks", "10.0.0.1/8", "networks"},
		{"networks", "10.0.0.0/8,", "networks"},
		{"networks", "localhost", "networks"},
		{"url", "host:4222", "nats:// or tls:// or mongodb:// or http://"},
		{"url", "ftp://host", "nats:// or tls://"},
		{"url", "nats://", "nats://"},
		{"url", "nats:///x", "nats://"},
		{"url", "http://host:port", "nats://"},
		{"url", "nats://a b", "nats://"},
	}
	for _, test := range tests {
		r := config.New([]string{"QUIRE_X=" + test.value})
		read(r, test.kind, "QUIRE_X")
		err := r.Err()
		if err == nil {
			t.Errorf("%s takes %q", test.kind, test.value)
			continue
		}
		for _, part := range []string{"QUIRE_X=", fmt.Sprintf("%q", test.value), test.allowed} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s of %q: %q does not say %q", test.kind, test.value, err, part)
			}
		}
	}
}

func TestAllFaultsAreInOneMessage(t *testing.T) {
	r := config.New([]string{"QUIRE_A=x", "QUIRE_B=y", "QUIRE_C=1", "QUIRE_D=z", "HOME=/root", "QUIRE_DEV=0"})
	read(r, "int", "QUIRE_A")
	read(r, "bool", "QUIRE_B")
	read(r, "any int", "QUIRE_C")
	read(r, "bool", "QUIRE_DEV")
	r.Reject("QUIRE_DEV", "1 where QUIRE_CLOCK_OFFSET is set")
	r.Reject("QUIRE_NEEDED", "a URL")
	err := r.Err()
	if err == nil {
		t.Fatal("no fault was found")
	}
	want := []string{
		"5 invalid settings:",
		`QUIRE_A="x": it must be a whole number from 1 to 16`,
		`QUIRE_B="y": it must be true, false, 1 or 0`,
		`QUIRE_DEV="0": it must be 1 where QUIRE_CLOCK_OFFSET is set`,
		`QUIRE_NEEDED is not set: it must be a URL`,
		`QUIRE_D is not a setting`,
	}
	if got := strings.Split(err.Error(), "\n"); !slices.Equal(got, want) {
		t.Errorf("the message is\n%s\nwant\n%s", err, strings.Join(want, "\n"))
	}
}

func TestATypoIsAFaultWithASuggestion(t *testing.T) {
	check := func(environ ...string) error {
		r := config.New(environ)
		read(r, "text", "QUIRE_LISTEN")
		read(r, "text", "QUIRE_NATS_URL")
		r.Known("QUIRE_PARTITIONS")
		return r.Err()
	}
	tests := map[string]string{
		"QUIRE_LISTN=:1":     "did you mean QUIRE_LISTEN?",
		"QUIRE_NATS_ULR=x":   "did you mean QUIRE_NATS_URL?",
		"QUIRE_PARTITION=2":  "did you mean QUIRE_PARTITIONS?",
		"QUIRE_WHATEVER=x":   "QUIRE_WHATEVER is not a setting",
		"QUIRE_LISTN=":       "did you mean QUIRE_LISTEN?",
		"QUIRE_EDGE_PORT=80": "QUIRE_EDGE_PORT is not a setting",
	}
	for variable, want := range tests {
		if err := check(variable); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", variable, err, want)
		}
	}
	if err := check("QUIRE_WHATEVER=x"); strings.Contains(err.Error(), "did you mean") {
		t.Errorf("something far off is suggested: %v", err)
	}
	if err := check("QUIRE_PARTITIONS=x", "QUIREX=1", "LISTEN=1"); err != nil {
		t.Errorf("known and foreign variables: %v", err)
	}
}

// TestADefaultThatIsNotAllowedPanics: it is a mistake in the program, which any of its tests that reads settings finds.
func TestADefaultThatIsNotAllowedPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("it is taken")
		}
	}()
	var v int
	config.New(nil).Read("QUIRE_X", "17", config.Int(&v, 1, 16))
}

func TestVariablesThatKubernetesAddsAreNoTypos(t *testing.T) {
	r := config.New([]string{
		"QUIRE_EDGE_SERVICE_HOST=10.1.2.3", "QUIRE_EDGE_SERVICE_PORT=80", "QUIRE_EDGE_SERVICE_PORT_HTTP=80",
		"QUIRE_EDGE_PORT=tcp://10.1.2.3:80", "QUIRE_EDGE_PORT_80_TCP_ADDR=10.1.2.3",
	})
	if err := r.Err(); err != nil {
		t.Error(err)
	}
}

func TestNoFaultShowsASecret(t *testing.T) {
	const secret = "hunter2"
	r := config.New([]string{
		"QUIRE_SECRET=" + secret, "QUIRE_ADMIN_TOKEN=" + secret, "QUIRE_S3_URL=ftp://key:" + secret + "@host/b",
		"QUIRE_NATS_URL=user:" + secret + "@host:4222", "QUIRE_MONGO_URL=mongo://u:a/" + secret + "@b@host",
	})
	read(r, "secret", "QUIRE_SECRET")
	r.Reject("QUIRE_ADMIN_TOKEN", "longer")
	read(r, "url", "QUIRE_S3_URL")
	read(r, "url", "QUIRE_NATS_URL")
	read(r, "url", "QUIRE_MONGO_URL")
	err := r.Err()
	if err == nil {
		t.Fatal("no fault was found")
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("a secret is shown: %v", err)
	}
	for _, name := range []string{"QUIRE_SECRET", "QUIRE_ADMIN_TOKEN", "QUIRE_S3_URL", "QUIRE_NATS_URL", "QUIRE_MONGO_URL"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
}

func TestOnlyRevealShowsASecret(t *testing.T) {
	secret := config.Secret("hunter2")
	holder := struct{ Secret config.Secret }{secret}
	encoded, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("started", "value", secret, "holder", holder)
	shown := []string{
		string(encoded), log.String(), fmt.Sprint(secret), fmt.Sprintf("%s %q %v %+v %#v %x %d", secret, secret, secret, holder, holder, secret, secret),
	}
	for _, text := range shown {
		if strings.Contains(text, "hunter2") || strings.Contains(text, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("the secret is shown: %s", text)
		}
	}
	if secret.Reveal() != "hunter2" {
		t.Error("reveal does not give the secret")
	}
}

func TestRedactHidesCredentialsAndLeavesTheRest(t *testing.T) {
	tests := map[string]string{
		"":                         "",
		"plain text":               "plain text",
		"mail a@example.org":       "mail a@example.org",
		"http://host:80/path?x=1":  "http://host:80/path?x=1",
		"http://key:secret@host/b": "http://***@host/b",
		"nats://token@host:4222":   "nats://***@host:4222",
		"postgres://u:p@a:5432,b/d?sslpassword=s":    "postgres://***@a:5432,b/d?sslpassword=***",
		"http://key:se/c@ret@host/b":                 "http://***@host/b",
		"nats://u:p@a:1,nats://u:p@b:2":              "nats://***@a:1,nats://***@b:2",
		`dial "http://k:s@h/x": refused by a@b`:      `dial "http://***@h/x": refused by a@b`,
		"http://h/f?id=1&X-Amz-Signature=abc&p=2":    "http://h/f?id=1&X-Amz-Signature=***&p=2",
		"mongodb://h/?authSource=x&password=y first": "mongodb://h/?authSource=x&password=*** first",
	}
	for text, want := range tests {
		if got := config.Redact(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestNamesOfSecretsAreTold(t *testing.T) {
	secret := []string{
		"token", "adminToken", "X-Manage-Token", "QUIRE_SECRET", "password", "key", "Key", "apiKey", "x-api-key", "api_key",
		"apikey", "Authorization", "Set-Cookie", "access_key", "secretKey", "devKey",
	}
	for _, name := range secret {
		if !config.IsSecretName(name) {
			t.Errorf("%q is not taken for a secret", name)
		}
	}
	plain := []string{"", "quotaKey", "quota_key", "keyPrefix", "keyVersion", "tokens", "monkey", "url", "idempotencyKey", "author", "keys"}
	for _, name := range plain {
		if config.IsSecretName(name) {
			t.Errorf("%q is taken for a secret", name)
		}
	}
}

func TestSecretsAreAListOfLongOnes(t *testing.T) {
	for text, want := range map[string]int{"0123456789abcdef": 1, "0123456789abcdef, fedcba9876543210": 2, "0123456789abcdef,short": 0, "0123456789abcdef,": 0} {
		var got config.Secrets
		r := config.New([]string{"QUIRE_SECRET_PREVIOUS=" + text})
		r.Read("QUIRE_SECRET_PREVIOUS", "", config.SecretTexts(&got, 16))
		err := r.Err()
		if (err == nil) != (want > 0) || len(got.Bytes()) != want {
			t.Errorf("%q: %d secrets, %v", text, len(got), err)
		}
		if err != nil && strings.Contains(err.Error(), text) {
			t.Errorf("the fault shows the secret: %v", err)
		}
	}
}
