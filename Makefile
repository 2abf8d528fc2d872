# Warikomi. The two commands: make demo, make test.

CARGO ?= cargo
WARIKOMI = target/release/warikomi
STEP = scripts/step

.PHONY: help demo test test-long bench lint setup setup-test maker build kernel

help:
	@echo 'make demo       set everything up, boot a kernel, inject 1,000 packets at 38 us'
	@echo 'make test       set everything up, run every test'
	@echo 'make test-long  after make test: the newest kernel, ten minutes of stress on each, a soak, a minute of fuzzing each decoder, Miri and sanitizers'
	@echo 'make bench      the figures of docs/benchmarks.md (leave the machine alone meanwhile)'
	@echo 'make lint       formatting and clippy'

# The kernel and the command at once: neither needs the other.
demo:
	@$(MAKE) --no-print-directory --jobs=2 kernel build
	$(WARIKOMI) inject --driver r8169 --size 1500 --interval 38us --count 1000

test: setup-test build
	@scripts/test

test-long: setup-test build
	@scripts/test-long

bench: build
	@scripts/setup bench
	@scripts/bench

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

setup:
	@$(STEP) 'packages of the distribution' scripts/setup run

# Without Slurm one test is skipped.
setup-test:
	@scripts/setup test
	@scripts/setup slurm || true

# What makes kernels, alone: a tenth of all there is to compile.
maker: setup
	@$(STEP) 'what makes the kernel' $(CARGO) build --release --locked --bin make-kernel

build: maker
	@$(STEP) 'the command' $(CARGO) build --release --locked --bin warikomi

kernel: maker
	@$(STEP) 'the kernel' target/release/make-kernel
