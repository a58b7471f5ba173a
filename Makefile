# The usual tasks; see README.md and CONTRIBUTING.md. Every target installs what it needs.

export PATH := $(HOME)/.cargo/bin:$(PATH)

help: ## Show this list.
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

check: ## Formatting, lints and unit tests: seconds, before every commit.
	scripts/setup.sh rust
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo test --workspace --lib --bins

test: ## Everything: real servers, real drivers, dependency rules, a short fuzz run.
	scripts/test.sh

model: ## The model-based test of shared connections alone, with new scripts and its figures; NARROWS_SEED, NARROWS_STEPS, NARROWS_CLIENTS.
	scripts/setup.sh rust servers mysql9
	NARROWS_SEED=$${NARROWS_SEED:-$$(date +%s)} cargo test --test e2e model:: -- --nocapture

compat: ## The test suites of drivers and tools, against servers and through Narrows; SUITES chooses; hours.
	scripts/setup.sh rust compat mysql9
	cargo build --bin narrows
	tests/compat/run.py $(SUITES)

demo: ## Narrows before a primary and two replicas, under load; DEMO=once leaves at the end.
	scripts/demo.sh

bench: ## Narrows beside a bare forwarder and HAProxy; minutes.
	scripts/setup.sh rust servers load
	cargo build --release --workspace
	target/release/narrows-bench compare
	target/release/narrows-bench instructions --check bench/instructions.json
	target/release/narrows-bench rules
	target/release/narrows-bench restart
	target/release/narrows-bench sysbench --narrows target/release/narrows
	target/release/narrows-bench sysbench --tests oltp_read_only --threads 16 --peers direct,narrows,cached -- --skip-trx=on
	target/release/narrows-bench slap
	target/release/narrows-bench dump --rows 10000000
	cargo test --release --test load monitored -- --nocapture

deb: ## The Debian package, into target/debian, and its check: installed, started, upgraded and removed in a folder.
	scripts/setup.sh rust deb
	cargo build --release -p narrows
	scripts/deb.sh
	scripts/deb-test.sh

fuzz: ## Every fuzz target for FUZZ_SECONDS (30) seconds each.
	scripts/fuzz.sh

docs: ## The API documentation, into target/doc.
	scripts/setup.sh rust
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

.PHONY: help check test model compat demo bench deb fuzz docs
