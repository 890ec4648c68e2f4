package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"quire.dev/deploy/natsconf"
)

// The stores have the same names in Compose and in a namespace of Kubernetes.
const (
	postgresHost = "postgres:5432"
	mongoHosts   = "mongodb-0.mongodb,mongodb-1.mongodb,mongodb-2.mongodb"
	bucketHost   = "minio:9000"
	bucket       = "quire"
)

func natsHosts() []string { return []string{"nats-0.nats", "nats-1.nats", "nats-2.nats"} }

// password has only letters and digits, so that a URL can hold it unescaped.
func password() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// generate returns the content of each file by its name, for services with the read models in store.
func generate(store string) (map[string][]byte, error) {
	files := map[string][]byte{}
	put := func(name, format string, args ...any) { files[name] = fmt.Appendf(nil, format, args...) }

	nats := map[string]string{}
	var hashes strings.Builder
	users := append([]string{"sys"}, natsconf.Others()...)
	for _, service := range natsconf.Services() {
		users = append(users, natsconf.Users(service)...)
	}
	for _, user := range users {
		nats[user] = password()
		hash, err := bcrypt.GenerateFromPassword([]byte(nats[user]), bcrypt.DefaultCost)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&hashes, "%s_password: %q\n", user, hash)
	}
	put("nats/passwords.conf", "%s", hashes.String())
	put("nats/sys-password", "%s", nats["sys"])
	put("nats/operator-password", "%s", nats[natsconf.Operator])
	put("nats/backup-password", "%s", nats[natsconf.Backup])
	if err := certificates(files); err != nil {
		return nil, err
	}

	adminToken := password()
	minio := fmt.Sprintf("MINIO_ROOT_USER=quire-root\nMINIO_ROOT_PASSWORD=%s\nBUCKET=%s\n", password(), bucket)
	put("mongodb/keyfile", "%s", password()+password())
	mongo := fmt.Sprintf("MONGO_ROOT_PASSWORD=%s\n", password())
	postgres := fmt.Sprintf("POSTGRES_PASSWORD=%s\n", password())
	shared := password()
	for _, service := range natsconf.Services() {
		var env strings.Builder
		fmt.Fprintf(&env, "QUIRE_NATS_URL=%s\n", natsURL(service, nats[service]))
		s3 := password()
		minio += fmt.Sprintf("S3_%s_PASSWORD=%s\n", strings.ToUpper(service), s3)
		fmt.Fprintf(&env, "QUIRE_S3_URL=http://%s:%s@%s/%s\n", service, s3, bucketHost, bucket)
		switch service {
		case "edge":
			fmt.Fprintf(&env, "QUIRE_SECRET=%s\nQUIRE_ADMIN_TOKEN=%s\n", shared, adminToken)
		case "archive": // has no read model
			fmt.Fprintf(&env, "QUIRE_RETENTION_NATS_URL=%s\n", natsURL(natsconf.Retention, nats[natsconf.Retention]))
		default:
			if service == "billing" {
				fmt.Fprintf(&env, "QUIRE_SECRET=%s\n", shared)
			}
			pass := password()
			mongo += fmt.Sprintf("MONGO_%s_PASSWORD=%s\n", strings.ToUpper(service), pass)
			postgres += fmt.Sprintf("POSTGRES_%s_PASSWORD=%s\n", strings.ToUpper(service), pass)
			if store == "mongo" {
				fmt.Fprintf(&env, "QUIRE_MONGO_URL=mongodb://%s:%s@%s/?replicaSet=quire&authSource=admin\n", service, pass, mongoHosts)
			} else {
				fmt.Fprintf(&env, "QUIRE_POSTGRES_URL=postgres://quire_%s:%s@%s/quire?sslmode=disable\n", service, pass, postgresHost)
			}
		}
		put(service+".env", "%s", env.String())
	}
	put("checkpoint-key.env", "QUIRE_CHECKPOINT_KEY=%s\n", password())
	put("mongodb.env", "%s", mongo)
	put("postgres.env", "%s", postgres)
	put("minio.env", "%s", minio)
	put("provision.env", "QUIRE_NATS_URL=%s\n", natsURL(natsconf.Provision, nats[natsconf.Provision]))
	return files, nil
}

func natsURL(user, pass string) string {
	var urls []string
	for _, host := range natsHosts() {
		urls = append(urls, fmt.Sprintf("tls://%s:%s@%s:4222", user, pass, host))
	}
	return strings.Join(urls, ",")
}
