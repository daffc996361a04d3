# Lockbox. `make` alone lists the targets.

GO       ?= go
PREFIX   ?= /usr/local
DESTDIR  ?=
GOFLAGS_ := -trimpath -ldflags="-s -w"
export CGO_ENABLED := 0

.DEFAULT_GOAL := help
.PHONY: help build demo test counts lint generate bench requirements install vm clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/lockbox and bin/lockbox-runner, static
	@mkdir -p bin
	$(GO) build $(GOFLAGS_) -o bin/lockbox ./cmd/lockbox
	$(GO) build $(GOFLAGS_) -o bin/lockbox-runner ./cmd/lockbox-runner

demo: build ## real commands run confined, then a script tries to get out; under a minute
	@$(GO) run ./hack/demo -bin bin

test: ## all tiers: unit, kernel, and both kernels in a VM; prints "N passed, N failed, N skipped"
	@hack/test.sh

counts: ## run the tests and write the committed numbers of kernel tests anew
	@hack/test.sh -update

lint: ## go vet, gofmt, staticcheck, shell syntax
	@hack/lint.sh

generate: ## rebuild the BPF objects and the init program (needs clang 14)
	@hack/generate.sh

bench: build ## start-up, files and network against plain, bwrap and landstrip; BENCH_WRITE=1 writes docs/bench.md
	@$(GO) run ./hack/bench -bin bin

requirements: ## rows of docs/requirements.tsv that no test names
	@$(GO) run ./hack/requirements

install: build ## PREFIX=/usr/local, DESTDIR= for packages
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 0755 bin/lockbox bin/lockbox-runner $(DESTDIR)$(PREFIX)/bin/

vm: ## only the VM tier
	@hack/test.sh -vm

clean: ## what the targets above made
	rm -rf bin .cache test/escape/embedded
