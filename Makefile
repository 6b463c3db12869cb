# Everything a contributor needs, one line each. `make` alone lists it.
CARGO ?= cargo
# Two cores are enough for everybody else on the machine to go on working.
export CARGO_TERM_PROGRESS_WHEN ?= never

.DEFAULT_GOAL := help
.PHONY: help demo build release test lint format doc fuzz audit bench packages man

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: release ## build, then find what an embedded server carries and what gives first
	@target/release/plimsoll demo

release: ## the optimised program, target/release/plimsoll
	@scripts/packages.sh build
	$(CARGO) build --release -p plimsoll

build: ## everything, unoptimised
	@scripts/packages.sh build
	$(CARGO) build --workspace --all-targets

test: ## all tests; installs what they run against
	@scripts/packages.sh test
	@scripts/guest.sh
	$(CARGO) test --workspace --no-fail-fast

lint: ## formatting, clippy and rustdoc, warnings denied
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items

format: ## format all of it
	$(CARGO) fmt --all

doc: ## the crates' documentation, target/doc
	$(CARGO) doc --workspace --no-deps

fuzz: ## every fuzz target for SECONDS (default 20) each
	@scripts/packages.sh build
	@for target in $$(ls fuzz/seeds); do fuzz/run.sh $$target $(or $(SECONDS),20) || exit 1; done

audit: ## licences, sources and advisories of everything we depend on
	@command -v cargo-deny >/dev/null || $(CARGO) install cargo-deny --locked
	$(CARGO) deny check

bench: ## plimsoll beside its peers: ratios in one run, interleaved (takes a while)
	@scripts/packages.sh bench
	$(CARGO) build --release -p plimsoll -p plimsoll-bench-floor -p plimsoll-bench-runner
	target/release/bench all

man: ## man pages and completions into target/man
	$(CARGO) run -q -p plimsoll -- man --dir target/man

packages: ## install the Debian packages that everything here needs
	@scripts/packages.sh bench
