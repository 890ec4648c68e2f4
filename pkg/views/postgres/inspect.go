package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"quire.dev/pkg/views"
)

// Server is what an operator may have to know of a server.
type Server struct {
	Version           string
	Now               time.Time // its clock
	Standby           bool      // it takes no writes
	SynchronousCommit string
	StandbyNames      string // synchronous_standby_names; empty: none
	Wide              bool   // the user may do more than a service needs
}

// Inspect asks a server about itself, and changes nothing. ErrOld if Quire does not run with it.
func Inspect(ctx context.Context, url string) (s Server, err error) {
	settings, err := poolSettings(Config{URL: url})
	if err != nil {
		return s, fmt.Errorf("%w: connect to PostgreSQL: %w", views.ErrInvalid, err)
	}
	conn, err := pgx.ConnectConfig(ctx, settings.ConnConfig)
	if err != nil {
		return s, failure(ctx, "connect to PostgreSQL", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var number int
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'), clock_timestamp(), pg_is_in_recovery(),
		current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
		(SELECT rolsuper OR rolcreatedb OR rolcreaterole FROM pg_roles WHERE rolname = current_user)`).
		Scan(&number, &s.Version, &s.Now, &s.Standby, &s.SynchronousCommit, &s.StandbyNames, &s.Wide)
	if err != nil {
		return s, failure(ctx, "ask PostgreSQL about itself", err)
	}
	return s, checkVersion(number, s.Version)
}
