# The commands of this repository. `make` lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# `make sim` runs SEEDS seeds; SEED=n runs only that seed.
SEEDS ?= 1000
SEED ?=
# Arguments of `make bench`: the parts and the stores to measure, a factor for the numbers of events, and the file of the results.
# `target/release/posthaste-bench run --help` lists the parts.
WHAT ?= all
STORE ?= both
SCALE ?=
JSON ?= target/bench.json
# Results of an earlier build, for `make bench-document`.
BEFORE ?= $(wildcard docs/performance/before.json)

# Crates for tests and benchmarks, which are not published.
UNPUBLISHED := bench guardrails postgres-server sim store-comparison store-conformance store-memory

TEST_LOG := target/test.log
TOOLS := $(CURDIR)/target/tools
CARGO_DENY_VERSION := 0.20.2
SCHEMATHESIS_VERSION := 4.32.5
# The SDKs that walk through the API under /api/v1; that of Rust is pinned in tests/sdks/rust/Cargo.toml.
SVIX_PYTHON_VERSIONS := 2.9.1 1.45.1
SVIX_JAVASCRIPT_VERSION := 1.99.1
# Checks the accessibility of the pages, and the types of their modules.
AXE_VERSION := 4.14.0
TYPESCRIPT_VERSION := 7.0.2

# Downloads are repeated: a network that fails for a moment must not fail the checks. apt-get waits while another program, such as
# an automatic upgrade, installs packages.
export CARGO_NET_RETRY := 10
APT_OPTIONS := -qq -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300
PIP_OPTIONS := --quiet --disable-pip-version-check --retries 10 --timeout 60
NPM_OPTIONS := --silent --no-audit --no-fund --fetch-retries=5

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: test
test: fmt-check lint run-tests guardrails deny package ## run all checks, exactly as CI does
	@echo
	@echo 'All checks passed. `make sim SEEDS=10000` searches more schedules for violations.'

.PHONY: fmt
fmt: need-rustfmt ## format the code
	cargo fmt --all

.PHONY: fmt-check
fmt-check: need-rustfmt ## fail if the code is not formatted
	@cargo fmt --all --check || { echo 'The code above is not formatted: run `make fmt`.' >&2; exit 1; }

.PHONY: lint
lint: need-clippy types ## run clippy and rustdoc on all crates; warnings are errors
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked -p posthaste --all-targets --no-default-features --features sqlite -- -D warnings
	cargo clippy --locked -p posthaste --all-targets --no-default-features --features postgres -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps --quiet

.PHONY: types
types: need-typescript ## check the types of the pages' modules
	'$(TOOLS)'/typescript/node_modules/.bin/tsc -p crates/dashboard

# The log includes stderr, because cargo prints there which test binary the results belong to. It has no colour codes.
# A fixed proptest seed makes a failure repeatable; plain `cargo test` draws new cases each time.
# `set -o pipefail` is repeated, because an old make ignores .SHELLFLAGS and tee would hide a failure.
.PHONY: run-tests
run-tests: need-packages need-schemathesis need-sdks need-axe ## run all tests, and write their results to target/test.log
	@mkdir -p $(dir $(TEST_LOG))
	set -o pipefail; PROPTEST_RNG_SEED=1 cargo test --locked --workspace --all-targets --no-fail-fast --color never 2>&1 | tee $(TEST_LOG)
	set -o pipefail; cargo test --locked --workspace --doc --color never 2>&1 | tee -a $(TEST_LOG)

.PHONY: guardrails
guardrails: ## check target/test.log: every guarded test ran and passed
	cargo run --locked --quiet -p posthaste-guardrails -- tests --log $(TEST_LOG) --requirements docs/requirements.md

.PHONY: deny
deny: ## check the bans, licences and sources of dependencies
	@if [ ! -x '$(TOOLS)/bin/cargo-deny' ] && ! command -v cargo-deny >/dev/null; then \
	  echo 'cargo-deny is missing: building $(CARGO_DENY_VERSION) into target/tools, without optimisation; this takes a minute or two, once'; \
	  CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_STRIP=true \
	    cargo install cargo-deny --locked --version $(CARGO_DENY_VERSION) --root '$(TOOLS)'; \
	fi
	PATH='$(TOOLS)/bin':"$$PATH" cargo-deny --locked check --hide-inclusion-graph bans licenses sources

# --no-verify skips building the packages, because the checks above have compiled their sources.
.PHONY: package
package: ## package the published crates into target/package
	cargo package --locked --quiet --workspace $(UNPUBLISHED:%=--exclude posthaste-%) --allow-dirty --no-verify

.PHONY: sim
sim: ## run the simulation with SEEDS seeds (default 1000), or with SEED=n only
	cargo run --locked --release -p posthaste-sim -- $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

.PHONY: bench
bench: ## measure the whole product (WHAT=quick, or drain,latency,crowds:hang_40,…, STORE=sqlite or postgres, SCALE=0.1)
	cargo build --locked --release -p posthaste-cli -p posthaste-bench
	target/release/posthaste-bench run --binary target/release/posthaste --what '$(WHAT)' --store '$(STORE)' $(if $(SCALE),--scale $(SCALE)) --json '$(JSON)'

.PHONY: screenshot
screenshot: need-packages ## take the README's picture of the page again (four minutes)
	cargo build --locked --release -p posthaste-cli
	node docs/page/screenshot.mjs target/release/posthaste "$$(command -v chromium || command -v chromium-browser || command -v google-chrome)"

.PHONY: bench-document
bench-document: ## write the results of `make bench` into docs/performance.md and its plots
	cargo build --locked --release -p posthaste-bench
	target/release/posthaste-bench plot $(BEFORE) '$(JSON)'
	target/release/posthaste-bench document $(BEFORE) '$(JSON)'

.PHONY: need-rustfmt need-clippy need-packages need-schemathesis need-sdks need-axe need-typescript
need-rustfmt:
	@cargo fmt --version >/dev/null 2>&1 \
	  || { echo 'cargo fmt is missing: run `rustup component add rustfmt`, or install the package rustfmt.' >&2; exit 1; }
need-clippy:
	@cargo clippy --version >/dev/null 2>&1 \
	  || { echo 'cargo clippy is missing: run `rustup component add clippy`, or install the package rust-clippy.' >&2; exit 1; }
# Installs the programs that the tests run, by the names of their Debian packages. Without a missing program, it does
# nothing and needs no network. The tests start their own servers and do not use one that a package starts.
need-packages:
	@missing=(); \
	installed() { command -v "$$1" >/dev/null || compgen -G "/usr/lib/postgresql/*/bin/$$1" >/dev/null; }; \
	for program in initdb postgres pg_ctl; do installed $$program || { missing+=(postgresql); break; }; done; \
	installed psql || missing+=(postgresql-client); \
	command -v sqlite3 >/dev/null || missing+=(sqlite3); \
	PATH="$$PATH:/usr/sbin" command -v pgbouncer >/dev/null || missing+=(pgbouncer); \
	command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium); \
	/usr/bin/python3 -c 'import psycopg2' 2>/dev/null || missing+=(python3-psycopg2); \
	/usr/bin/python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv); \
	command -v node >/dev/null || missing+=(nodejs); \
	command -v npm >/dev/null || missing+=(npm); \
	if [ $${#missing[@]} -eq 0 ]; then exit 0; fi; \
	as_root=(); \
	if [ "$$(id -u)" -ne 0 ]; then as_root=(sudo); fi; \
	if ! command -v apt-get >/dev/null || { [ $${#as_root[@]} -gt 0 ] && ! command -v sudo >/dev/null; }; then \
	  echo "The tests need these Debian packages, which this script cannot install (it needs apt-get and root or sudo): $${missing[*]}." >&2; \
	  exit 1; \
	fi; \
	echo "Installing packages for the tests: $${missing[*]}"; \
	install=("$${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get $(APT_OPTIONS) install --yes --no-install-recommends "$${missing[@]}"); \
	"$${install[@]}" >/dev/null || { "$${as_root[@]}" apt-get $(APT_OPTIONS) update && "$${install[@]}" >/dev/null; } \
	  || { echo "apt-get could not install $${missing[*]}; see its output above." >&2; exit 1; }
# Schemathesis compares the running API with its OpenAPI document. It has its own virtual environment.
need-schemathesis: need-packages
	@if ! '$(TOOLS)/schemathesis/bin/schemathesis' --version 2>/dev/null | grep -qF '$(SCHEMATHESIS_VERSION)'; then \
	  echo 'Installing schemathesis $(SCHEMATHESIS_VERSION) into target/tools'; \
	  /usr/bin/python3 -m venv --clear '$(TOOLS)/schemathesis' \
	    && '$(TOOLS)/schemathesis/bin/pip' install $(PIP_OPTIONS) 'schemathesis==$(SCHEMATHESIS_VERSION)' \
	    || { echo 'pip could not install schemathesis; see its output above.' >&2; exit 1; }; \
	fi
# The SDKs that tests/sdks tries, each at its pinned version, in a directory of its own.
need-sdks: need-packages
	@for version in $(SVIX_PYTHON_VERSIONS); do \
	  tool='$(TOOLS)'/svix-python-$$version; \
	  if [ "$$("$$tool/bin/python" -c 'import importlib.metadata; print(importlib.metadata.version("svix"))' 2>/dev/null)" != $$version ]; then \
	    echo "Installing svix $$version for Python into target/tools"; \
	    /usr/bin/python3 -m venv --clear "$$tool" \
	      && "$$tool/bin/pip" install $(PIP_OPTIONS) "svix==$$version" \
	      || { echo "pip could not install svix $$version; see its output above." >&2; exit 1; }; \
	  fi; \
	done
	@tool='$(TOOLS)'/svix-javascript; \
	if ! grep -qF '"version": "$(SVIX_JAVASCRIPT_VERSION)"' "$$tool/node_modules/svix/package.json" 2>/dev/null; then \
	  echo 'Installing svix $(SVIX_JAVASCRIPT_VERSION) for JavaScript into target/tools'; \
	  mkdir -p "$$tool" && npm install $(NPM_OPTIONS) --prefix "$$tool" 'svix@$(SVIX_JAVASCRIPT_VERSION)' \
	    || { echo 'npm could not install svix; see its output above.' >&2; exit 1; }; \
	fi
	cargo build --locked --quiet --manifest-path tests/sdks/rust/Cargo.toml --target-dir '$(TOOLS)'/svix-rust
# The tests of the pages run axe-core in the browser; tsc checks the types of their modules.
need-axe: need-packages
	@$(call npm_tool,axe-core,$(AXE_VERSION))
need-typescript: need-packages
	@$(call npm_tool,typescript,$(TYPESCRIPT_VERSION))
# Installs an npm package, which is named first, at its pinned version into a directory of its own.
define npm_tool
tool='$(TOOLS)'/$(1); \
	if ! grep -qF '"version": "$(2)"' "$$tool/node_modules/$(1)/package.json" 2>/dev/null; then \
	  echo 'Installing $(1) $(2) into target/tools'; \
	  mkdir -p "$$tool" && npm install $(NPM_OPTIONS) --prefix "$$tool" '$(1)@$(2)' \
	    || { echo 'npm could not install $(1); see its output above.' >&2; exit 1; }; \
	fi
endef
