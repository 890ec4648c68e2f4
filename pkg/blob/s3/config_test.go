package s3

import "testing"

func TestAURLNamesTheServerTheBucketAndTheRegion(t *testing.T) {
	got, err := parseURL("https://key:secret@s3.example.org/bucket?region=eu-west-1")
	want := location{
		endpoint: "s3.example.org", key: "key", secret: "secret", bucket: "bucket", region: "eu-west-1", secure: true,
	}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}
