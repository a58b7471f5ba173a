# The usual tasks; see README.md and CONTRIBUTING.md. Every target installs what it needs.

export PATH := $(HOME)/.cargo/bin:$(PATH)

# The program as `make release` builds it.
OPTIMIZED = target/optimized/narrows

help: ## Show this list.
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

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

console: ## Every page of the console in Chromium, and narrows top, before a sandbox under load; pictures into target/console.
	tests/console/run.sh

demo: ## Narrows before a primary and two replicas, under load; DEMO=once leaves at the end.
	scripts/demo.sh

bench: release ## Narrows beside a bare forwarder and HAProxy; writes docs/benchmarks.md; an hour, most of it builds.
	target/release/narrows-bench publish --narrows $(OPTIMIZED) --rounds 9
	target/release/narrows-bench restart --narrows $(OPTIMIZED)
	target/release/narrows-bench sysbench --narrows $(OPTIMIZED)
	target/release/narrows-bench sysbench --narrows $(OPTIMIZED) --tests oltp_read_only --threads 16 --peers direct,narrows,cached -- --skip-trx=on
	target/release/narrows-bench slap --narrows $(OPTIMIZED)
	target/release/narrows-bench dump --narrows $(OPTIMIZED) --rows 10000000
	cargo test --release --test load monitored -- --nocapture

bench-quick: ## The main cases of bench, noisier, in less than a minute once built.
	scripts/setup.sh rust load
	cargo build --release -p narrows -p narrows-bench
	target/release/narrows-bench compare --quick --peers forwarder,haproxy,narrows --cases point-16,point-128,socket-64,execute-64

instructions: ## What a statement costs in instructions, compared with bench/instructions.json.
	scripts/setup.sh rust load
	cargo build --profile demo -p narrows
	cargo build -p narrows-bench
	target/debug/narrows-bench instructions --narrows target/demo/narrows --check bench/instructions.json

release: ## The program as it is released, optimised for a profile of itself, into target/optimized; a quarter of an hour.
	scripts/setup.sh rust servers load profile
	scripts/release.sh

deb: release ## The Debian package, into target/debian, and its check: installed, started, upgraded and removed in a folder.
	scripts/setup.sh deb
	scripts/deb.sh
	scripts/deb-test.sh

package: release ## All that is released, into target/package: packages, an archive, an image, checksums; and its checks.
	scripts/setup.sh servers drivers deb package
	scripts/package.sh
	scripts/package-test.sh

fuzz: ## Every fuzz target for FUZZ_SECONDS (30) seconds each.
	scripts/fuzz.sh

book: ## README and docs/ as a book with a search, into target/book/html; checks its links, and that readers find answers.
	scripts/setup.sh rust book
	scripts/book.sh

docs: ## The API documentation, into target/doc.
	scripts/setup.sh rust
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

.PHONY: help check test model compat console demo bench bench-quick instructions release deb package fuzz book docs
