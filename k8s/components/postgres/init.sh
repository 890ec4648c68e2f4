#!/bin/sh
# Creates the services' users of PostgreSQL 15 or newer, each with its own schema and no other right, and with
# POSTGRES_BACKUP_PASSWORD a user that only reads, for backups. It may run again, and then sets the passwords. PGHOST, PGPORT, PGDATABASE, PGUSER and PGPASSWORD name the server and an administrator who may create
# roles; POSTGRES_BILLING_PASSWORD and so on are the services' passwords.
set -eu
psql -X -q -v ON_ERROR_STOP=1 <<'SQL'
SELECT format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database()) \gexec
SQL
for service in billing paste lite file; do
  SERVICE_PASSWORD=$(printenv "POSTGRES_$(echo $service | tr a-z A-Z)_PASSWORD")
  export SERVICE_PASSWORD
  psql -X -q -v ON_ERROR_STOP=1 -v role="quire_$service" <<'SQL'
\getenv password SERVICE_PASSWORD
SELECT format('CREATE ROLE %I LOGIN', :'role') WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'role') \gexec
ALTER ROLE :"role" PASSWORD :'password';
SELECT format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), :'role') \gexec
SELECT format('GRANT %I TO CURRENT_USER', :'role') WHERE NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) \gexec
SELECT format('CREATE SCHEMA %I AUTHORIZATION %I', :'role', :'role') WHERE to_regnamespace(:'role') IS NULL \gexec
SQL
done
if [ -n "${POSTGRES_BACKUP_PASSWORD:-}" ]; then
  psql -X -q -v ON_ERROR_STOP=1 <<'SQL'
\getenv password POSTGRES_BACKUP_PASSWORD
SELECT 'CREATE ROLE quire_backup LOGIN' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'quire_backup') \gexec
ALTER ROLE quire_backup PASSWORD :'password';
SELECT format('GRANT CONNECT ON DATABASE %I TO quire_backup', current_database()) \gexec
SQL
  for service in billing paste lite file; do
    psql -X -q -v ON_ERROR_STOP=1 -v role="quire_$service" <<'SQL'
SET ROLE :"role";
GRANT USAGE ON SCHEMA :"role" TO quire_backup;
GRANT SELECT ON ALL TABLES IN SCHEMA :"role" TO quire_backup;
ALTER DEFAULT PRIVILEGES IN SCHEMA :"role" GRANT SELECT ON TABLES TO quire_backup;
SQL
  done
fi
