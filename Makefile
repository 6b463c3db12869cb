# Everything a contributor needs, one line each. `make` alone lists it.
CARGO ?= cargo
# Two cores are enough for everybody else on the machine to go on working.
export CARGO_TERM_PROGRESS_WHEN ?= never

.DEFAULT_GOAL := help
.PHONY: help demo build release check test truth truth-recordings truth-shares cases kills soak kernel static static-arm64 test-arm64 style lint lint-compiled format doc fuzz audit sbom bench instructions packages man web test-web pictures image test-cluster

help: ## this list
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: release ## build, then find what an embedded server carries and what gives first
	@target/release/plimsoll demo

release: ## the optimised program, target/release/plimsoll
	@scripts/packages.sh build
	$(CARGO) build --release -p plimsoll

build: ## everything, unoptimised
	@scripts/packages.sh build
	$(CARGO) build --workspace --all-targets

# Most tests wait for time to pass: four at a time on two cores take two thirds as long as two at a time. Six take a little
# less, and then some fail that ask for a generator which is not kept from running; scripts/run-test.sh names those of which six do.
test: ## all tests; installs what they run against
	@scripts/packages.sh test
	@scripts/guest.sh
	RUST_TEST_THREADS=$(or $(RUST_TEST_THREADS),4) $(CARGO) --config 'target."cfg(unix)".runner=["$(CURDIR)/scripts/run-test.sh"]' test --workspace --no-fail-fast

check: ## what a change needs before it is shown: format, clippy, unit tests and simulation of the crates it touches
	@scripts/check.sh

truth: ## known causes, run live, real servers among them; writes docs/truth.md; CASES=real/nginx RUNS=10 SEED=7 (goes on where 7 was interrupted); KEEP=1 adds the runs to truth/runs.tsv; OBSERVE=light observes less
	@scripts/packages.sh real
	$(if $(KEEP),PLIMSOLL_TRUTH_KEEP=1) PLIMSOLL_TRUTH=$(or $(CASES),all) PLIMSOLL_TRUTH_RUNS=$(or $(RUNS),1) $(if $(SEED),PLIMSOLL_TRUTH_SEED=$(SEED)) $(if $(OBSERVE),PLIMSOLL_TRUTH_OBSERVE=$(OBSERVE)) $(CARGO) test -p plimsoll --test truth -- --nocapture

truth-recordings: ## the recordings of known causes by which rules are tested without root, made anew: a run of each case
	@scripts/packages.sh real
	PLIMSOLL_TRUTH=$(or $(CASES),all) PLIMSOLL_TRUTH_RECORD=1 $(CARGO) test -p plimsoll --test truth -- --nocapture

truth-shares: ## defects of known cost, run live: is the share that is stated the one they have? RUNS=10 each so often
	PLIMSOLL_SHARES=$(or $(RUNS),10) $(CARGO) test -p plimsoll --test shares -- --nocapture

cases: ## the published investigations, run again; writes docs/cases.md (twenty minutes, as root); CASES=proxy-swap,B7 runs those anew
	@scripts/packages.sh test
	PLIMSOLL_CASES=$(or $(CASES),all) $(CARGO) test -p plimsoll --test experiments -- --nocapture the_page_of_cases

static: ## the program with nothing to load beside it, for any Linux of this architecture: target/static/plimsoll
	@scripts/packages.sh build
	@scripts/static.sh

static-arm64: ## the same for arm64, built on x86-64: target/static-arm64/plimsoll
	@scripts/packages.sh arm64
	@scripts/static.sh arm64

test-arm64: static-arm64 ## that program in an emulated arm64 machine: load, probes, a finding; no root needed
	@scripts/guest.sh 6.1-arm64 6.12-arm64
	$(CARGO) test -p plimsoll --test arm64 -- --nocapture

image: static ## the container image of it (OCI, target/image/plimsoll.oci.tar), for arm64 too where make static-arm64 was run, and what it is made of; IMAGE=registry.example/plimsoll:1 names it
	@command -v cargo-cyclonedx >/dev/null || $(CARGO) install cargo-cyclonedx --locked
	@scripts/image.sh

test-cluster: ## agents in a real cluster of Kubernetes' own programs, as root; builds them once (ten minutes, needs Go)
	@scripts/packages.sh cluster
	PLIMSOLL_TEST_KUBERNETES="$$(scripts/cluster/build.sh)" $(CARGO) test -p plimsoll --test cluster -- --nocapture

kernel: static ## echo in the kernel beside nine ways in user space, in guests; writes docs/kernel.md (ten minutes, no root needed); PART=burst does that section anew
	@scripts/packages.sh kernel
	@scripts/guest.sh 6.1 6.12
	PLIMSOLL_KERNEL=$(CURDIR)/target/static/plimsoll $(if $(PART),PLIMSOLL_KERNEL_PART=$(PART)) $(CARGO) test -p plimsoll --test kernel -- --nocapture the_comparison

kills: ## agents, controllers and nodes of NATS killed at random moments, KILLS (default 100) of each, against what the server counted; the disk under NATS full
	@scripts/packages.sh test
	PLIMSOLL_KILLS=$(or $(KILLS),100) $(CARGO) test -p plimsoll --test agents -- --nocapture kills:: full::

soak: ## whole runs on the simulated network, seeds nobody has tried, for SECONDS (default: an hour)
	PLIMSOLL_SIM_SECONDS=$(or $(SECONDS),3600) $(CARGO) test -p plimsoll-session --test runs simulated:: -- --nocapture

style: ## formatting and spelling
	@scripts/packages.sh lint
	$(CARGO) fmt --all --check
	git ls-files -z | xargs -0 codespell

lint: style ## formatting, spelling, clippy and rustdoc, warnings denied
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items

# The other crates are then compiled once, for the tests, and not gone through for clippy and for rustdoc before.
lint-compiled: ## everything compiled for the tests, clippy and rustdoc of each crate with it, warnings denied: lint, where nothing is compiled yet
	@scripts/packages.sh lint
	RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/scripts/compile-and-lint.sh $(CARGO) test --workspace --all-targets --no-run

format: ## format all of it
	$(CARGO) fmt --all

doc: ## the crates' documentation, target/doc
	$(CARGO) doc --workspace --no-deps

fuzz: ## every fuzz target for SECONDS (default 20) each, two at a time; for an hour: SECONDS=3600
	@scripts/packages.sh build
	@fuzz/run.sh all $(or $(SECONDS),20)

audit: ## licences, sources and advisories of everything we depend on
	@command -v cargo-deny >/dev/null || $(CARGO) install cargo-deny --locked
	$(CARGO) deny check

sbom: ## what the program is made of, as CycloneDX: target/plimsoll.cdx.json
	@command -v cargo-cyclonedx >/dev/null || $(CARGO) install cargo-cyclonedx --locked
	@scripts/sbom.sh

bench: ## plimsoll beside its peers: ratios in one run, interleaved (takes a while)
	@scripts/packages.sh bench
	$(CARGO) build --release -p plimsoll -p plimsoll-bench-floor -p plimsoll-bench-runner
	target/release/bench all

instructions: ## instruction counts of the hot loop and the parsers, against the table; UPDATE=1 writes it
	@bench/instructions/run.sh $(if $(UPDATE),--update)

man: ## man pages and completions into target/man
	$(CARGO) run -q -p plimsoll -- man --dir target/man

web: ## the script and style of the HTML report, from web/ into crates/report/assets (needs npm; building the program does not)
	@scripts/web.sh

test-web: ## the HTML report in headless Chromium: no error, no request, axe, keyboard, phone, paper; SHOTS=1 keeps pictures
	@SHOTS=$(SHOTS) scripts/test-web.sh

pictures: ## docs/pictures/report*.png: pages of recordings of truth/, as a browser shows them
	@scripts/pictures.sh

packages: ## install the Debian packages that everything here needs
	@scripts/packages.sh bench
