# `make` lists what there is. Everything is built without CGO.

GO      ?= go
# Tags of the clients, such as clients/go/v0.1.0, are on the same commits.
VERSION ?= $(shell git describe --tags --match='v[0-9]*' --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
BINARY  := bin/quire
# make check and make lint vet the code. go test alone would vet it too, and first analyse all dependencies: 50 s of CPU with a cold cache.
# In CI no result comes from the cache: go test does not see that files outside a test's module have changed, such as documents.
TEST    := $(GO) test -vet=off $(if $(CI),-count=1)
# Tests wait more than they compute: two packages for each core run at once.
ATONCE  := -p $(shell expr $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) \* 2)
# Where quire's CPU goes under load, for the compiler. `make profile` renews it; PGO=off builds faster and runs slower.
PGO     ?= services/standalone/quire.pgo

# The modules with Go written by hand: those of go.work, and those outside of it, which would change the versions that
# Quire is built from. fmt, vet, lint, vuln and tidy take MODULES="deploy tools/k8scheck" for some of them.
WORKSPACE := pkg docs verifier $(wildcard services/*) clients/go clients/cli tools/cluster tools/bench
ALONE     := deploy tools/ferretdb tools/k8scheck $(patsubst %/go.mod,%,$(wildcard tools/k8scheck/*/go.mod)) tools/release
MODULES   := $(WORKSPACE) $(ALONE)

MAKEFLAGS += --no-print-directory
export CGO_ENABLED := 0

# $(call each,name,command): runs the command in each of the modules.
define each
@for module in $(MODULES); do echo "$(1) $$module"; \
  (cd $$module && case " $(ALONE) " in *" $$module "*) export GOWORK=off ;; esac && $(2)) || exit 1; done
endef

# $(call need,command,Debian package[,test ||]): installs the package if the command is missing. It fails where that can't be done,
# unless the test passes.
define need
@command -v $(1) >/dev/null 2>&1 || { \
  echo "$(1) is missing: installing the Debian package $(2)"; \
  sudo=; [ "$$(id -u)" = 0 ] || sudo="sudo -n"; \
  { $$sudo apt-get update && $$sudo apt-get install -y --no-install-recommends $(2); } >/tmp/quire-apt.log 2>&1 \
    || $(3) { echo "could not install $(2) (see /tmp/quire-apt.log): install $(1) yourself, then try again" >&2; exit 1; }; }
endef

# Most tests use the chromium without windows, if it can be had: it takes half the time.
define browser
$(call need,chromium,chromium fonts-noto-core fonts-dejavu-core)
$(call need,chromium-headless-shell,chromium-headless-shell,true ||)
endef

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: $(BINARY)-build ## build quire and run it, with its data in ./data
	@exec $(BINARY)

.PHONY: $(BINARY)-build
$(BINARY)-build:
	@$(GO) build -trimpath -pgo=$(PGO) -ldflags "$(LDFLAGS)" -o $(BINARY) ./services/standalone/cmd/quire

.PHONY: build
build: $(BINARY)-build services-build ## build quire and the services into bin/
	@ls -lh bin

.PHONY: client
client: ## build the client's own program: quire paste, without the server
	@$(GO) build -trimpath -ldflags "$(LDFLAGS)" -o bin/client/quire ./clients/cli/cmd/quire
	@ls -lh bin/client/quire

PREFIX ?= /usr/local
INSTALLED := $(DESTDIR)$(PREFIX)

.PHONY: install
install: $(BINARY)-build ## install quire, its completions and manual pages (PREFIX=/usr/local, DESTDIR for packages)
	@install -d "$(INSTALLED)/bin" "$(INSTALLED)/share/man/man1" "$(INSTALLED)/share/bash-completion/completions" \
	  "$(INSTALLED)/share/zsh/site-functions" "$(INSTALLED)/share/fish/vendor_completions.d"
	@install -m 755 $(BINARY) "$(INSTALLED)/bin/quire"
	@$(BINARY) man "$(INSTALLED)/share/man/man1" >/dev/null
	@$(BINARY) completion bash >"$(INSTALLED)/share/bash-completion/completions/quire"
	@$(BINARY) completion zsh >"$(INSTALLED)/share/zsh/site-functions/_quire"
	@$(BINARY) completion fish >"$(INSTALLED)/share/fish/vendor_completions.d/quire.fish"
	@echo "installed $(INSTALLED)/bin/quire, its completions and manual pages"

# Releases: .goreleaser.yaml has what is in them.
GORELEASER := bin/goreleaser
bin/goreleaser bin/sbom: tools/release/go.mod $(wildcard tools/release/sbom/*.go)
	@echo "building $(notdir $@)"
	@cd tools/release && GOWORK=off $(GO) build -trimpath -o ../../$@ $(if $(filter %/sbom,$@),./sbom,github.com/goreleaser/goreleaser/v2)

# In a repository without a remote, goreleaser would take the commit and its time for unknown.
REMOTE := GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url GIT_CONFIG_VALUE_0=https://github.com/OWNER/quire

# Completions and manual pages of packages, the same for the same commit.
.PHONY: package-files
package-files: bin/sbom
	@rm -rf bin/package
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(MAKE) install DESTDIR=bin/package PREFIX=/usr >/dev/null
	@rm -r bin/package/usr/bin && find bin/package -exec touch -d @$$(git log -1 --format=%ct) {} +

.PHONY: release-snapshot
release-snapshot: $(GORELEASER) bin/sbom ## build a release into bin/dist without publishing it: archives, deb, rpm, SBOM, checksums, formula
	@$(if $(shell git remote),,$(REMOTE)) $(GORELEASER) release --snapshot --clean --skip=announce,publish

.PHONY: release
release: $(GORELEASER) bin/sbom ## publish the tag of HEAD (needs GITHUB_TOKEN)
	@tag=$$(git describe --tags --exact-match --match='v[0-9]*' 2>/dev/null) || { echo "tag HEAD first: see Releasing in CONTRIBUTING.md" >&2; exit 2; }; \
	  GORELEASER_CURRENT_TAG=$$tag $(GORELEASER) release --clean

.PHONY: owner
owner: ## name the owner of the published repository in all files: OWNER=name
	@test -n '$(OWNER)' || { echo "name the owner: make owner OWNER=name" >&2; exit 2; }
	@git grep -lzE 'github.com/OWNER/quire|owner: OWNER,' -- ':!Makefile' | xargs -0 sed -i -E 's,github.com/OWNER/quire,github.com/$(OWNER)/quire,g; s/owner: OWNER,/owner: $(OWNER),/g'

.PHONY: test-release
test-release: ## build a release and look into its packages (15 minutes the first time)
	$(call need,dpkg-deb,dpkg)
	$(call need,rpm,rpm)
	$(call need,jq,jq)
	$(call need,systemd-analyze,systemd,true ||)
	@PGO=off $(MAKE) release-snapshot
	@.ci/release_test

.PHONY: first-day
first-day: $(if $(BASE),bin/before) ## install the package in bin/dist, back up under load, lose everything, restore, upgrade, roll back (BASE=v0.1.0 upgrades from there)
	$(call need,dpkg-deb,dpkg)
	$(call need,ip,iproute2)
	$(call need,curl,curl)
	$(call need,jq,jq)
	@.ci/first_day $(if $(BASE),bin/before/quire)

.PHONY: services-build
services-build:
	@for main in $(wildcard services/*/cmd/*); do \
	  name=$$(basename $$main); [ $$name = quire ] || \
	  $(GO) build -trimpath -ldflags "$(LDFLAGS)" -o bin/quire-$$name ./$$main || exit 1; \
	done

# The stores of a cluster on one machine. Each has a module that pins its version. MinIO takes minutes the first time.
bin/nats-server: tools/cluster/go.mod
	@echo "building nats-server"
	@cd tools/cluster && GOWORK=off $(GO) build -trimpath -o ../../$@ github.com/nats-io/nats-server/v2
bin/ferretdb: $(wildcard tools/ferretdb/*)
	@echo "building ferretdb"
	@mkdir -p bin && tools/ferretdb/build.sh $@
bin/minio bin/mc: tools/minio/go.mod
	@echo "building $(notdir $@), which takes some minutes"
	@cd tools/minio && GOWORK=off $(GO) build -trimpath -o ../../$@ github.com/minio/$(notdir $@)

bin/stripe-mock: tools/stripemock/go.mod
	@echo "building stripe-mock"
	@cd tools/stripemock && GOWORK=off $(GO) build -trimpath -o ../../$@ github.com/stripe/stripe-mock

# What has the read models of a cluster: postgres, or mongo (FerretDB, unless QUIRE_MONGO_URL names a server).
STORE ?= postgres

.PHONY: postgres
postgres:
	$(call need,$(or $(lastword $(wildcard /usr/lib/postgresql/*/bin/postgres)),postgres),postgresql-15)

.PHONY: cluster-programs
cluster-programs: bin/nats-server $(if $(filter mongo,$(STORE)),bin/ferretdb,postgres) bin/minio bin/mc services-build

.PHONY: cluster
cluster: cluster-programs ## run a cluster of 16 processes on this machine, with its data in ./data/cluster (STORE=postgres|mongo, LISTEN=127.0.0.1:8080,127.0.0.1:8081)
	@$(GO) build -trimpath -o bin/quire-cluster ./tools/cluster/cmd/cluster
	@exec bin/quire-cluster -store $(STORE) $(if $(LISTEN),-listen '$(LISTEN)')

.PHONY: check
check: ## before a commit: format, vet and lint what changed, unit tests (2 minutes)
	@.ci/check

.PHONY: modules
modules:
	@printf '%s\n' $(MODULES)

.PHONY: vet
vet: ## compile everything and vet it
	$(call each,vet,$(GO) vet -tags cluster ./...)

# The packages whose tests take longest begin first.
LONGEST := ./services/standalone/scenario ./services/standalone ./services/billing

.PHONY: test
test: ## run all tests
	$(if $(CI),$(call need,node,nodejs npm))
	@.ci/steps_test
	$(TEST) $(ATONCE) -timeout 10m $(LONGEST) work
	@$(MAKE) test-plain

# Writes, reads and settlements, many at a time, after faults and over restarts.
PLAIN := TestConcurrent|TestIdempotencyOf|TestUpdateIsAMerge|TestVersionsAreListed|TestVisibility|TestBurn|TestLists|TestNoRequestIs|TestOnlySuccess|TestUsageByDay$$|TestACrossing|TestADeletion|TestAnAudit|TestExplain|TestAKillLoses|TestJournalServers

.PHONY: test-plain
test-plain: ## run scenario tests with one process whose services use NATS alone (a minute)
	$(TEST) -count=1 -timeout 5m -run '$(PLAIN)' ./services/standalone/scenario -args -without=all

.PHONY: drill
drill: ## run the commands of docs/refusals.md on damaged data, and print what is lost (RPO) and how long it takes (RTO)
	$(TEST) -count=1 -timeout 10m -run '^TestDrill' -v ./services/standalone

.PHONY: drill-cluster
drill-cluster: cluster-programs $(BINARY)-build ## run those for a cluster whose NATS volumes were all set back (2 minutes)
	$(TEST) -count=1 -timeout 5m -run '^TestDrill' -v ./tools/cluster -args -processes

# The npm tools of the browser's and the documents' tests, at the versions of the lock file.
e2e/node_modules: e2e/package-lock.json
	$(call need,npm,nodejs npm)
	@echo "installing e2e's npm packages"
	@cd e2e && npm ci --loglevel=error >/dev/null && touch node_modules

.PHONY: e2e
e2e: e2e/node_modules clients/ts/dist $(BINARY)-build ## try the pages in a browser (ONLY='xss file' for some files)
	$(browser)
	@$(GO) build -trimpath -o bin/quire-standin ./pkg/payments/stripe/stripetest/standin
	@cd e2e && node --test --test-concurrency=3 --test-reporter=spec $(foreach name,$(or $(ONLY),*),browser/$(name).test.mjs)

# The pages of accounts and admins, whose flows all edges of a cluster have to share.
CONSOLE := $(foreach name,admin billing console content requests,browser/$(name).test.mjs) cluster/edges.test.mjs

.PHONY: e2e-cluster
e2e-cluster: e2e/node_modules clients/ts/dist cluster-programs ## try the console in a browser, against a cluster with two edges (ONLY='billing' for some files)
	$(browser)
	@$(GO) build -trimpath -o bin/quire-cluster ./tools/cluster/cmd/cluster
	@cd e2e && node cluster.mjs $(if $(ONLY),$(foreach name,$(ONLY),$(patsubst e2e/%,%,$(wildcard e2e/browser/$(name).test.mjs e2e/cluster/$(name).test.mjs))),$(CONSOLE))

.PHONY: test-docs
test-docs: e2e/node_modules clients/ts/dist $(BINARY)-build ## check the documents: lint, generated clients, real curl, every snippet
	@.ci/install_test
	@e2e/describe.sh
	$(call need,curl,curl)
	$(TEST) -count=1 -timeout 5m -run TestCurl ./services/standalone/scenario -args -curl
	$(call need,jq,jq)
	$(call need,vim,vim)
	$(TEST) -count=1 -timeout 15m ./services/standalone/snippets -args -node_modules=$(CURDIR)/e2e/node_modules

clients/ts/node_modules clients/importers/node_modules verifier/node_modules: %/node_modules: %/package-lock.json
	$(call need,npm,nodejs npm)
	@echo "installing the npm packages of $*"
	@cd $* && npm ci --loglevel=error >/dev/null && touch node_modules

clients/ts/dist: clients/ts/node_modules clients/ts/package.json clients/ts/tsconfig.json $(wildcard clients/ts/src/*.ts)
	@cd clients/ts && npm run --silent build && touch dist

# The TypeScript client's part of the scenarios that all clients pass.
DRIVER := -driver="node clients/ts/driver.mjs"

.PHONY: test-clients
test-clients: e2e/node_modules clients/ts/dist clients/importers/node_modules $(BINARY)-build ## try the TypeScript client and its package, the key ring, the imports of Postman and Bruno
	$(browser)
	@cd clients/ts && npm test --silent
	$(call need,gnome-keyring-daemon,gnome-keyring)
	$(call need,dbus-daemon,dbus-daemon)
	$(call need,dbus-send,dbus-bin)
	$(TEST) -count=1 -timeout 5m -run TestALogInIsKept ./services/standalone/commandline -args -keyring
	$(TEST) -count=1 -timeout 10m -run TestEachLogicalCall/process ./services/standalone/scenario -args $(DRIVER)
	@cd clients/importers && npm test --silent

.PHONY: test-verifier
test-verifier: verifier/node_modules ## check the independent bill verifier: its types, its bundle, the vectors, and forged exports
	@cd verifier && npm run check --silent && node bundle.mjs --check && npm test --silent

.PHONY: test-cluster
test-cluster: cluster-programs $(BINARY)-build clients/ts/dist ## run the scenario tests, and a drill, against a cluster of 16 processes (16 minutes; STORE=postgres|mongo; SKIP='Limit|Example' leaves tests out)
	$(TEST) -count=1 -timeout 20m ./tools/cluster -args -processes
	$(TEST) -count=1 -timeout 30m $(if $(SKIP),-skip '$(SKIP)') ./services/standalone/scenario -args -processes=many -store=$(STORE) $(DRIVER)

.PHONY: test-stores
test-stores: postgres bin/ferretdb bin/minio bin/mc ## run the stores' tests against a PostgreSQL, a FerretDB and a MinIO (2 minutes)
	@$(GO) run ./tools/cluster/cmd/teststores
	$(TEST) -count=1 -timeout 5m -run TestBucket ./tools/cluster -args -processes

.PHONY: test-payments
test-payments: bin/stripe-mock ## hold the requests to Stripe, and our stand-in for it, to Stripe's own description of its API
	$(TEST) -count=1 -timeout 2m -run TestRequestsHaveTheShapes ./pkg/payments/stripe -args -stripe-mock=$(CURDIR)/bin/stripe-mock

# Packages whose goroutines share what they work on. The whole product under the race detector would take an hour.
RACE ?= ./services/billing $(addprefix ./pkg/,journal blob/disk document/... host installation lifecycle members replica rpc wait) \
  $(addprefix ./services/billing/internal/,partition projection webhooks) \
  $(addprefix ./services/edge/,. internal/bus internal/httpin internal/render)

.PHONY: race
race: ## run concurrent packages' unit tests with the race detector (needs a C compiler)
	CGO_ENABLED=1 $(TEST) -race -short $(ATONCE) -timeout 20m $(RACE)

.PHONY: chaos
chaos: ## kill and restart quire under load, many times (ROUNDS=25)
	$(TEST) -count=1 -timeout 60m -v -run 'TestCrash' ./services/standalone -args -crash.rounds=$(or $(ROUNDS),25)

.PHONY: attack
attack: ## kill quire while clients attack quotas, caps and credits, and compare every figure (RUNS=10, ROUNDS=9)
	$(TEST) -count=$(or $(RUNS),10) -timeout 60m -v -run TestMoneyUnderAttack ./services/standalone \
	  -args -attack.rounds=$(or $(ROUNDS),9) -attack.calls=3000

.PHONY: chaos-cluster
# It runs in its own network namespace, so that it needs no rights and leaves the machine's network alone. Each run draws
# the seed of its clients' choices and prints it; CHAOSFLAGS='-chaos.seed N' runs them again.
chaos-cluster: cluster-programs $(if $(findstring backup,$(or $(FAULTS),backup)),$(BINARY)-build) $(if $(BASE),bin/before) ## have each part of a cluster fail under load (STORE=postgres|mongo, FAULTS='kill|cut' for some, 20 minutes; FAULTS=backup loses everything and restores it; BASE=v0.1.0 upgrades from there, and back)
	$(call need,ip,iproute2)
	$(call need,strace,strace)
	@$(TEST) -c -o bin/chaos.test ./tools/cluster/chaos
	cd tools/cluster/chaos && unshare --map-root-user --net --mount sh -c 'mount -t tmpfs tmpfs /run && exec "$$0" "$$@"' \
	  $(CURDIR)/bin/chaos.test -test.v -test.timeout 60m -chaos -chaos.store $(STORE) -chaos.only '$(FAULTS)' \
	  $(if $(BASE),-chaos.before $(CURDIR)/bin/before) $(CHAOSFLAGS)

# The programs of another commit.
.PHONY: bin/before
bin/before:
	@echo "building the programs of $(BASE)"
	@rm -rf bin/before bin/before-tree && git worktree prune && git worktree add --quiet --detach bin/before-tree '$(BASE)'
	@cd bin/before-tree && $(MAKE) build PGO=off >/dev/null && cp docs/openapi.yaml bin && mv bin ../before
	@git worktree remove --force bin/before-tree

.PHONY: bench
# The programs of a cluster are needed for its rows only.
bench: $(BINARY)-build $(if $(filter -smoke,$(BENCHFLAGS)),,$(if $(ROWS),$(if $(findstring cluster,$(ROWS)),cluster-programs bin/ferretdb),cluster-programs bin/ferretdb)) ## measure all that has a target, 35 minutes (ROWS='get|create' for some rows)
	$(call need,wrk,wrk)
	@$(GO) build -trimpath -o bin/bench ./tools/bench
	@bin/bench -quire $(BINARY) -rows '$(ROWS)' $(if $(filter -smoke,$(BENCHFLAGS)),-results bin/bench-smoke) $(BENCHFLAGS)

.PHONY: profile
profile: ## renew the profile that quire is built with, two minutes
	@$(MAKE) bench PGO=off ROWS='^(get|create)-256$$$$'
	@cp tools/bench/results/quire.pgo services/standalone/quire.pgo

# Micro-benchmarks of a request's hops. COUNT=10 repetitions and more are what benchstat needs to tell a difference.
MICRO := ./pkg/apikey:Parse ./pkg/event:Batch ./pkg/journal:Appender|Delivery/follow ./pkg/rpc:Batcher ./pkg/document:Memory ./pkg/document/fold:Decide \
  ./pkg/views/sqlite:Commit ./pkg/blob/disk:50MB ./services/billing/internal/account:Apply ./services/billing/internal/projection:Requests ./services/edge/internal/bus:Admit \
  ./services/edge/internal/httpin:Download50MB

.PHONY: bench-micro
bench-micro: ## micro-benchmarks, for benchstat: key check, encoding, folds, batches, view commit, cache (COUNT=6)
	@for each in $(foreach m,$(MICRO),'$(m)'); do \
	  $(TEST) -run '^$$' -bench "$${each#*:}" -benchtime $(or $(BENCHTIME),1s) -count $(or $(COUNT),6) "$${each%%:*}" || exit 1; done

.PHONY: bench-diff
bench-diff: ## whether the files are faster than a commit, with an interval (BASE=main, DIFFFLAGS='-rows get-1')
	$(call need,wrk,wrk)
	@$(GO) run ./tools/bench/diff -base '$(BASE)' $(DIFFFLAGS)

.PHONY: scale
scale: cluster-programs $(if $(findstring -store postgres,$(SCALEFLAGS)),postgres,bin/ferretdb) $(BINARY)-build ## measure clusters of 1, 2 and 4 partitions, for docs/scaling.md (5 minutes; SCALEFLAGS='-store postgres -partitions 1')
	$(call need,wrk,wrk)
	@$(GO) run ./tools/bench/scale -quire $(BINARY) $(SCALEFLAGS)

.PHONY: storage
storage: $(BINARY)-build ## measure the bytes stored for a request at three rates, for docs/scaling.md (15 minutes; STORAGEFLAGS=-smoke)
	@$(GO) run ./tools/bench/storage -quire $(BINARY) $(STORAGEFLAGS)

.PHONY: fmt
fmt: tools/bin/gofumpt ## format the code
	@tools/bin/gofumpt -w $(MODULES)

.PHONY: formatted
formatted: tools/bin/gofumpt ## fail where code is not formatted
	@files=$$(tools/bin/gofumpt -l $(MODULES)); [ -z "$$files" ] || { printf 'not formatted, run "make fmt":\n%s\n' "$$files" >&2; exit 1; }

.PHONY: lint
lint: tools/bin/golangci-lint ## check the code with the rules of .golangci.yml
	$(call each,lint,$(CURDIR)/tools/bin/golangci-lint run ./...)

# The database of known vulnerabilities is a module (tools/vulndb), so that only the module proxy is asked.
GOVULNDB ?= file://$(shell cd tools/vulndb && GOWORK=off $(GO) mod download && GOWORK=off $(GO) list -m -f '{{.Dir}}' golang.org/x/vulndb)/data/osv

.PHONY: vuln
vuln: tools/bin/govulncheck ## look for known vulnerabilities (GOVULNDB=https://vuln.go.dev asks for the newest)
	@tools/bin/govulncheck -db $(GOVULNDB) -mode query -format json golang.org/x/text@v0.3.5 | grep -q '"id": "GO-2021-0113"' \
	  || { echo "$(GOVULNDB) does not know what it must: is it a database?" >&2; exit 1; }
	$(call each,vuln,$(CURDIR)/tools/vuln.sh $(GOVULNDB))

.PHONY: generate
generate: tools/bin/protoc-gen-go tools/bin/protoc-gen-go-vtproto ## make the generated code again
	$(call need,protoc,protobuf-compiler)
	@sh pkg/event/generate.sh
	@$(TEST) ./pkg/host -run TestThePageOfSettings -update
	@$(TEST) ./services/standalone/scenario -run TestEveryMetricIsListed -update
	@$(TEST) ./services/edge/internal/render -run TestTheCommandLineKnowsTheLanguages -update

.PHONY: notices
notices: ## write THIRD_PARTY_NOTICES again, after a change of modules
	@cd deploy && GOWORK=off $(GO) build -trimpath -o ../bin/notices ./notices
	@bin/notices -vendored services/edge/internal/pages/vendored ./services/*/cmd/* >bin/THIRD_PARTY_NOTICES && mv bin/THIRD_PARTY_NOTICES .
	@gzip -9nc THIRD_PARTY_NOTICES >services/standalone/cmd/quire/notices.gz

.PHONY: tidy
tidy: ## tidy every module
	$(call each,tidy,GOWORK=off $(GO) mod tidy)
	@echo "tidy tools"; cd tools && GOWORK=off $(GO) mod tidy

.PHONY: clean
clean: ## remove what was built; data stays
	@rm -rf bin tools/bin coverage

tools/bin/golangci-lint: PACKAGE = github.com/golangci/golangci-lint/v2/cmd/golangci-lint
tools/bin/govulncheck: PACKAGE = golang.org/x/vuln/cmd/govulncheck
tools/bin/gofumpt: PACKAGE = mvdan.cc/gofumpt
tools/bin/protoc-gen-go: PACKAGE = google.golang.org/protobuf/cmd/protoc-gen-go
tools/bin/protoc-gen-go-vtproto: PACKAGE = github.com/planetscale/vtprotobuf/cmd/protoc-gen-go-vtproto
tools/bin/%: tools/go.mod
	@echo "building $*"
	@cd tools && GOWORK=off $(GO) build -o bin/$* $(PACKAGE)

.PHONY: k8s-check
# -count=1: these tests read files of the whole project, and go's cache of results only follows those of their module.
k8s-check: ## check the manifests and the stores' configuration (10 minutes the first time)
	@for module in $(filter deploy tools/k8scheck%,$(ALONE)); do (cd $$module && GOWORK=off $(TEST) -count=1 -timeout 30m ./...) || exit 1; done

K8S_PROGRAMS := k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager sigs.k8s.io/kwok/cmd/kwok

.PHONY: k8s-test
k8s-test: ## apply the manifests to a real API server (builds it: 15 minutes the first time)
	cd tools/k8scheck && GOWORK=off $(GO) build -o bin/etcd go.etcd.io/etcd/server/v3
	cd tools/k8scheck && for program in $(K8S_PROGRAMS); do \
	  GOWORK=off $(GO) build -o bin/$$(basename $$program) $$program || exit 1; done
	cd tools/k8scheck && GOWORK=off $(TEST) -count=1 -timeout 30m -tags cluster -run TestCluster -v .
