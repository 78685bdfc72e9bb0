# martlet: everything starts here. `make help` lists the targets.
# The first part of each stamp's recipe checks the machine, so that what is missing is said in a sentence.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_FOR_TESTS := $(VENV)/.installed-for-tests
# Keystone brings eighty packages that nothing else needs.
KEYSTONE_VENV := .venv-keystone
KEYSTONE_INSTALLED := $(KEYSTONE_VENV)/.installed
# Sphinx brings thirty.
DOC_VENV := .venv-doc
DOC_INSTALLED := $(DOC_VENV)/.installed
# The driver of a browser has 40 MB.
CONSOLE_VENV := .venv-console
CONSOLE_INSTALLED := $(CONSOLE_VENV)/.installed
ANSIBLE_VENV := .venv-ansible
ANSIBLE_INSTALLED := $(ANSIBLE_VENV)/.installed
AUDIT_VENV := .venv-audit
AUDIT_INSTALLED = $(AUDIT_VENV)/.installed-$(PIP_AUDIT_VERSION)-$(GOVULNCHECK_VERSION)
OBJECT_SERVER := build/bin/martlet-object-server
GO_SOURCES := $(shell find object-server -name '*.go' ! -name '*_test.go' 2>/dev/null) \
	object-server/go.mod object-server/go.sum
STATICCHECK_VERSION := v0.8.2
# staticcheck's own go.mod asks for this one.
STATICCHECK_GO_MINOR := 26
GOSEC_VERSION := v2.30.0
GOVULNCHECK_VERSION := v1.9.0
PIP_AUDIT_VERSION := 2.10.1
# Each finding of these was read. 103: memory outside of the heap, ioctl. 115: conversions whose
# values a format or a check before them bounds; 304, 703, 704: paths and addresses come from
# operators. 401, 501: MD5 is Swift's ring and Etag.
GOSEC_EXCLUDE := G103,G115,G304,G401,G501,G703,G704
UP_ARGS ?=
# The interpreter for which a Debian package is built.
SYSTEM_PYTHON ?= /usr/bin/python3
VERSION := $(shell sed -n 's/^version = //p' setup.cfg)
# The branch that a change is for; `make quick` tests what differs from it.
BASE ?= main
CRASH_STATES ?= 1000000
CRASH_SEED ?= 1
FUZZ_SECONDS ?= 60
LINEAR_SECONDS ?= 60

GOFMT_CHECK := unformatted=$$(gofmt -l object-server); if [ -n "$$unformatted" ]; then \
	echo "gofmt would change: $$unformatted" >&2; exit 1; fi

# Go tests of which the race detector gets a part. `make go-test` runs them whole without it.
THINNED := TestPowerCuts$$|RecycledSegments|StateMachine|EqualsModel|OnReplicas|OrderDoesNotMatter|FlippedHeaders
# Go tests in which the race detector finds nothing and takes ten times as long: one goroutine, or
# what other tests run as well. `make go-test` runs them without it.
ONE_GOROUTINE := TestPowerCutsFindLies$$|TestOldAndNewSegments|TestFilter$$|TestPackedIndexIsItsModel|TestMemoryEqualsWalk|TestTombstonesOfManyDays|TestCopySharesBytes|TestSpreadDeletesOnFullDevice|TestMemoryMeetsDamage|TestRepairOfBadSectors|TestOpenOnBadSectors|TestDamagesFile|TestFullDeviceRecovers|TestFullDeviceIsSplit|TestDeleteVersionsAfterCrash|TestVersionsOnABadSector|TestDamageToVersions|TestDamagedPartitionsAreSplit

# Never fetch another Go than the one that is installed.
export GOTOOLCHAIN := local
# Images of containers often set it. Then each process of a test compiles all that it loads anew.
export PYTHONDONTWRITEBYTECODE :=
# A registry may be slow, or away for a moment.
export PIP_TIMEOUT ?= 60
export PIP_RETRIES ?= 8
export MARTLET_OBJECT_SERVER := $(CURDIR)/$(OBJECT_SERVER)

.DEFAULT_GOAL := help
.PHONY: help build up down status test quick check unit tidy coverage site functional functional-full keystone console-test go-check go-security audit go-test crash linear fuzz \
	attack nemesis upgrade-test conformance judge judge-installed wheel release units ansible try-install try-ansible bench bench-beside-jobs bench-bulk bench-cache-in-front bench-compare bench-engine bench-grid bench-lifecycle bench-listing bench-memory bench-outliers bench-pipeline bench-rebuild bench-releases bench-ring bench-sharding bench-upkeep clean test-tools

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: $(INSTALLED) $(OBJECT_SERVER) ## install into .venv and build the object server

up: build ## start the cluster here, until Ctrl-C (UP_ARGS="--nodes 4" for more nodes)
	@exec $(BIN)/martlet up $(UP_ARGS)

down: $(INSTALLED) ## stop the cluster
	@$(BIN)/martlet down

status: $(INSTALLED) ## show what runs
	@$(BIN)/martlet status

test: ## everything that must pass before a change lands
	@# First what keeps one processor busy or waits for a download, four of it at a time. Then unit
	@# tests and Go's: each leaves a fifth of two processors idle.
	@$(MAKE) --no-print-directory -j4 --output-sync=target go-check check tidy site units wheel $(KEYSTONE_INSTALLED) judge-installed
	@$(MAKE) --no-print-directory -j2 --output-sync=line unit go-test
	@# These wait for their clusters a quarter of the time, so that they share the processors. Their
	@# ports are apart.
	@$(MAKE) --no-print-directory -j3 --output-sync=target functional keystone judge
	@echo "make test: all passed"

quick: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) ## lint, types, unit tests of what differs from BASE=main: two minutes for a usual change
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(GOFMT_CHECK)
	cd object-server && go vet ./...
	$(BIN)/pytest -q test/tidy
	@.ci/quick-tests $(BIN) $(BASE)
	@echo "make quick: all passed"

check: $(INSTALLED_FOR_TESTS) ## Python: lint and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=test/support:bench:test/conformance:test/attack:test/nemesis:test/upgrade $(BIN)/mypy bench/*.py bench/compare/*.py test/support/*.py test/tidy/*.py \
		test/functional/*.py test/conformance/*.py test/keystone/*.py test/attack/*.py test/nemesis/*.py test/upgrade/*.py packaging/trial/*.py .ci/*.py doc/conf.py

unit: $(INSTALLED_FOR_TESTS) test-tools ## Python: unit tests
	$(BIN)/pytest -q -n 3 test/unit

coverage: $(INSTALLED_FOR_TESTS) .go-ok test-tools ## unit tests of both languages: a table of how much of each package they run
	@mkdir -p build/coverage
	$(BIN)/pytest -q -n 2 --cov --cov-report=json:build/coverage/python.json \
		--cov-report=html:build/coverage/python test/unit
	cd object-server && go test -timeout=60m -coverpkg=./... -coverprofile=../build/coverage/go.out ./...
	cd object-server && go tool cover -html=../build/coverage/go.out -o ../build/coverage/go.html
	@.ci/coverage_table.py build/coverage/python.json build/coverage/go.out
	@echo "lines: build/coverage/python/index.html, build/coverage/go.html"

site: $(DOC_INSTALLED) ## build/site: the pages as HTML; a link that leads nowhere is an error
	$(DOC_VENV)/bin/sphinx-build -q -W --keep-going -c doc -d build/site-cache -b html . build/site

tidy: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) ## the rules of the house: imports, sizes, options, docs
	$(BIN)/pytest -q test/tidy

functional: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) test-tools ## real processes, through the API
	$(BIN)/pytest -q -n 3 --dist loadfile --no-loadscope-reorder --durations=10 test/functional

keystone: $(INSTALLED_FOR_TESTS) $(KEYSTONE_INSTALLED) $(OBJECT_SERVER) ## tenants and quotas with a real Keystone
	MARTLET_PORTS=26240-30239 MARTLET_KEYSTONE=$(CURDIR)/$(KEYSTONE_VENV)/bin \
		$(BIN)/pytest -q --durations=5 test/keystone

console-test: $(CONSOLE_INSTALLED) $(KEYSTONE_INSTALLED) $(OBJECT_SERVER) ## the console in a real browser, Chromium, also with a real Keystone (CONSOLE_ARGS="-k sharing"; MARTLET_SCREENSHOTS=doc/images)
	PYTHONPATH=test/console MARTLET_KEYSTONE=$(CURDIR)/$(KEYSTONE_VENV)/bin \
		$(CONSOLE_VENV)/bin/pytest -q -p no:cacheprovider $(CONSOLE_ARGS) test/console

functional-full: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) test-tools ## as functional, with the whole of Go's src
	MARTLET_TEST_FULL_TREE=1 $(BIN)/pytest -q -n 3 --dist loadfile --no-loadscope-reorder --durations=10 test/functional

go-check: .go-ok ## Go: format, vet, staticcheck
	@$(GOFMT_CHECK)
	cd object-server && go vet ./...
	@minor=$$(go env GOVERSION | sed -E 's/^go1\.([0-9]+).*/\1/'); \
	if [ "$$minor" -ge $(STATICCHECK_GO_MINOR) ]; then \
		cd object-server && go run honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION) ./...; \
	else echo "skipped: staticcheck $(STATICCHECK_VERSION) needs Go 1.$(STATICCHECK_GO_MINOR), this is 1.$$minor"; fi

go-security: .go-ok ## Go: patterns that are often a hole (gosec; to build it takes minutes, once)
	cd object-server && go run github.com/securego/gosec/v2/cmd/gosec@$(GOSEC_VERSION) -quiet \
		-exclude=$(GOSEC_EXCLUDE) -exclude-dir=bench -exclude-dir=proof ./...

audit: go-security $(AUDIT_INSTALLED) ## go-security, and known vulnerabilities of what we depend on (asks their databases)
	$(PYTHON) .ci/audit $(AUDIT_VENV)/bin

go-test: .go-ok test-tools ## Go: tests under the race detector
	@# The package that takes longest is first, so that the others run beside it. GOGC: a third less CPU.
	@# vet: go-check has run all of it.
	cd object-server && GOGC=400 go test -race -vet=off -timeout=60m -skip '$(ONE_GOROUTINE)' ./device ./...
	@# All of the engine, which takes seconds without the detector. -count: Go keeps results although
	@# a page or a golden file has changed, because both are outside of its module.
	cd object-server && GOGC=400 go test -vet=off -count=1 ./bundle/...
	@# The samples and models of which the race detector gets a part run whole.
	cd object-server && GOGC=400 go test -vet=off -count=1 -run 'Page|Golden|Example|$(THINNED)|$(ONE_GOROUTINE)' ./device/... ./cmd/...

crash: .go-ok ## Go: states that a power cut may leave (CRASH_STATES=1000000, CRASH_SEED=1)
	cd object-server && MARTLET_CRASH_STATES=$(CRASH_STATES) MARTLET_CRASH_SEED=$(CRASH_SEED) GOGC=400 \
		go test -count=1 -timeout=0 -v -run '^TestPowerCuts$$' ./device

linear: .go-ok ## Go: what concurrent clients see has an order (LINEAR_SECONDS=60 for each sync method)
	cd object-server && MARTLET_LINEAR_SECONDS=$(LINEAR_SECONDS) go test -count=1 -timeout=0 -v -run '^TestLinearizable' ./device ./server

fuzz: .go-ok ## Go: every fuzz target in turn (FUZZ_SECONDS=60 each)
	@$(PYTHON) .ci/fuzz $(FUZZ_SECONDS)

conformance: $(INSTALLED_FOR_TESTS) $(if $(findstring keystone,$(CONFORMANCE_ARGS)),$(KEYSTONE_INSTALLED)) $(OBJECT_SERVER) test-tools ## what others' suites say of us (CONFORMANCE_ARGS="fuzz")
	MARTLET_KEYSTONE=$(CURDIR)/$(KEYSTONE_VENV)/bin PYTHONPATH=test/support:bench $(BIN)/python test/conformance/run.py $(CONFORMANCE_ARGS)

judge-installed: $(INSTALLED_FOR_TESTS)
	@PYTHONPATH=test/support:bench $(BIN)/python test/conformance/run.py --install

judge: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) ## OpenStack Swift's own suites for both APIs, and requests that make no sense
	MARTLET_PORTS=22240-26239 PYTHONPATH=test/support:bench $(BIN)/python test/conformance/run.py swift s3 fuzz

attack: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) test-tools ## kills, nonsense and slow clients at once (ATTACK_ARGS="--seconds 60 --seed 7")
	PYTHONPATH=$(CURDIR):test/support:test/conformance:bench $(BIN)/python test/attack/attack.py $(ATTACK_ARGS)

nemesis: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) test-tools ## random faults of five hosts under load, and equal replicas after each (NEMESIS_ARGS="--seconds 3600 --seed 7")
	PYTHONPATH=$(CURDIR):test/support:test/attack:bench $(BIN)/python test/nemesis/nemesis.py $(NEMESIS_ARGS)

upgrade-test: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) test-tools ## a rolling upgrade from the release before under load, and back (UPGRADE_ARGS="--from v0.1.0 --seed 7")
	PYTHONPATH=$(CURDIR):test/support:test/attack:test/nemesis:bench $(BIN)/python test/upgrade/upgrade.py $(UPGRADE_ARGS)

wheel: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) ## build the wheel, install it elsewhere, start a cluster from it
	@.ci/smoke-wheel $(BIN)/python

release: $(INSTALLED_FOR_TESTS) .go-ok ## all files of a release, with checksums, in build/release (SYSTEM_PYTHON=/usr/bin/python3)
	packaging/build-release $(BIN)/python $(SYSTEM_PYTHON) build/release

units: ## check the systemd units
	.ci/check-units

try-install: release ## doc/install.md and the runbooks by their pages, on hosts with systemd; units, a Prometheus (root, Debian)
	for then in units prometheus runbooks; do \
		TRY_THEN=packaging/trial/$$then packaging/try-install build/release/martlet_$(VERSION)_*.deb || exit; done

ansible: $(ANSIBLE_INSTALLED) ## lint and syntax of the Ansible role
	@cd packaging/ansible && export PATH=$(CURDIR)/$(ANSIBLE_VENV)/bin:$$PATH && ansible-lint --offline -q --nocolor && \
		ansible-playbook -i inventory.example.yml --syntax-check site.yml upgrade.yml

try-ansible: $(ANSIBLE_INSTALLED) $(KEYSTONE_INSTALLED) release ## the Ansible role on three hosts with systemd, also with Keystone (root, Debian)
	packaging/try-ansible $(ANSIBLE_VENV)/bin/ansible-playbook $(KEYSTONE_VENV)/bin build/release/martlet_$(VERSION)_*.deb

bench: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) test-tools ## what a small object costs (BENCH_ARGS="--objects 1000")
	$(BIN)/python bench/small_objects.py $(BENCH_ARGS)

bench-bulk: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) ## an archive beside single PUTs (BENCH_ARGS="--files 2000")
	$(BIN)/python bench/bulk.py $(BENCH_ARGS)

bench-pipeline: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) ## CPU of the whole pipeline beside a short one (BENCH_ARGS="--rounds 9")
	$(BIN)/python bench/pipeline.py $(BENCH_ARGS)

bench-releases: $(INSTALLED_FOR_TESTS) ## CPU of a small PUT and GET in several releases (BENCH_ARGS="5288686c /src/new")
	$(BIN)/python bench/releases.py $(BENCH_ARGS)

bench-outliers: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) ## CPU of bulk deletes, new containers, metadata, logs, many containers
	$(BIN)/python bench/outliers.py $(BENCH_ARGS)

bench-compare: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) test-tools ## beside other object stores; their build takes long, once (BENCH_ARGS="--help")
	PYTHONPATH=$(CURDIR):bench $(BIN)/python -m compare $(BENCH_ARGS)

bench-grid: .go-ok ## the grid beside plain HTTP and TCP (BENCH_ARGS="-rounds 3 -only streams")
	cd object-server && go run ./bench/grid $(BENCH_ARGS)

bench-lifecycle: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) ## old versions removed by lifecycle rules, also beside MinIO (BENCH_ARGS="--help")
	$(BIN)/python bench/lifecycle.py $(BENCH_ARGS)

bench-listing: $(INSTALLED_FOR_TESTS) ## listings of 1,000,000 objects beside OpenStack Swift's, some minutes
	$(BIN)/python bench/listing.py $(BENCH_ARGS)

bench-beside-jobs: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) ## latency of requests while replicator and auditor run
	$(BIN)/python bench/beside_jobs.py $(BENCH_ARGS)

bench-memory: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) ## memory of the background programs beside 10,000,000 objects
	$(BIN)/python bench/background_memory.py $(BENCH_ARGS)

bench-rebuild: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) ## the rebuild of a replaced disk beside OpenStack Swift's (BENCH_ARGS="--objects 5000")
	$(BIN)/python bench/rebuild.py $(BENCH_ARGS)

bench-sharding: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) ## a container of 5,000,000 rows is sharded under load (BENCH_ARGS="--rows 1000000")
	$(BIN)/python bench/sharding.py $(BENCH_ARGS)

bench-ring: $(INSTALLED_FOR_TESTS) ## the ring beside OpenStack Swift's, some minutes (BENCH_ARGS="read --rounds 5")
	$(BIN)/python bench/ring_speed.py $(BENCH_ARGS)

bench-cache-in-front: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) ## CPU of GETs with nginx as a cache in front; nginx must be installed
	$(BIN)/python bench/cache_in_front.py $(BENCH_ARGS)

bench-upkeep: $(INSTALLED_FOR_TESTS) $(OBJECT_SERVER) ## requests while the proxy starts anew, and CPU of a scrape of metrics
	$(BIN)/python bench/upkeep.py $(BENCH_ARGS)

bench-engine: .go-ok ## the storage engine by itself (BENCH_ARGS="throughput --rounds 9")
	$(PYTHON) bench/engine.py $(BENCH_ARGS)

clean: ## remove what was built and installed; the cluster's data (MARTLET_HOME) stay
	rm -rf $(VENV) $(KEYSTONE_VENV) $(DOC_VENV) $(CONSOLE_VENV) $(ANSIBLE_VENV) $(AUDIT_VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- stamps ---------------------------------------------------------------------------------------

$(BIN)/python:
	@.ci/preflight $(PYTHON)
	@echo "martlet: making $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(INSTALLED): setup.cfg pyproject.toml constraints.txt | $(BIN)/python
	@echo "martlet: installing into $(VENV)"
	@$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt setuptools
	@$(BIN)/pip install -q --disable-pip-version-check --no-build-isolation -c constraints.txt -e '.[client]'
	@touch $@

$(INSTALLED_FOR_TESTS): $(INSTALLED)
	@echo "martlet: installing the test tools into $(VENV)"
	@$(BIN)/pip install -q --disable-pip-version-check --no-build-isolation -c constraints.txt -e '.[test]'
	@touch $@

$(KEYSTONE_INSTALLED): setup.cfg pyproject.toml constraints.txt constraints-keystone.txt | $(BIN)/python
	@echo "martlet: installing Keystone into $(KEYSTONE_VENV)"
	@$(PYTHON) -m venv $(KEYSTONE_VENV)
	@$(KEYSTONE_VENV)/bin/pip install -q --disable-pip-version-check -c constraints.txt setuptools
	@$(KEYSTONE_VENV)/bin/pip install -q --disable-pip-version-check --no-build-isolation \
		-c constraints.txt -c constraints-keystone.txt -e '.[keystone-test]'
	@touch $@

# Tools that need nothing of martlet: their names for people, the environment, the constraints.
define install-tools
@.ci/preflight $(PYTHON)
@echo "martlet: installing $(1) into $(2)"
@$(PYTHON) -m venv $(2)
@$(2)/bin/pip install -q --disable-pip-version-check -c constraints.txt -r $(3)
@touch $@
endef

$(DOC_INSTALLED): constraints.txt constraints-doc.txt
	$(call install-tools,Sphinx,$(DOC_VENV),constraints-doc.txt)

$(ANSIBLE_INSTALLED): constraints.txt constraints-ansible.txt
	$(call install-tools,Ansible,$(ANSIBLE_VENV),constraints-ansible.txt)

$(CONSOLE_INSTALLED): setup.cfg pyproject.toml constraints.txt constraints-console.txt
	@.ci/preflight $(PYTHON)
	@echo "martlet: installing the driver of a browser into $(CONSOLE_VENV)"
	@$(PYTHON) -m venv $(CONSOLE_VENV)
	@$(CONSOLE_VENV)/bin/pip install -q --disable-pip-version-check -c constraints.txt setuptools
	@$(CONSOLE_VENV)/bin/pip install -q --disable-pip-version-check --no-build-isolation \
		-c constraints.txt -c constraints-console.txt -e . playwright pytest
	@touch $@

$(AUDIT_INSTALLED):
	@echo "martlet: installing pip-audit and govulncheck into $(AUDIT_VENV)"
	@$(PYTHON) -m venv $(AUDIT_VENV)
	@$(AUDIT_VENV)/bin/pip install -q --disable-pip-version-check pip-audit==$(PIP_AUDIT_VERSION)
	@GOBIN=$(CURDIR)/$(AUDIT_VENV)/bin go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
	@touch $@

.go-ok:
	@.ci/preflight $(PYTHON)

.PHONY: .go-ok

$(OBJECT_SERVER): $(GO_SOURCES)
	@.ci/preflight $(PYTHON)
	@echo "martlet: building the object server"
	@mkdir -p $(@D)
	@cd object-server && go build -trimpath -buildvcs=false -ldflags "-X main.version=$(VERSION)" -o ../$@ ./cmd/martlet-object-server
	@ln -sf $(@F) $(@D)/martlet-object-relinker

test-tools:
	@.ci/test-tools
