# Warikomi. The two commands: make demo, make test.

CARGO ?= cargo
WARIKOMI = target/release/warikomi

.PHONY: help demo test bench lint setup setup-test build kernel

help:
	@echo 'make demo    set everything up, boot a kernel, inject 1,000 packets at 38 us'
	@echo 'make test    set everything up, run every test'
	@echo 'make bench   the figures of docs/benchmarks.md (leave the machine alone meanwhile)'
	@echo 'make lint    formatting and clippy'

demo: kernel
	$(WARIKOMI) inject --driver r8169 --size 1500 --interval 38us --count 1000

test: setup-test build
	@scripts/test

bench: kernel
	$(WARIKOMI) bench

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

setup:
	@scripts/setup run

setup-test:
	@scripts/setup test

build: setup
	$(CARGO) build --release --locked --bin warikomi

kernel: build
	$(WARIKOMI) kernel build
