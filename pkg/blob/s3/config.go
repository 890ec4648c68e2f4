package s3

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Config describes the bucket and its use. Zero fields take their defaults; URL has none.
type Config struct {
	// URL is http(s)://key:secret@host:port/bucket?region=…; the default region is us-east-1. Without key:secret@ the
	// credentials come from the environment (AWS_ACCESS_KEY_ID, MINIO_ROOT_USER and so on), the file ~/.aws/credentials or
	// AWS_SHARED_CREDENTIALS_FILE, or the IAM role of the machine or pod, in this order. Temporary credentials are renewed.
	URL string
	// Timeout bounds every call to the server, for each part of a large blob, and how long a read may wait for bytes. Default
	// 30 s.
	Timeout time.Duration
	// Versioned accepts a versioned bucket, for blobs that may remain after their deletion.
	Versioned bool
	// Uploads bounds the parts sent at a time. More of them wait. Default 16.
	Uploads int
}

const (
	defaultTimeout = 30 * time.Second
	defaultUploads = 16
	defaultRegion  = "us-east-1"
)

func (c Config) withDefaults() Config {
	if c.Timeout <= 0 {
		c.Timeout = defaultTimeout
	}
	if c.Uploads <= 0 {
		c.Uploads = defaultUploads
	}
	return c
}

type location struct {
	endpoint, key, secret, bucket, region string
	secure                                bool
}

// parseURL never wraps the error of url.Parse, which would show the secret.
func parseURL(raw string) (location, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return location{}, errors.New("the URL of the blob bucket is malformed; escape special characters of its secret (%2F for a slash)")
	}
	secret, _ := u.User.Password()
	at := location{
		endpoint: u.Host,
		key:      u.User.Username(),
		secret:   secret,
		bucket:   strings.Trim(u.Path, "/"),
		region:   u.Query().Get("region"),
		secure:   u.Scheme == "https",
	}
	if at.region == "" {
		at.region = defaultRegion
	}
	return at, errors.Join(
		unless(u.Scheme == "http" || at.secure, "scheme %q is neither http nor https", u.Scheme),
		unless(at.endpoint != "", "host is missing"),
		unless(u.User == nil || at.key != "" && at.secret != "", "key:secret@ has no key or no secret; leave all of it out to use the environment's or a role's"),
		// Names allowed by S3, without dots, which TLS certificates don't cover.
		unless(regexp.MustCompile(`^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$`).MatchString(at.bucket),
			"bucket %q is not 3 to 63 characters of [a-z0-9-]", at.bucket),
		onlyRegion(u.Query()),
	)
}

// credentials come from the URL, or else from the environment, a file or a role.
func (at location) credentials() *credentials.Credentials {
	if at.key != "" {
		return credentials.NewStaticV4(at.key, at.secret, "")
	}
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.EnvMinio{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
	})
}

func onlyRegion(query url.Values) error {
	for name := range query {
		if name != "region" {
			return fmt.Errorf("the URL of the blob bucket: unknown parameter %q, only region is supported", name)
		}
	}
	return nil
}

func unless(good bool, format string, args ...any) error {
	if good {
		return nil
	}
	return fmt.Errorf("the URL of the blob bucket: "+format, args...)
}
