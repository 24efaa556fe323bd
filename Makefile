# The commands of this repository. `make` lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# How many seeds `make sim` runs; SEED=n runs that one again.
SEEDS ?= 1000
SEED ?=
# What `make bench` measures.
STORE ?= postgres
WHAT ?= rates

# Crates that prove and measure; they have `publish.workspace = true`, which is false.
UNPUBLISHED := guardrails postgres-server sim store-bench store-comparison store-conformance store-memory

TEST_LOG := target/test.log
TOOLS := $(CURDIR)/target/tools
CARGO_DENY_VERSION := 0.20.2
SCHEMATHESIS_VERSION := 4.32.5

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: test
test: fmt-check lint run-tests guardrails deny package ## everything that CI runs, in its order
	@echo
	@echo 'All checks passed. `make sim SEEDS=10000` looks further for schedules that break a promise.'

.PHONY: fmt
fmt: need-rustfmt ## format the code
	cargo fmt --all

.PHONY: fmt-check
fmt-check: need-rustfmt ## fail where the code is not formatted
	@cargo fmt --all --check || { echo 'The code above is not formatted: run `make fmt`.' >&2; exit 1; }

.PHONY: lint
lint: need-clippy ## clippy and rustdoc over everything, warnings are errors
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked -p posthaste --all-targets --no-default-features --features sqlite -- -D warnings
	cargo clippy --locked -p posthaste --all-targets --no-default-features --features postgres -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps --quiet

# stderr too, and without colour: there cargo says which test binary the results below belong to.
# A seed, so that a run that failed fails again; `cargo test` by itself draws other cases every time.
# pipefail once more, because an old make ignores .SHELLFLAGS and tee would hide a failure.
.PHONY: run-tests
run-tests: need-packages need-schemathesis ## all tests, with their results kept in target/test.log
	@mkdir -p $(dir $(TEST_LOG))
	set -o pipefail; PROPTEST_RNG_SEED=1 cargo test --locked --workspace --all-targets --no-fail-fast --color never 2>&1 | tee $(TEST_LOG)
	set -o pipefail; cargo test --locked --workspace --doc --color never 2>&1 | tee -a $(TEST_LOG)

.PHONY: guardrails
guardrails: ## check target/test.log: no guarded test was dropped, moved, skipped or failed
	cargo run --locked --quiet -p posthaste-guardrails -- tests --log $(TEST_LOG) --requirements docs/requirements.md

.PHONY: deny
deny: ## check dependencies: bans, licences, sources
	@if [ ! -x '$(TOOLS)/bin/cargo-deny' ] && ! command -v cargo-deny >/dev/null; then \
	  echo 'cargo-deny is missing: building $(CARGO_DENY_VERSION) into target/tools, once, in a few minutes'; \
	  cargo install cargo-deny --locked --version $(CARGO_DENY_VERSION) --root '$(TOOLS)'; \
	fi
	PATH='$(TOOLS)/bin':"$$PATH" cargo-deny --locked check --hide-inclusion-graph bans licenses sources

# Without building the packages again: their sources were compiled by the checks above.
.PHONY: package
package: ## pack the crates that are published, into target/package
	cargo package --locked --quiet --workspace $(UNPUBLISHED:%=--exclude posthaste-%) --allow-dirty --no-verify

.PHONY: sim
sim: ## run the simulation on SEEDS seeds (default 1000), or on SEED=n alone
	cargo run --locked --release -p posthaste-sim -- $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

.PHONY: bench
bench: ## measure the stores: rates, and how they hold up (STORE=postgres or sqlite, WHAT=rates, trickle, backlog or all)
	cargo run --locked --release -p posthaste-store-bench -- $(STORE) $(WHAT)

.PHONY: need-rustfmt need-clippy need-packages need-schemathesis
need-rustfmt:
	@cargo fmt --version >/dev/null 2>&1 \
	  || { echo 'cargo fmt is missing: run `rustup component add rustfmt`, or install the package rustfmt.' >&2; exit 1; }
need-clippy:
	@cargo clippy --version >/dev/null 2>&1 \
	  || { echo 'cargo clippy is missing: run `rustup component add clippy`, or install the package rust-clippy.' >&2; exit 1; }
# What the tests run beside Rust, by the names of Debian's packages. Nothing is installed, and nobody asks the
# network, when all of it is there. Tests start servers of their own: where the package would start one as well, it may.
need-packages:
	@missing=(); \
	installed() { command -v "$$1" >/dev/null || compgen -G "/usr/lib/postgresql/*/bin/$$1" >/dev/null; }; \
	for program in initdb postgres pg_ctl; do installed $$program || { missing+=(postgresql); break; }; done; \
	installed psql || missing+=(postgresql-client); \
	PATH="$$PATH:/usr/sbin" command -v pgbouncer >/dev/null || missing+=(pgbouncer); \
	command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium); \
	/usr/bin/python3 -c 'import psycopg2' 2>/dev/null || missing+=(python3-psycopg2); \
	/usr/bin/python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv); \
	if [ $${#missing[@]} -eq 0 ]; then exit 0; fi; \
	as_root=(); \
	if [ "$$(id -u)" -ne 0 ]; then as_root=(sudo); fi; \
	if ! command -v apt-get >/dev/null || { [ $${#as_root[@]} -gt 0 ] && ! command -v sudo >/dev/null; }; then \
	  echo "The tests need these packages, by their Debian names, and they cannot be installed from here: $${missing[*]}." >&2; \
	  exit 1; \
	fi; \
	echo "Installing what the tests need: $${missing[*]}"; \
	install=("$${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "$${missing[@]}"); \
	"$${install[@]}" >/dev/null || { "$${as_root[@]}" apt-get -qq update && "$${install[@]}" >/dev/null; } \
	  || { echo "apt-get could not install $${missing[*]}: see above." >&2; exit 1; }
# Holds the running API to its OpenAPI document. In a folder of its own, so that it meets no other Python.
need-schemathesis: need-packages
	@if ! '$(TOOLS)/schemathesis/bin/schemathesis' --version 2>/dev/null | grep -qF '$(SCHEMATHESIS_VERSION)'; then \
	  echo 'Installing schemathesis $(SCHEMATHESIS_VERSION) into target/tools'; \
	  /usr/bin/python3 -m venv --clear '$(TOOLS)/schemathesis' \
	    && '$(TOOLS)/schemathesis/bin/pip' install --quiet --disable-pip-version-check 'schemathesis==$(SCHEMATHESIS_VERSION)' \
	    || { echo 'schemathesis could not be installed from the Python registry: see above.' >&2; exit 1; }; \
	fi
