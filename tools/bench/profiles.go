package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/pprof/profile"

	"quire.dev/pkg/freeport"
)

// measureProfiles profiles gets and creations within quota, each for one turn of a separate server.
func (b *bench) measureProfiles(ctx context.Context) error {
	address, err := freeport.NextAddress()
	if err != nil {
		return err
	}
	s, err := b.startServer(ctx, "profiles", "QUIRE_OPS_LISTEN="+address)
	if err != nil {
		return err
	}
	r := &rated{bench: b, server: s}
	if r.quota, err = s.account(ctx, "admin"); err != nil {
		return err
	}
	if r.id, err = s.paste(ctx, r.quota); err != nil {
		return err
	}
	for _, kind := range kinds() {
		key, l := r.load(kind)
		if _, err := s.turn(ctx, r.quota, key, l, b.connections[0], warmUp); err != nil {
			return err
		}
		turn := make(chan error, 1)
		go func() {
			_, err := s.turn(ctx, r.quota, key, l, b.connections[0], b.duration+time.Second)
			turn <- err
		}()
		p, err := fetchProfile(ctx, address, b.duration)
		if err := errors.Join(err, <-turn); err != nil {
			return fmt.Errorf("profile of %s: %w", kind, err)
		}
		b.profiles[kind] = p
	}
	return s.check(ctx)
}

// writeProfiles writes a profile for each kind of request, and quire.pgo with all of them for `go build -pgo`. They name no
// file of this machine.
func writeProfiles(folder string, profiles map[string]*profile.Profile) error {
	files := map[string]*profile.Profile{}
	var all []*profile.Profile
	for _, kind := range slices.Sorted(maps.Keys(profiles)) {
		files["cpu-"+kind+".pprof"] = profiles[kind]
		all = append(all, profiles[kind])
	}
	var err error
	if files["quire.pgo"], err = profile.Merge(all); err != nil {
		return fmt.Errorf("merge the profiles: %w", err)
	}
	for name, p := range files {
		for _, m := range p.Mapping {
			m.File, m.BuildID = "quire", ""
		}
		var data bytes.Buffer
		if err := p.Write(&data); err != nil {
			return fmt.Errorf("encode the profile: %w", err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), data.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func fetchProfile(ctx context.Context, address string, duration time.Duration) (*profile.Profile, error) {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address, max(1, int(duration.Seconds())))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return profile.Parse(response.Body)
}
