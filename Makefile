# Needs Go, make, bash, git and awk; the race detector in `make test-all` needs a C
# compiler, `make test-browser` chromium and chromedriver. Recipes of more than a
# few lines are scripts in hack.

.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

GO ?= go
IMAGE ?= ghcr.io/quartermaster-dra/quartermaster:dev
# What the image is for, and whether it is pushed to IMAGE: PUSH=1. docker load without Docker's containerd image store takes the first
# platform only: IMAGE_PLATFORMS=linux/arm64 for a machine with that.
IMAGE_PLATFORMS ?= linux/amd64,linux/arm64
PUSH ?=
# What `make dist` makes archives for: scheduler and guard, and kubectl devices.
DIST_PLATFORMS ?= linux/amd64,linux/arm64
KUBECTL_PLATFORMS ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64

# Packages all of whose tests need more than what `make test` builds (the previous release, other releases of Kubernetes, the builder of
# images), or minutes (soak): make test-all runs them.
LATER_PACKAGES := ./test/upgrade/... ./test/compat/... ./test/soak ./test/image
# What runs programs of others, which it needs in bin: a real driver, Kueue, Karpenter, the descheduler, and the scheduler as a library.
NEIGHBOUR_PACKAGES := ./test/driver ./test/kueue ./test/karpenter ./test/descheduler ./test/schedulerlibrary
# Packages with benchmarks.
BENCH_PACKAGES := ./pkg/allocator
# How long and how often bench-allocator runs each benchmark. It reports medians.
BENCH_TIME ?= 100ms
BENCH_COUNT ?= 10
# Packages that keep something between pods, with benchmarks of that.
STATE_PACKAGES := ./pkg/selector ./pkg/inventory ./pkg/ledger ./internal/cluster/allocationlog
# How many pods with an expression of their own bench-selectors tries to place.
EXPRESSIONS ?= 2000
# What bench-perf runs: workloads by a regular expression, and how often each.
WORKLOADS ?= .
ROUNDS ?= 1
# bench-placement takes every how many-th node of the cluster.
PLACEMENT_SCALE ?= 4
# What bench-guard runs, of the workloads where devices are taken.
GUARD_WORKLOADS ?= ^ClaimTemplate/full_500nodes
# The pure packages of the benchmarks' module, which are tested with the rest.
PERF_UNIT_PACKAGES := ./workload ./report ./cluster ./cpuprofile ./timing ./process ./gangs
# Modules of their own whose tests need no API server. $(call test_module,FOLDER,FLAGS): go test in one of them.
UNIT_MODULES := test/perf test/monitoring tools/image tools/dist tools/vulncheck
test_module = $(GO) -C $1 test -vet=off -ldflags='-s -w' -timeout $(UNIT_TIMEOUT) $2 $(if $(filter test/perf,$1),$(PERF_UNIT_PACKAGES),./...)
# What looks at pages with Debian's chromium.
BROWSER_PACKAGES := ./test/webmap
# Test processes at a time: those with an API server wait more than they compute.
TEST_PARALLEL ?= 3
# How many runs `make beside` makes of each kind, and how long `make soak` takes.
BESIDE_RUNS ?= 10
SOAK_DURATION ?= 10m
# How often `make guard` replaces guards in each burst, and how long each attack goes on.
GUARD_REPLACEMENTS ?= 20
GUARD_ATTACK ?= 10s
UNIT_TIMEOUT ?= 10m
# What `make cover` tests.
COVER_PACKAGES ?= ./...
INTEGRATION_TIMEOUT ?= 30m
# How long `make simulation` takes new seeds.
SIMULATION ?= 10m
# How many histories with new seeds `make test` and `make test-all` live through. The seeds come from the files of the commit, so that
# each change meets others, and a run of the same files the same ones. They have about 110,000 and 1,000,000 events.
NEW_HISTORIES ?= 110
NEW_HISTORIES_OF_ALL ?= 1000
NEW_SEED := $(shell printf '%d' "0x0$$(git rev-parse --verify --quiet 'HEAD^{tree}' 2>/dev/null | cut -c1-12)")
LATER_SEED := $(shell expr $(NEW_SEED) + $(NEW_HISTORIES))
# The Kubernetes releases of test-compat. Each has a module in test/compat, named after
# the minor release.
COMPAT_RELEASES ?= 1.29.3 1.30.4 1.31.4 1.32.2 1.33.13 1.34.4 1.35.4 1.36.3
# What test/upgrade runs beside ours: a tag or a commit.
PREVIOUS ?= $(shell sed -n '/^[^#]/p' hack/previous-release)
PREVIOUS_COMMIT := $(shell git rev-parse --verify --quiet '$(PREVIOUS)^{commit}')
# How many random scenarios the allocator and upstream's must agree on.
SCENARIOS ?= 100000
FUZZ_TIME ?= 10m

# The version that the binaries report: that of the Kubernetes libraries, with
# our commit as build metadata. The date is the commit's, so that a build can be
# repeated.
K8S_VERSION := $(shell awk '$$1 == "k8s.io/kubernetes" { print $$2; exit }' go.mod)
COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
TREE_STATE := $(if $(shell git status --porcelain --untracked-files=no 2>/dev/null),dirty,clean)
BUILD_DATE := $(shell TZ=UTC0 git show -s --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd HEAD 2>/dev/null || echo 1970-01-01T00:00:00Z)
# The release: the tag of the commit, or what Go calls a commit without one. The binaries in the cluster do not report it:
# their version has to be Kubernetes', and names the commit. kubectl devices reports it.
TAG := $(if $(filter clean,$(TREE_STATE)),$(shell git describe --tags --exact-match --match 'v[0-9]*' HEAD 2>/dev/null))
RELEASE := $(or $(TAG),v0.0.0-$(shell TZ=UTC0 git show -s --date=format-local:%Y%m%d%H%M%S --format=%cd HEAD 2>/dev/null || echo 00010101000000)-$(COMMIT)$(if $(filter dirty,$(TREE_STATE)),.dirty))
VERSION := $(K8S_VERSION)+quartermaster.$(COMMIT)$(if $(filter dirty,$(TREE_STATE)),.dirty)

# The two packages that report a version, set as the release builds of Kubernetes
# set them. $(1): name=value pairs.
set_version = $(foreach package,k8s.io/component-base/version k8s.io/client-go/pkg/version,$(addprefix -X $(package).,$(1)))
K8S_MAJOR_MINOR := $(subst ., ,$(patsubst v%,%,$(K8S_VERSION)))
K8S_LDFLAGS = -s -w $(call set_version,gitMajor=$(word 1,$(K8S_MAJOR_MINOR)) gitMinor=$(word 2,$(K8S_MAJOR_MINOR)))
STOCK_LDFLAGS = $(K8S_LDFLAGS) $(call set_version,gitVersion=$(K8S_VERSION))
LDFLAGS = $(K8S_LDFLAGS) $(call set_version,gitVersion=$(VERSION) gitCommit=$(COMMIT) gitTreeState=$(TREE_STATE) buildDate=$(BUILD_DATE)) \
	-X github.com/quartermaster-dra/quartermaster/internal/kubectl.release=$(RELEASE)

# Static binaries without the paths of this machine. Everything but the race
# detector uses the same settings, because what is compiled under others is not
# reused, and kube-apiserver takes minutes. The version comes from the flags
# above, not from what go finds in the repository. Data for debuggers, which takes
# a fifth of the compiler's time, is left out: the binaries are stripped of it anyway.
export CGO_ENABLED := 0
OPTIMIZED := $(strip $(GOFLAGS) -trimpath -buildvcs=false -gcflags=all=-dwarf=false)
# Packages that only the API server and the controller manager use are compiled without optimization, which takes a fifth less. Only
# `make bench-perf` and its like measure these: their compiler optimizes everything.
CONTROL_PLANE := cmd/kube-controller-manager pkg/controller pkg/controlplane pkg/generated pkg/kubelet pkg/printers pkg/registry pkg/volume plugin
export GOFLAGS := $(OPTIMIZED) $(foreach folder,$(CONTROL_PLANE),'-gcflags=k8s.io/kubernetes/$(folder)/...=-dwarf=false -N -l')
bench bench-%: export GOFLAGS := $(OPTIMIZED)
GO_BUILD := hack/with-progress $(GO) build
# What serves as an older control plane, is a neighbour with older libraries, or is tested with the race detector, and is not measured: compiled
# without optimization, which takes a fifth less.
# Packages of third parties keep the settings above, so that those of the main module are reused.
# Each flag is quoted as a whole, for recipes and for GOFLAGS.
UNOPTIMIZED := '-gcflags=k8s.io/...=-dwarf=false -N -l' '-gcflags=sigs.k8s.io/...=-dwarf=false -N -l'

# Everything that goes into our own binaries.
SOURCES = $(shell find cmd internal pkg manifests examples test/controlplane test/playground test/realslices test/builder test/checker -type f ! -name '*_test.go')

.PHONY: help
help: ## list the targets (the default)
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: bin/scheduler bin/guard bin/playground bin/kubectl-devices bin/kubectl_complete-devices bin/kwok ## build bin/scheduler, bin/guard, bin/playground, the kubectl plugin bin/kubectl-devices and the node simulator bin/kwok

.PHONY: demo
demo: demo-begins bin/scheduler bin/playground bin/kwok ## schedule pods with every kind of claim, and every file in examples, on a real API server, and check the result
	bin/playground demo
	@$(if $(wildcard bin/kubectl-devices),true,echo "demo: bin/kubectl-devices and bin/guard are built by: make build")

.PHONY: demo-begins
demo-begins:
	@$(if $(and $(wildcard bin/scheduler),$(wildcard bin/playground)),true,echo "demo: this builds a scheduler and a whole Kubernetes control plane from source into bin (the first time about 7 minutes on two cores, later seconds), starts them on loopback, and schedules about 250 pods (a minute), among them those of every file in examples. Nothing is installed.")

.PHONY: playground
playground: playground-begins build ## keep a cluster running on this machine until Ctrl-C (PLAYGROUND_FLAGS="--nodes 20")
	bin/playground up $(PLAYGROUND_FLAGS)

.PHONY: playground-begins
playground-begins:
	@$(if $(and $(wildcard bin/scheduler),$(wildcard bin/playground),$(wildcard bin/kubectl-devices)),true,echo "playground: this builds a scheduler, a kubectl plugin and a whole Kubernetes control plane from source into bin (the first time minutes, later seconds), starts a cluster on loopback, and keeps it until Ctrl-C. Nothing is installed.")

# Whatever is compiled by `make demo` serves here as well: the settings are the same. No vet: `make verify` runs it.
GO_TEST = $(GO) test -vet=off -count=1 -ldflags='-s -w'
# Collecting the garbage of all processes less often saves a tenth of their time, for a few hundred MB, as in hack/test.
NEIGHBOUR_TEST = GOGC=$${GOGC:-400} $(GO_TEST)

.PHONY: test
test: build bin/kube-scheduler bin/kubectl ## run the most important tests of each package (minutes)
	@echo "test: $(NEW_HISTORIES) new histories of the simulation, from seed $(NEW_SEED) on"
	@SIMULATION_NEW=$(NEW_SEED),$(NEW_HISTORIES) GO='$(GO)' hack/test -short -p $(TEST_PARALLEL) -timeout $(UNIT_TIMEOUT) -- $(LATER_PACKAGES) $(NEIGHBOUR_PACKAGES) $(BROWSER_PACKAGES)

# The older release whose control plane has the least to compile: 70 MB of Go that nothing else
# builds (1.31 and 1.33 a little more, 1.30 and 1.29 one and a half times as much). The others are
# left to `make test-compat`.
.PHONY: test-all
# The last ones wait for servers and programs of others, which are built meanwhile: three at a time.
test-all: test-race test-rest ## run all tests that "make test" leaves out, among them those of compatibility with one older release
	@PROGRESS=brief $(MAKE) --no-print-directory -j3 --output-sync=target COMPAT_RELEASES=1.32.2 \
		test-chart test-compat test-modules test-karpenter test-kueue test-driver test-descheduler test-schedulerlibrary test-browser

# In a clone without the previous release, the tests of upgrades are skipped, and say so.
.PHONY: test-rest
test-rest: build bin/kube-scheduler bin/kubectl bin/image-builder bin/registry $(if $(PREVIOUS_COMMIT),bin/previous/scheduler bin/previous/guard)
	@echo "test: $(NEW_HISTORIES_OF_ALL) new histories of the simulation, from seed $(LATER_SEED) on"
	@SIMULATION_NEW=$(LATER_SEED),$(NEW_HISTORIES_OF_ALL) ALLOCATOR_SCENARIOS=$(SCENARIOS) LATER_PACKAGES='$(LATER_PACKAGES)' GO='$(GO)' hack/test -p $(TEST_PARALLEL) -timeout $(INTEGRATION_TIMEOUT) -- $(NEIGHBOUR_PACKAGES) $(BROWSER_PACKAGES)

.PHONY: test-race
test-race: export GOFLAGS += $(UNOPTIMIZED)
test-race: ## run the tests of all packages that have goroutines with the race detector
	@GO='$(GO)' hack/test-race -p $(TEST_PARALLEL) -timeout $(UNIT_TIMEOUT)

.PHONY: cover
cover: build bin/kube-scheduler bin/kubectl ## say how much of the code the tests of COVER_PACKAGES (all) reach, merged
	@GO='$(GO)' hack/cover -p 2 -timeout $(INTEGRATION_TIMEOUT) $(COVER_PACKAGES)

.PHONY: simulation
simulation: ## live through new random histories in virtual time for SIMULATION (10m)
	@$(GO_TEST) -timeout 0 -v ./test/simulation -seed 0 -duration $(SIMULATION)

.PHONY: simulation-faults
simulation-faults: ## put earlier faults back, and see that random histories in virtual time find each
	@GO='$(GO)' hack/simulation-faults

.PHONY: test-differential
test-differential: ## compare the allocator with upstream's on SCENARIOS random scenarios
	@ALLOCATOR_SCENARIOS=$(SCENARIOS) $(GO_TEST) -timeout 1h -v -run '^TestSameAsUpstream$$' ./pkg/allocator

.PHONY: fuzz
fuzz: ## look for scenarios in which the allocator and upstream's differ, for FUZZ_TIME
	@GO='$(GO)' hack/fuzz $(FUZZ_TIME)

.PHONY: test-modules
test-modules: ## run the tests of the modules beside the main one that need no API server
	@$(foreach module,$(UNIT_MODULES),$(call test_module,$(module)) &&) true

# A module of its own, with Helm's dependencies: its control plane is bin/playground.
.PHONY: test-chart
test-chart: build ## compare the Helm chart with the kustomizations, and install, upgrade, roll back and uninstall it
	@$(call test_module,test/chart,-v)

.PHONY: test-driver
test-driver: build bin/dra-example-kubeletplugin bin/dra-example-controller ## have a real driver prepare the devices of its own example workloads
	@$(NEIGHBOUR_TEST) -timeout $(INTEGRATION_TIMEOUT) ./test/driver

.PHONY: test-kueue
test-kueue: build bin/kueue bin/jobset ## run jobs that the real Kueue admits
	@$(NEIGHBOUR_TEST) -timeout $(INTEGRATION_TIMEOUT) ./test/kueue

.PHONY: test-karpenter
test-karpenter: build bin/karpenter ## run pods for which the real Karpenter adds and removes nodes
	@$(NEIGHBOUR_TEST) -timeout $(INTEGRATION_TIMEOUT) ./test/karpenter

.PHONY: test-descheduler
test-descheduler: build bin/descheduler ## have the real descheduler evict pods with devices
	@$(NEIGHBOUR_TEST) -timeout $(INTEGRATION_TIMEOUT) ./test/descheduler

.PHONY: test-schedulerlibrary
test-schedulerlibrary: bin/schedulerlibrary ## compare what-if answers with those of kube-scheduler as a library, and the times
	@$(GO_TEST) -v -timeout $(UNIT_TIMEOUT) ./test/schedulerlibrary

# BROWSER_REQUIRED=1 makes it fail where there is no browser, WEBMAP_PICTURES=1 takes the pictures of docs/kubectl-devices.md#the-map.
.PHONY: test-browser
test-browser: ## look at the map of kubectl devices web with chromium (Debian's packages chromium and chromium-driver; skipped without)
	@{ command -v chromium && command -v chromedriver; } >/dev/null || echo "test-browser: there is no chromium or no chromedriver; on Debian: apt-get install chromium chromium-driver"
	@$(GO_TEST) -v -timeout $(UNIT_TIMEOUT) $(BROWSER_PACKAGES)

# Their control planes are built in modules of their own, which are not among those that
# verify-modules looks at: that would download all that these releases depend on.
.PHONY: test-compat
test-compat: build $(foreach r,$(COMPAT_RELEASES),bin/compat/kube-apiserver-$(r) bin/compat/kube-controller-manager-$(r) bin/compat/kube-scheduler-$(r)) ## run core tests on the older releases COMPAT_RELEASES (the first time, 10 minutes for each)
	@GO='$(GO)' hack/test-compat -timeout $(INTEGRATION_TIMEOUT) -- $(COMPAT_RELEASES)

.PHONY: test-upgrade
test-upgrade: build bin/kube-scheduler bin/previous/scheduler bin/previous/guard ## run the tests of upgrades from PREVIOUS (a tag or a commit) and back
	@$(GO_TEST) -v -timeout $(INTEGRATION_TIMEOUT) ./test/upgrade/...

.PHONY: beside
beside: build bin/kube-scheduler ## run two schedulers side by side on the same devices, BESIDE_RUNS times (minutes)
	@BESIDE_RUNS=$(BESIDE_RUNS) $(GO_TEST) -v -timeout 60m ./test/beside

.PHONY: soak
soak: build bin/kube-scheduler ## run four schedulers on the same devices for SOAK_DURATION, with pods that come and go
	@SOAK_DURATION=$(SOAK_DURATION) $(GO_TEST) -v -timeout 0 ./test/soak

.PHONY: guard
guard: build bin/kube-scheduler ## kill, pause and replace guards GUARD_REPLACEMENTS times during bursts, and attack one for GUARD_ATTACK (minutes)
	@GUARD_REPLACEMENTS=$(GUARD_REPLACEMENTS) GUARD_ATTACK=$(GUARD_ATTACK) $(GO_TEST) -v -timeout 60m ./test/guard

.PHONY: bench
bench: bench-allocator bench-selectors bench-state bench-perf bench-process ## run all benchmarks, beside upstream's code (hours)

.PHONY: bench-publish
bench-publish: bench-allocator bench-selectors bench-state bench-published-workloads bench-process ## measure, write test/perf/results, and make the tables of docs/design/performance.md from it (50 minutes on two cores)
	@$(GO) run ./hack/benchtable -publish bin/bench -document docs/design/performance.md \
		-conditions "Commit $$(git rev-parse --short HEAD), $$(getconf _NPROCESSORS_ONLN) cores"

.PHONY: bench-tables
bench-tables: ## make the tables of docs/design/performance.md from test/perf/results
	@$(GO) run ./hack/benchtable -document docs/design/performance.md

.PHONY: bench-published-workloads
bench-published-workloads: bin/etcd
	@GO='$(GO)' hack/bench bin/bench -selection published.txt -rounds $(ROUNDS)

.PHONY: bench-limit
bench-limit: bin/etcd ## measure bursts beside a plugin that decides nothing and only makes the writes: the most that a scheduler plugin can reach (ROUNDS=2)
	@GO='$(GO)' hack/bench bin/bench -selection limit.txt -limit -rounds $(ROUNDS)

.PHONY: bench-guard
bench-guard: build bin/etcd bin/kube-scheduler ## measure the guard: its latency, and workloads beside another scheduler's allocations as shipped, with settling off, and with a guard (minutes)
	@GUARD_LATENCY_SECONDS=10 $(GO_TEST) -v -run '^TestLatency$$' ./test/guard
	@GO='$(GO)' hack/bench bin/bench -workloads '$(GUARD_WORKLOADS)' -rounds $(ROUNDS) -guard "$(CURDIR)/bin/guard"

.PHONY: bench-placement
bench-placement: build bin/kube-scheduler ## play a quarter of a production cluster (PLACEMENT_SCALE=1: all of it) on a real API server, with Quartermaster and with kube-scheduler's own plugin (minutes)
	@$(GO) run ./test/placement/sim
	@PLACEMENT_SCALE=$(PLACEMENT_SCALE) $(GO_TEST) -v -timeout 60m -run '^TestOpenb$$' ./test/placement
	@PLACEMENT_SCALE=$(PLACEMENT_SCALE) PLACEMENT_SCHEDULER=in-tree $(GO_TEST) -v -timeout 60m -run '^TestOpenb$$' ./test/placement

.PHONY: bench-selectors
bench-selectors: ## measure what EXPRESSIONS distinct expressions, one a pod, cost in time and memory (minutes)
	@mkdir -p bin/bench
	@$(GO) test -run '^$$' -bench '^BenchmarkDistinctExpressions$$' -benchmem -benchtime $(EXPRESSIONS)x -timeout 60m ./pkg/allocator >bin/bench/selectors.txt || \
		{ cat bin/bench/selectors.txt; exit 1; }
	@cat bin/bench/selectors.txt

.PHONY: bench-state
bench-state: ## run the benchmarks of what is kept between pods: pools, the ledger, selectors' results (a minute)
	@mkdir -p bin/bench
	@$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCH_TIME) $(STATE_PACKAGES) >bin/bench/state.txt || \
		{ cat bin/bench/state.txt; exit 1; }
	@cat bin/bench/state.txt

.PHONY: bench-short
bench-short: bin/etcd ## run a small selection of the workloads of bench-perf (minutes)
	@GO='$(GO)' hack/bench bin/bench -only-short

.PHONY: bench-allocator
bench-allocator: ## print a table of the allocator's benchmarks, beside upstream's allocator (some minutes)
	@mkdir -p bin/bench
	@$(GO) test -run '^$$' -bench 'Allocate|New' -benchmem -benchtime $(BENCH_TIME) -count $(BENCH_COUNT) $(BENCH_PACKAGES) >bin/bench/allocator.txt || \
		{ cat bin/bench/allocator.txt; exit 1; }
	@$(GO) run ./hack/benchtable <bin/bench/allocator.txt

.PHONY: bench-perf
bench-perf: bin/etcd ## run workloads in a cluster with each plugin (WORKLOADS=regexp ROUNDS=3)
	@GO='$(GO)' hack/bench bin/bench -workloads '$(WORKLOADS)' -rounds $(ROUNDS)

.PHONY: bench-process
bench-process: bin/scheduler bin/kube-scheduler bin/playground bin/bench-process ## measure each scheduler's own process, also while drivers republish and nodes flap (PROCESS_FLAGS="-nodes 200 -claims 500")
	@cd test/perf && ../../bin/bench-process $(PROCESS_FLAGS)

.PHONY: verify
verify: verify-format verify-rules verify-modules verify-vet verify-staticcheck verify-vulnerabilities ## check formatting, English, modules and code, and look for known vulnerabilities

.PHONY: verify-format
verify-format:
	@echo "verify: gofmt"
	@unformatted=$$(gofmt -l .) && if [ -n "$$unformatted" ]; then \
		echo "not formatted; run gofmt -w on:" $$unformatted >&2; exit 1; fi

.PHONY: verify-rules
verify-rules:
	@echo "verify: comments, messages and documents in plain English; calculations with quantities take a bounded time"
	@$(GO) test -vet=off -run 'TestPlainEnglish|TestHardToRead|TestQuantitiesAreSafe' ./test/architecture

.PHONY: verify-modules
verify-modules:
	@echo "verify: go.mod and go.sum (run go mod tidy where there is a difference)"
	@$(GO) mod tidy -diff
	@$(GO) -C tools/kwok mod tidy -diff
	@$(GO) -C tools/image mod tidy -diff
	@$(GO) -C tools/dist mod tidy -diff
	@$(GO) -C tools/vulncheck mod tidy -diff
	@$(GO) -C tools/driver mod tidy -diff
	@$(GO) -C tools/kueue mod tidy -diff
	@$(GO) -C tools/karpenter mod tidy -diff
	@$(GO) -C tools/descheduler mod tidy -diff
	@$(GO) -C tools/schedulerlibrary mod tidy -diff
	@$(GO) -C test/perf mod tidy -diff
	@$(GO) -C test/monitoring mod tidy -diff
	@$(GO) -C test/chart mod tidy -diff
	@hack/verify-replaces go.mod test/perf/go.mod
	@hack/verify-replaces go.mod test/chart/go.mod

.PHONY: verify-vet
verify-vet:
	@echo "verify: go vet (minutes, if nothing is cached)"
	@hack/with-progress $(GO) vet -v ./...
	@hack/with-progress $(GO) -C test/perf vet -v ./...
	@hack/with-progress $(GO) -C test/monitoring vet -v ./...
	@hack/with-progress $(GO) -C test/chart vet -v ./...
	@hack/with-progress $(GO) -C tools/image vet -v ./...
	@hack/with-progress $(GO) -C tools/dist vet -v ./...
	@hack/with-progress $(GO) -C tools/vulncheck vet -v ./...
	@hack/with-progress $(GO) -C tools/karpenter vet -v ./...
	@hack/with-progress $(GO) -C tools/schedulerlibrary vet -v ./...

.PHONY: verify-staticcheck
verify-staticcheck:
	@echo "verify: staticcheck (minutes, if nothing is cached)"
	@$(GO) tool staticcheck ./...

# GOVULNDB is the database, also of files (file:///folder); GOVULNDB_REQUIRED=1 makes it fail where that cannot be reached.
GOVULNDB ?= https://vuln.go.dev
.PHONY: verify-vulnerabilities
verify-vulnerabilities: bin/vulncheck
	@echo "verify: known vulnerabilities in what is shipped"
	@bin/vulncheck -database '$(GOVULNDB)' $(if $(GOVULNDB_REQUIRED),-required) ./cmd/scheduler ./cmd/guard ./cmd/kubectl-devices

bin/vulncheck: FORCE | bin
	@$(GO_BUILD) -C tools/vulncheck -v -o ../../$@ .

.PHONY: image
image: bin/image.tar ## build the container image without a container engine: bin/image.tar, named IMAGE (docker load may take the first of IMAGE_PLATFORMS only); PUSH=1 pushes it

comma := ,
binaries_of = $(foreach p,$(subst $(comma), ,$(2)),$(addprefix bin/platforms/$(subst /,-,$(p))/,$(1)))

IMAGE_PARTS = $(call binaries_of,scheduler guard,$(IMAGE_PLATFORMS)) bin/image-builder bin/image-licenses
BUILD_IMAGE = bin/image-builder -binaries bin/platforms -licenses bin/image-licenses -platforms '$(IMAGE_PLATFORMS)' -created '$(BUILD_DATE)'

# The same commit gives the same bits, with the same version of Go.
.PHONY: bin/image.tar
bin/image.tar: $(IMAGE_PARTS)
	@$(BUILD_IMAGE) -output $@ -name '$(IMAGE)' -version '$(RELEASE)' -revision '$(COMMIT)' $(if $(PUSH),-push '$(IMAGE)')

# The files of the image in a folder, for the Dockerfile; IMAGE_PLATFORMS has to be one platform. They are read-only, and so are their folders.
.PHONY: bin/image-root
bin/image-root: $(IMAGE_PARTS)
	@if [ -d $@ ]; then chmod -R u+w $@ && rm -r $@; fi
	@$(BUILD_IMAGE) -root $@

# What the labels of the image say: docker build $(make -s build-args) .
.PHONY: build-args
build-args:
	@echo "--build-arg VERSION=$(RELEASE) --build-arg REVISION=$(COMMIT) --build-arg CREATED=$(BUILD_DATE)"

.PHONY: bin/image-licenses
bin/image-licenses: bin/license-collector
	@bin/license-collector -platforms '$(IMAGE_PLATFORMS)' -output $@ .:./cmd/scheduler,./cmd/guard \
		tools/image:golang.org/x/crypto/x509roots/fallback/bundle

bin/image-builder: FORCE | bin
	@$(GO_BUILD) -C tools/image -v -o ../../$@ .

# A registry in memory, for tests.
bin/registry: tools/image/go.mod tools/image/go.sum | bin
	@echo "build: $@"
	@$(GO_BUILD) -C tools/image -v -o ../../$@ github.com/google/go-containerregistry/cmd/registry
	@touch $@

# The chart of a release asks for the image of that release.
dist: IMAGE = ghcr.io/quartermaster-dra/quartermaster:$(RELEASE)

.PHONY: dist
dist: bin/image.tar bin/dist-builder $(call binaries_of,scheduler guard,$(DIST_PLATFORMS)) $(call binaries_of,kubectl-devices,$(KUBECTL_PLATFORMS)) ## put a release together in bin/dist: archives, bills of materials, krew's manifest, the image, checksums (the first time, half an hour)
	@rm -rf bin/dist
	@bin/dist-builder -version '$(RELEASE)' -kubernetes '$(K8S_VERSION)' -created '$(BUILD_DATE)' -image bin/image.tar \
		-platforms '$(DIST_PLATFORMS)' -kubectl-platforms '$(KUBECTL_PLATFORMS)'

bin/dist-builder: FORCE | bin
	@$(GO_BUILD) -C tools/dist -v -o ../../$@ .

bin/license-collector: FORCE | bin
	@$(GO_BUILD) -C tools/dist -v -o ../../$@ ./cmd/licenses

# bin/platforms/OS-ARCHITECTURE/PROGRAM
bin/platforms/%: $(SOURCES) go.mod go.sum bin/.version | bin
	@echo "build: $@ $(VERSION) (minutes, if nothing is cached)"
	@GOOS=$(word 1,$(subst -, ,$(notdir $(@D)))) GOARCH=$(word 2,$(subst -, ,$(notdir $(@D)))) \
		$(GO_BUILD) -v -ldflags '$(LDFLAGS)' -o $@ ./cmd/$(@F)
	@touch $@

# The environment of these recipes, for go commands by hand.
.PHONY: settings
settings:
	@echo "export CGO_ENABLED=$$CGO_ENABLED GOFLAGS=\"$$GOFLAGS\""

.PHONY: clean
clean: ## remove what was built
	@if [ -d bin/image-root ]; then chmod -R u+w bin/image-root; fi
	rm -rf bin

bin:
	@mkdir -p $@

# Changes only when the version does, so that binaries are linked again then.
bin/.version: FORCE | bin
	@if [ "$$(cat $@ 2>/dev/null)" != '$(VERSION) $(RELEASE)' ]; then echo '$(VERSION) $(RELEASE)' >$@; fi

.PHONY: FORCE
FORCE:

# Two in one command, so that one is linked while the other is compiled: first those that make demo needs.
define ours_rule
$(addprefix bin/,$(1)) &: $$(SOURCES) go.mod go.sum bin/.version | bin
	@echo "build: $(addprefix bin/,$(1)) $$(VERSION) (minutes, if nothing is cached)"
	@$$(GO_BUILD) -v -ldflags '$$(LDFLAGS)' -o bin/ $(addprefix ./cmd/,$(1))
	@touch $(addprefix bin/,$(1))
endef
$(eval $(call ours_rule,scheduler playground))
$(eval $(call ours_rule,guard kubectl-devices))

# What kubectl runs to complete the arguments of the plugin.
bin/kubectl_complete-devices: cmd/kubectl-devices/kubectl_complete-devices | bin
	@cp $< $@

# Kubernetes' own binaries, for tests.
bin/kube-scheduler bin/kubectl: bin/%: go.mod go.sum | bin
	@echo "build: $@ $(K8S_VERSION)"
	@$(GO_BUILD) -v -ldflags '$(STOCK_LDFLAGS)' -o $@ k8s.io/kubernetes/cmd/$*
	@touch $@

# Control planes and schedulers of other releases, for test-compat.
define compat_rule
bin/compat/kube-apiserver-$(1) bin/compat/kube-controller-manager-$(1) bin/compat/kube-scheduler-$(1): bin/compat/%-$(1): test/compat/$(basename $(1))/go.mod test/compat/$(basename $(1))/go.sum | bin
	@echo "build: $$@ (minutes, if nothing is cached)"
	@$$(GO_BUILD) -C test/compat/$(basename $(1)) -v $$(UNOPTIMIZED) -ldflags '-s -w $$(call set_version,gitMajor=1 gitMinor=$$(patsubst 1.%,%,$(basename $(1))) gitVersion=v$(1))' -o ../../../$$@ k8s.io/kubernetes/cmd/$$*
	@touch $$@
endef
$(foreach r,$(COMPAT_RELEASES),$(eval $(call compat_rule,$(r))))

# The previous release, from the history of this repository.
bin/previous/scheduler: bin/.previous hack/build-previous
	@GO='$(GO)' hack/build-previous '$(PREVIOUS)' bin/previous

bin/previous/guard: bin/previous/scheduler ;

bin/.previous: FORCE | bin
	@if [ "$$(cat $@ 2>/dev/null)" != '$(PREVIOUS) $(PREVIOUS_COMMIT)' ]; then echo '$(PREVIOUS) $(PREVIOUS_COMMIT)' >$@; fi

bin/bench-process: FORCE | bin
	@$(GO_BUILD) -C test/perf -v -o ../../$@ ./process

# The etcd that the benchmarks start, of the version that bin/playground has.
bin/etcd: test/perf/go.mod test/perf/go.sum | bin
	@echo "build: $@"
	@$(GO_BUILD) -C test/perf -v -ldflags '-s -w' -o ../../$@ go.etcd.io/etcd/server/v3
	@touch $@

# A module of its own, which keeps its dependencies out of ours.
bin/kwok: tools/kwok/go.mod tools/kwok/go.sum | bin
	@echo "build: $@"
	@$(GO_BUILD) -C tools/kwok -v -ldflags '-s -w' -o ../../$@ sigs.k8s.io/kwok/cmd/kwok
	@touch $@

# Neighbours that tests run the scheduler beside, in modules of their own for the same reason. The descheduler and Karpenter have
# the main module's versions of what they share with it, schedulerlibrary, Kueue and JobSet the driver's, so that each is compiled once.
bin/dra-example-kubeletplugin bin/dra-example-controller: bin/%: tools/driver/go.mod tools/driver/go.sum | bin
	@echo "build: $@"
	@$(GO_BUILD) -C tools/driver -v $(UNOPTIMIZED) -ldflags '-s -w' -o ../../$@ sigs.k8s.io/dra-example-driver/cmd/$*
	@touch $@

bin/kueue: tools/kueue/go.mod tools/kueue/go.sum | bin
	@echo "build: $@"
	@$(GO_BUILD) -C tools/kueue -v $(UNOPTIMIZED) -ldflags '-s -w' -o ../../$@ sigs.k8s.io/kueue/cmd/kueue
	@touch $@

bin/jobset: tools/kueue/go.mod tools/kueue/go.sum | bin
	@echo "build: $@"
	@$(GO_BUILD) -C tools/kueue -v $(UNOPTIMIZED) -ldflags '-s -w' -o ../../$@ sigs.k8s.io/jobset
	@touch $@

bin/descheduler: tools/descheduler/go.mod tools/descheduler/go.sum | bin
	@echo "build: $@"
	@$(GO_BUILD) -C tools/descheduler -v -ldflags '-s -w' -o ../../$@ sigs.k8s.io/descheduler/cmd/descheduler
	@touch $@

bin/schedulerlibrary: tools/schedulerlibrary/main.go tools/schedulerlibrary/go.mod tools/schedulerlibrary/go.sum | bin
	@echo "build: $@ (minutes, if nothing is cached)"
	@$(GO_BUILD) -C tools/schedulerlibrary -v $(UNOPTIMIZED) -ldflags '-s -w' -o ../../$@ .
	@touch $@

bin/karpenter: tools/karpenter/main.go tools/karpenter/go.mod tools/karpenter/go.sum | bin
	@echo "build: $@"
	@$(GO_BUILD) -C tools/karpenter -v -ldflags '-s -w' -o ../../$@ .
	@touch $@
